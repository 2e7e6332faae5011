"""The whole of `rlcr vote`: from the records of a run to voting.json, and to lines for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError
from rlcr.many.curves import TEMPERATURE, WAYS_TO_CHOOSE, Scaling, curve_to_dict, scaling
from rlcr.many.pool import Pool, read_pools
from rlcr.many.stopping import Spent, simulate
from rlcr.many.vote_confidence import VotedConfidence, table, voted_confidence
from rlcr.runs.columns import VERBALISED, column_files
from rlcr.runs.stamps import stamp, write_derived
from rlcr.runs.store import open_run

VOTING = "voting.json"


@dataclass(frozen=True)
class TaskVotes:
    """What the samples of one task are worth."""

    scaling: Scaling
    confidence: list[VotedConfidence]
    adaptive: list[Spent]

    def curves(self) -> list[dict[str, Any]]:
        """All curves in the shape that the report draws."""
        curves = [curve.to_dict() for curve in self.scaling.curves.values()]
        if self.adaptive:
            samples, accuracies = zip(
                *((spent.samples, spent.accuracy) for spent in self.adaptive), strict=True
            )
            drawn = curve_to_dict("adaptive", "accuracy", samples, accuracies, ["drawn"] * len(samples))
            curves.append(drawn | {"safety": [spent.rule.safety for spent in self.adaptive]})
        return [*curves, *(curve for kind in self.confidence for curve in kind.curves())]

    def to_dict(self) -> dict[str, Any]:
        """What is beside the curves, as JSON."""
        scaled = self.scaling
        return {
            "most": scaled.most,
            "subsets": scaled.subsets,
            "counts": dict(scaled.counts),
            "unscorable": dict(scaled.unscorable),
            "minus_majority": {name: e.to_dict() for name, e in scaled.differences.items()},
            "verdicts": scaled.verdicts(),
            "within_question_by_answer": scaled.within_question_by_answer.to_dict(),
            "voted_confidence": table(self.confidence),
        }


@dataclass(frozen=True)
class Votes:
    """The votes of a run, task by task."""

    confidence: str
    temperature: float
    seed: int
    tasks: Mapping[str, TaskVotes]

    def to_dict(self) -> dict[str, Any]:
        """As JSON: "tasks" holds curves, "details" the rest."""
        return {
            "confidence": self.confidence,
            "softmax_temperature": self.temperature,
            "seed": self.seed,
            "methods": WAYS_TO_CHOOSE,
            "ties": (
                "answers with equal weight: the one with more votes; with as many votes, or samples with"
                " equal scores: each with the same chance, in expectation"
            ),
            "tasks": {name: task.curves() for name, task in self.tasks.items()},
            "details": {name: task.to_dict() for name, task in self.tasks.items()},
        }


def vote(
    folder: Path,
    *,
    confidence: str = VERBALISED,
    most: int | None = None,
    subsets: int | None = None,
    seed: int = 0,
    temperature: float = TEMPERATURE,
) -> Votes:
    """Compute every curve of a finished run and write voting.json into its folder. Nothing is sampled."""
    run = open_run(folder)
    made_from = stamp(run, column_files(confidence))
    pools = read_pools(run, confidence)
    if max((pool.most() for pool in pools.values()), default=0) < 2:
        raise RlcrError(
            f"{folder}: one sample of each question, and a vote needs several: `rlcr eval … --samples 8`"
        )
    tasks = {}
    for name, pool in pools.items():
        try:
            tasks[name] = task_votes(pool, most, subsets, seed, temperature)
        except RlcrError as error:
            raise RlcrError(f"{folder}: {name}: {error}") from None
    votes = Votes(confidence, temperature, seed, tasks)
    write_derived(run, VOTING, votes.to_dict(), made_from)
    return votes


def task_votes(
    pool: Pool,
    most: int | None = None,
    subsets: int | None = None,
    seed: int = 0,
    temperature: float = TEMPERATURE,
) -> TaskVotes:
    """All that `rlcr vote` reports about one task."""
    scaled = scaling(pool, most=most, subsets=subsets, seed=seed, temperature=temperature)
    stated = "confidence-weighted" in scaled.curves
    adaptive = simulate(pool, scaled.most, seed=seed) if stated and scaled.most > 1 else []
    return TaskVotes(scaled, voted_confidence(pool, scaled.most, seed=seed), adaptive)
