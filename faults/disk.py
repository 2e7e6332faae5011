"""A full disk and one that may not be written: a line and exit status 2, and later the run goes on.

The disk is a small tmpfs, which only root can mount; without that right these trials are refused.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from faults import stages
from faults.commands import Ended, run
from faults.fault import Fault, Outcome, Trial
from faults.stages import Stage

#: Kilobytes of a disk on which everything fits.
_LARGE = 1 << 20


@contextmanager
def _mounted(place: Path, kilobytes: int) -> Iterator[None]:
    if os.geteuid():
        raise SystemExit("these faults mount a small tmpfs, which only root can do")
    place.mkdir(parents=True)
    _mount("-t", "tmpfs", "-o", f"size={kilobytes}k", "none", place)
    try:
        yield
    finally:
        subprocess.run(["umount", place], check=True)


def _mount(*arguments: object) -> None:
    subprocess.run(["mount", *map(str, arguments)], check=True)


def _size(folder: Path) -> int:
    """Kilobytes that a folder takes, in whole pages."""
    return sum(-(-path.stat().st_size // 4096) * 4 for path in folder.rglob("*") if path.is_file())


def _refused(ended: Ended, outcome: Outcome) -> None:
    if ended.fault or ended.status != 2:
        outcome.fail(ended.fault or f"exit status {ended.status} on such a disk")
    elif "cannot be written" not in ended.last_line:
        outcome.fail(f"not the reason: {ended.last_line}")


def _full(
    what: str, prepare: Callable[[Path], AbstractContextManager[Stage]], peak: float, *, torch: bool = False
) -> Fault:
    """Disks of sizes drawn up to what a whole run leaves, times ``peak`` for what it needs on the way."""

    @contextmanager
    def prepared(folder: Path) -> Iterator[Trial]:
        with prepare(folder) as stage:
            whole, _ = stages.undisturbed(stage, folder)
            most = int(_size(whole) * peak)

            def trial(own: Path, number: int) -> Outcome:
                disk, outcome = own / "disk", Outcome()
                kilobytes = random.Random(number).randint(4, most)
                with _mounted(disk, kilobytes):
                    out = disk / "run"
                    ended = run(stage.begin(out), own / "log")
                    if ended.status:
                        _refused(ended, outcome)
                        outcome.count("full")
                        _mount("-o", f"remount,size={_LARGE}k", disk)
                        again = stage.resume(out) if stage.begun(out) else stage.begin(out)
                        ended = run(again, own / "log")
                    if ended.status or ended.fault:
                        outcome.fail(ended.fault or f"did not go on: {ended.last_line}")
                    else:
                        stage.compare(whole, out, outcome)
                return outcome

            yield trial

    return Fault(f"a full disk: {what}", 30, prepared, torch)


@contextmanager
def _read_only(folder: Path) -> Iterator[Trial]:
    """Every stage in turn, with its output on a disk that may not be written."""

    def trial(own: Path, number: int) -> Outcome:
        outcome, prepare = Outcome(), _STAGES[number % len(_STAGES)]
        (own / "stage").mkdir()
        with prepare(own / "stage") as stage, _mounted(own / "disk", _LARGE):
            out = own / "disk" / "run"
            stage.before(out)
            _mount("-o", "remount,ro", own / "disk")
            _refused(run(stage.begin(out), own / "log"), outcome)
        return outcome

    yield trial


_STAGES = (
    stages.evaluation,
    stages.importing,
    stages.rescoring,
    stages.adding_confidence,
    stages.reporting,
    stages.sft_data,
    stages.sft,
    stages.classifier,
    stages.training,
)

FAULTS = {
    "disk-full-eval": _full("evaluation", stages.evaluation, 1.2),
    "disk-full-import": _full("`rlcr import`", stages.importing, 0.9),
    "disk-full-train": _full("training", stages.training, 1.2, torch=True),
    "disk-full-sft": _full("SFT", stages.sft, 2.0, torch=True),
    "disk-read-only": Fault(
        "output that may not be written: nine commands in turn", 9, _read_only, torch=True
    ),
}
