"""`kill -9` at a random moment, then the same command again: what comes out is what comes out undisturbed.

Each trial is one whole run of a command, killed one to three times at moments drawn over the time that it
takes, and resumed as its own message says. A command that ended before it was killed is begun anew, so that
every trial has met at least one kill.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from faults import stages
from faults.commands import run
from faults.fault import Fault, Outcome, Trial
from faults.stages import Stage

_KILLS = 3
_ATTEMPTS = 20


def _fault(
    what: str, prepare: Callable[[Path], AbstractContextManager[Stage]], *, torch: bool = False
) -> Fault:
    @contextmanager
    def prepared(folder: Path) -> Iterator[Trial]:
        with prepare(folder) as stage:
            yield _Killing(stage, *stages.undisturbed(stage, folder))

    return Fault(f"`kill -9`: {what}", 50, prepared, torch)


@dataclass(frozen=True)
class _Killing:
    """The trials of a stage, of which the undisturbed run took so many seconds."""

    stage: Stage
    whole: Path
    seconds: float

    def __call__(self, folder: Path, number: int) -> Outcome:
        rng, outcome = random.Random(number), Outcome()
        for attempt in range(_ATTEMPTS):
            out = folder / f"run-{attempt}"
            if self._killed(out, rng, outcome):
                self.stage.compare(self.whole, out, outcome)
                for path in left_over(out):
                    outcome.fail(f"left over: {path.name}")
                return outcome
            shutil.rmtree(out, ignore_errors=True)
        outcome.fail(f"ended before every kill in {_ATTEMPTS} attempts")
        return outcome

    def _killed(self, out: Path, rng: random.Random, outcome: Outcome) -> bool:
        """Run a stage to its end; whether it was killed on the way."""
        stage, kills = self.stage, 0
        stage.before(out)
        planned = rng.randint(1, _KILLS)
        log = out.with_suffix(".log")
        while True:
            again = stage.begun(out)
            arguments = stage.resume(out) if again else stage.begin(out)
            after = rng.uniform(0, self.seconds) if kills < planned else None
            ended = run(arguments, log, kill_after=after)
            if not ended.killed:
                break
            kills += 1
            stage.after_kill(self.whole, out, outcome)
        if kills:
            outcome.count("kills", kills)
        if ended.fault or ended.status:
            outcome.fail(ended.fault or f"refused to go on: {ended.last_line}")
        return kills > 0


def left_over(folder: Path) -> list[Path]:
    """Files and folders that were being written when something ended."""
    return [*folder.rglob("*.partial"), *folder.parent.glob(f".{folder.name}.*")]


FAULTS = {
    "kill-eval": _fault("evaluation through a server, with forced continuations", stages.evaluation),
    "kill-eval-local": _fault("evaluation of a local model", stages.local_evaluation, torch=True),
    "kill-train": _fault("training (the weights bit for bit)", stages.training, torch=True),
    "kill-sft-data": _fault("the data of the SFT warm-up", stages.sft_data),
    "kill-sft": _fault("SFT (the weights bit for bit)", stages.sft, torch=True),
    "kill-classifier": _fault(
        "training a classifier (the weights bit for bit)", stages.classifier, torch=True
    ),
    "kill-confidence": _fault("`rlcr confidence add`", stages.adding_confidence),
    "kill-import": _fault("`rlcr import`", stages.importing),
    "kill-rescore": _fault("`rlcr rescore` to another grading", stages.rescoring),
    "kill-report": _fault("`rlcr report`", stages.reporting),
}
