"""A few trials of the faults of `make faults`, on commands that take no torch; the others are slow."""

import os
from pathlib import Path

import pytest
from faults import load
from faults.__main__ import failures
from faults.commands import import_beforehand
from faults.listing import FAULTS

#: As they are numbered in `make faults` from 0 on, these are others.
NUMBERS = (1000, 1001)
LIGHT = (
    "kill-eval", "kill-sft-data", "kill-confidence", "kill-import", "kill-rescore", "kill-report", "kill-view",
    "damage-resumed", "damage-read", "two-eval", "clock-eval", "disk-full-eval", "disk-full-import",
)  # fmt: skip
HEAVY = (
    "kill-eval-local", "kill-train", "kill-sft", "kill-classifier", "damage-checkpoint", "disk-full-train",
    "disk-full-sft", "disk-read-only", "two-train", "clock-train", "secrets-train",
)  # fmt: skip


def make_trials(name: str, folder: Path) -> None:
    if name.startswith("disk") and os.geteuid():
        pytest.skip("only root can mount a small disk")
    with FAULTS[name].prepare(folder) as trial:
        for number in NUMBERS:
            own = folder / str(number)
            own.mkdir()
            outcome = trial(own, number)
            assert not failures(vars(outcome)), outcome.notes


@pytest.mark.parametrize("name", LIGHT)
def test_nothing_is_lost_doubled_or_wrong(name: str, tmp_path: Path) -> None:
    import_beforehand(torch=False)
    make_trials(name, tmp_path)


def test_memory_and_open_files_stay_flat(tmp_path: Path) -> None:
    import_beforehand(torch=False)
    outcome = load.trial_of(tmp_path, 0, problems=1500)
    assert not failures(vars(outcome)), outcome.notes
    assert len(outcome.counted) == 5


@pytest.mark.slow
@pytest.mark.parametrize("name", HEAVY)
def test_nor_in_training(name: str, tmp_path: Path) -> None:
    import_beforehand(torch=True)
    make_trials(name, tmp_path)
