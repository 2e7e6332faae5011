"""What happens while a command runs: another one on the same folder, and a clock that is set back."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from faults import stages
from faults.commands import Command, run
from faults.fault import Fault, Outcome, Trial
from faults.stages import Stage

Prepare = Callable[[Path], AbstractContextManager[Stage]]
#: Three years.
_BACK = 1e8


def _fault(what: str, prepare: Prepare, make: Callable[[Stage, Path, float], Trial], trials: int) -> Fault:
    @contextmanager
    def prepared(folder: Path) -> Iterator[Trial]:
        with prepare(folder) as stage:
            yield make(stage, *stages.undisturbed(stage, folder))

    return Fault(what, trials, prepared, torch=prepare is stages.training)


def _two_commands(stage: Stage, whole: Path, seconds: float) -> Trial:
    """One is refused, or finds the work done; the run is that of one command."""

    def trial(own: Path, number: int) -> Outcome:
        out, outcome = own / "run", Outcome()
        first = Command(stage.begin(out), own / "first.log")
        time.sleep(random.Random(number).uniform(0, seconds))
        again = stage.resume(out) if stage.begun(out) else stage.begin(out)
        second = run(again, own / "second.log")
        ended = [first.end(), second]
        for one in ended:
            if one.fault:
                outcome.fail(one.fault)
            elif one.status:
                outcome.count("refused")
        if all(one.status for one in ended):
            outcome.fail(f"neither ended well: {ended[0].last_line}; {ended[1].last_line}")
        else:
            stage.compare(whole, out, outcome)
        return outcome

    return trial


def _clock_set_back(stage: Stage, whole: Path, seconds: float) -> Trial:
    """A run is killed; when it is resumed, all that is there has been written in the future."""

    def trial(own: Path, number: int) -> Outcome:
        out, outcome = own / "run", Outcome()
        after = random.Random(number).uniform(0.2, 0.9) * seconds
        ended = run(stage.begin(out), own / "log", kill_after=after)
        for path in [out, *out.rglob("*")] if out.exists() else []:
            os.utime(path, (time.time() + _BACK, time.time() + _BACK))
        if ended.killed:
            again = stage.resume(out) if stage.begun(out) else stage.begin(out)
            ended = run(again, own / "log", first=_set_back)
            outcome.count("kills")
        if ended.status or ended.fault:
            outcome.fail(ended.fault or ended.last_line)
        else:
            stage.compare(whole, out, outcome)
        return outcome

    return trial


def _set_back() -> None:
    """The clock of this process three years ago."""
    now = time.time
    time.time = lambda: now() - _BACK


FAULTS = {
    "two-eval": _fault("two commands on one evaluation", stages.evaluation, _two_commands, 30),
    "two-train": _fault("two commands on one training", stages.training, _two_commands, 10),
    "clock-eval": _fault("the clock set back: evaluation", stages.evaluation, _clock_set_back, 20),
    "clock-train": _fault("the clock set back: training", stages.training, _clock_set_back, 10),
}
