# pyright: basic
"""Checkpoints: a damaged one is named and passed over, and the clock does not decide which are kept."""

from __future__ import annotations

import json
import logging
import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tiny import writing_model, writing_tokenizer
from tests.training.tiny_recipe import RECIPE

import rlcr
from rlcr.errors import RlcrError
from rlcr.training.checkpoint import last_whole, why_damaged


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole training of six updates, with checkpoints after four and six."""
    folder = tmp_path_factory.mktemp("training")
    writing_model(strength=9.0, max_position_embeddings=2048).save_pretrained(folder / "start")
    writing_tokenizer().save_pretrained(folder / "start")
    (folder / "mine.yaml").write_text(RECIPE.format(model=folder / "start"))
    rlcr.train(str(folder / "mine.yaml"), out=folder / "run")
    return folder / "run"


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)


def edit_step(checkpoint: Path) -> None:
    path = checkpoint / "trainer_state.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"global_step": 5}))


def copy_the_older(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint)
    shutil.copytree(checkpoint.with_name("checkpoint-4"), checkpoint)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "optimizer.pt has changed": lambda checkpoint: flip(checkpoint / "optimizer.pt"),
    "model.safetensors has changed": lambda checkpoint: flip(checkpoint / "model.safetensors"),
    "scheduler.pt has changed": lambda checkpoint: flip(checkpoint / "scheduler.pt"),
    "rng_state.pth has changed": lambda checkpoint: flip(checkpoint / "rng_state.pth"),
    "trainer_state.json has changed": edit_step,
    "optimizer.pt is missing": lambda checkpoint: (checkpoint / "optimizer.pt").unlink(),
    "scheduler.pt is missing": lambda checkpoint: (checkpoint / "scheduler.pt").unlink(),
    "model.safetensors is missing": lambda checkpoint: (checkpoint / "model.safetensors").unlink(),
    "pytorch_model.bin does not belong to it": lambda checkpoint: (checkpoint / "pytorch_model.bin").touch(),
    "it was written after update 4": copy_the_older,
    "whole does not say": lambda checkpoint: (checkpoint / "whole").write_text('{"step": 6'),
    "whole does not say which": lambda checkpoint: (checkpoint / "whole").write_text("[" * 100_000),
}


@pytest.mark.parametrize("named", DAMAGES)
def test_a_damaged_checkpoint_is_named_and_passed_over(
    named: str, finished: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoints = tmp_path / "checkpoints"
    shutil.copytree(finished / "checkpoints", checkpoints)
    assert last_whole(checkpoints) == checkpoints / "checkpoint-6"
    DAMAGES[named](checkpoints / "checkpoint-6")
    with caplog.at_level(logging.WARNING):
        assert last_whole(checkpoints) == checkpoints / "checkpoint-4"
    assert f"checkpoint-6: damaged: {named}" in caplog.text
    assert sorted(path.name for path in checkpoints.glob("*checkpoint-*")) == [
        "checkpoint-4",
        "damaged-checkpoint-6",
    ]
    flip(checkpoints / "checkpoint-4" / "optimizer.pt")
    assert last_whole(checkpoints) is None
    assert "no other checkpoint is whole" in caplog.text


def test_a_checkpoint_of_an_earlier_version_is_taken_as_it_is(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished / "checkpoints", tmp_path / "checkpoints")
    (tmp_path / "checkpoints" / "checkpoint-6" / "whole").write_text("")
    assert last_whole(tmp_path / "checkpoints") == tmp_path / "checkpoints" / "checkpoint-6"


def test_training_goes_on_from_the_one_before_to_the_same_weights(finished: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    shutil.rmtree(run / "model")
    flip(run / "checkpoints" / "checkpoint-6" / "optimizer.pt")
    # As after the clock was set back: what is written now is older than all the rest.
    for path in (run / "checkpoints").glob("checkpoint-*"):
        os.utime(path, (2**32, 2**32))
    rlcr.train(str(finished.parent / "mine.yaml"), out=run, resume=True)
    names = ["model/model.safetensors", "checkpoints/checkpoint-6/optimizer.pt"]
    for name in [*names, "rollouts/update-000006.jsonl.gz"]:
        assert (run / name).read_bytes() == (finished / name).read_bytes()
    kept = sorted(path.name for path in (run / "checkpoints").glob("*checkpoint-*"))
    assert kept == ["checkpoint-4", "checkpoint-6", "damaged-checkpoint-6"]
    assert not why_damaged(run / "checkpoints" / "checkpoint-6")


def test_the_last_two_are_kept_whatever_the_clock_says(finished: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    shutil.rmtree(run / "model")
    shutil.rmtree(run / "checkpoints" / "checkpoint-6")
    shutil.copytree(run / "checkpoints" / "checkpoint-4", run / "checkpoints" / "checkpoint-2")
    for path in (run / "checkpoints").glob("checkpoint-*"):
        os.utime(path, (2**32, 2**32))
    rlcr.train(str(finished.parent / "mine.yaml"), out=run, resume=True)
    assert sorted(path.name for path in (run / "checkpoints").glob("*checkpoint-*")) == [
        "checkpoint-4",
        "checkpoint-6",
    ]
    assert (run / "model/model.safetensors").read_bytes() == (
        finished / "model/model.safetensors"
    ).read_bytes()


def test_a_full_disk_is_one_line_and_training_goes_on_later(finished: Path, tmp_path: Path) -> None:
    recipe, run = str(finished.parent / "mine.yaml"), tmp_path / "run"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Room for the log of the updates, and not for weights.
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, hard))
    try:
        with pytest.raises(
            RlcrError, match=r"checkpoint-2: cannot be written: .*make room and --resume"
        ) as told:
            rlcr.train(recipe, out=run)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(str(told.value).splitlines()) == 1
    assert not list((run / "checkpoints").glob("checkpoint-*"))
    rlcr.train(recipe, out=run, resume=True)
    weights = "model/model.safetensors"
    assert (run / weights).read_bytes() == (finished / weights).read_bytes()
