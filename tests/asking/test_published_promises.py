"""Thresholds from one half of the authors' stored answers keep their promise on the other half."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.asking.replayed import Replay
from tests.published import stored_rows

import rlcr
from rlcr.evaluate.importing import TableColumns, import_run
from rlcr.many.selective import SELECTIVE, select
from rlcr.metrics.bootstrap import wilson


def stored_half(folder: Path, rows: list[dict]) -> Path:
    """A run of RLCR's stored answers, with the authors' verdicts."""
    table = folder.with_suffix(".jsonl")
    kept = ("problem", "answer", "RLCR-output_0", "RLCR-evals")
    table.write_text("".join(json.dumps({name: row[name] for name in kept}) + "\n" for row in rows))
    import_run(
        table, folder, TableColumns("RLCR-output_0", "answer", "problem", correct="RLCR-evals"), task="stored"
    )
    return folder


@pytest.mark.parametrize(("task", "promise"), [("commonsenseqa", 0.95), ("math-500", 0.55)])
def test_on_the_held_out_half(tmp_path: Path, shared_data: Path, task: str, promise: float) -> None:
    rows = stored_rows(shared_data, task)
    right, asked = 0, 0
    for seed in range(2):
        places = np.random.default_rng(seed).permutation(len(rows))
        here, there = ([rows[place] for place in half] for half in np.array_split(places, 2))
        run = stored_half(tmp_path / f"run-{seed}", here)
        select(run, promise)
        sampler = Replay({row["problem"]: [row["RLCR-output_0"]] for row in there})
        answers = [rlcr.ask(sampler, row["problem"], threshold=run / SELECTIVE) for row in there]
        given = [
            row["RLCR-evals"][0] for row, answer in zip(there, answers, strict=True) if not answer.abstained
        ]
        assert 30 < len(given) < len(there)
        assert wilson(float(np.mean(given)), len(given))[1] >= promise
        right, asked = right + sum(given), asked + len(given)
        assert np.mean([row["RLCR-evals"][0] for row in there]) < promise  # there was something to promise
    print(f"{task}: promised {promise}, kept {right / asked:.3f} of {asked} answers")
    assert right / asked >= promise - 0.01
