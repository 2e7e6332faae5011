# pyright: basic
"""Held-out evaluation shared by two processes: the numbers of one, and an error in one is an error in all."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

from tests import forks
from tests.rounding import rounded
from tests.training.one_evaluation import evaluate_with, own_sampler

from rlcr.runs.record import Record
from rlcr.runs.store import open_run

ROOT = Path(__file__).parents[2]


def records(folder: Path) -> dict[tuple[str, int], Record]:
    """By their keys, without what depends on the clock, and without the rounding of other batches."""
    found: dict[tuple[str, int], Record] = {}
    for record in open_run(folder).records():
        answer_logprobs = {
            grading: [round(logprob, 3) for logprob in logprobs]
            for grading, logprobs in record.answer_logprobs.items()
        }
        found[record.key] = replace(
            record,
            seconds=0.0,
            logprob=record.logprob and round(record.logprob, 3),
            answer_logprobs=answer_logprobs,
            answer_probability=record.answer_probability and round(record.answer_probability, 4),
        )
    return found


def test_two_processes_give_the_numbers_of_one(tmp_path: Path) -> None:
    call = forks.torchrun("-m", "tests.training.one_evaluation", str(tmp_path))
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        call, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    evaluate_with(own_sampler(), tmp_path / "alone")
    shared, alone = records(tmp_path / "shared"), records(tmp_path / "alone")
    assert len(shared) == 21
    assert shared == alone
    results = [json.loads((tmp_path / name / "results.json").read_text()) for name in ("shared", "alone")]
    # Likelihoods differ in their rounding, since other rows were in the batch.
    tasks = [rounded(json.dumps(one["tasks"], sort_keys=True)) for one in results]
    assert tasks[0] == tasks[1]
    found = json.loads((tmp_path / "found.json").read_text())
    # Both have worked: responses, and whatever had to be repaired.
    assert min(found["written"]) >= 9
    assert sum(found["written"]) >= 21
    assert found["said"] == [
        "process 1: MemoryError: no room",
        "the held-out evaluation failed: process 1: MemoryError: no room",
    ]
