# pyright: basic
"""One process and two make the same update."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import torch
import trl
from cluster.launches import environment
from safetensors.torch import load_file
from tests import forks
from tests.tiny import tiny_model, tiny_tokenizer
from tests.training import one_sft
from tests.training.gradients import error
from tests.training.one_update import CASES, updates
from tests.training.sft_runs import rows, write_data

from rlcr.training.sft import train_sft

ROOT = Path(__file__).parents[2]


def torchrun(*arguments: str, **variables: str) -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | variables
    done = subprocess.run(
        forks.torchrun("-m", *arguments),
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def known(number: float | None) -> float:
    """Not a number of the kind that is measured, where there is none."""
    return -1.0 if number is None else number


def test_two_processes_make_the_update_of_one(tmp_path: Path) -> None:
    torchrun("tests.training.one_update", str(tmp_path / "two"))
    two, one = torch.load(tmp_path / "two" / "found.pt"), updates(tmp_path / "one")
    for case in CASES:
        assert two[case]["rollouts"] == one[case]["rollouts"], case
        assert error(two[case]["gradient"], one[case]["gradient"]) < 1e-5, case
        assert [*map(known, two[case]["mismatch"].values())] == pytest.approx(
            [*map(known, one[case]["mismatch"].values())], rel=1e-4
        ), case


def test_none_leaves_before_the_others_are_done(tmp_path: Path) -> None:
    torchrun("tests.training.ending", str(tmp_path))
    assert [(tmp_path / f"process-{rank}").read_text() for rank in (0, 1)] == ["True True"] * 2


def test_supervised_training_on_weights_in_parts_is_that_of_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its model is saved whole. DeepSpeed is not installed here: see `make cluster`."""
    model = tmp_path / "start"
    tiny_model(max_position_embeddings=2048).save_pretrained(model)
    tiny_tokenizer().save_pretrained(model)
    # Completions of unlike lengths: a loss that each process averaged by itself would differ.
    lines = [row | {"completion": row["completion"] * (1 + n % 3)} for n, row in enumerate(rows())]
    data = write_data(tmp_path / "data", lines)
    torchrun("tests.training.one_sft", str(model), data, str(tmp_path / "two"), **environment("fsdp2"))
    monkeypatch.setattr(trl, "SFTConfig", trl.SFTConfig)  # pyright: ignore[reportPrivateImportUsage]
    one_sft.with_sgd()
    train_sft(one_sft.settings(str(model), data), tmp_path / "one")
    start, one, two = (
        load_file(path / "model.safetensors")
        for path in (model, tmp_path / "one/model", tmp_path / "two/model")
    )
    assert one.keys() == two.keys()
    assert max((one[name] - two[name]).abs().max() for name in one) < 1e-5
    assert max((one[name] - start[name]).abs().max() for name in one) > 1e-3
    assert not (tmp_path / "two" / "checkpoints").exists()
