"""From runs and trainings to what the sentence at the head of the page is made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rlcr import metrics
from rlcr.metrics import Estimate
from rlcr.metrics.intervals import Answers
from rlcr.metrics.tables import Mark
from rlcr.report.curves import estimate_of
from rlcr.report.headline import RunResult, Trained
from rlcr.report.numbers import METRICS, Measured, basis_of, stored_of
from rlcr.report.pairs import Pairs, affordable
from rlcr.report.reading import EvalRun, TrainingRun
from rlcr.report.rows import Floats, labels_of

#: What the sentence says of a training: column, and its name in the sentence.
_MOVES = {"reward": "reward", "accuracy": "accuracy", "ece": "ECE"}
# The means of this share of the updates, at the beginning and at the end, are what it says.
_ENDS = 0.1


def result_of(run: EvalRun, tasks: Sequence[str], measured: Measured, marks: Mapping[str, Mark]) -> RunResult:
    """A run on some tasks; of several with what it is on each."""
    estimates, _ = measured.of(run, tasks)
    values = {name: estimate.value for name, estimate in zip(METRICS, estimates, strict=True)}
    confidence, gap = (_further(run, tasks, name) for name in ("mean_confidence", "confidence_gap"))
    intervals = {"auroc": estimates[METRICS.index("auroc")], "gap": gap}
    known = {
        name: (estimate.low, estimate.high)
        for name, estimate in intervals.items()
        if estimate.low is not None and estimate.high is not None
    }
    values["confidence"] = confidence.value
    parts = {task: result_of(run, [task], measured, marks) for task in tasks} if len(tasks) > 1 else {}
    return RunResult(run.label, values, basis_of(run, tasks).scored, marks.get(run.label, ""), known, parts)


def results_on_shared(
    pairs: Pairs, numbers: Sequence[int], tasks: Sequence[str], marks: Mapping[str, Mark]
) -> list[RunResult]:
    """Runs on the questions that all of them scored, averaged over tasks; for runs that are not done.

    What a run has answered so far may be the easier half of its questions. Empty where a task has none yet
    that all of them scored.
    """
    answers = {n: [pairs.answers_of(n, task) for task in tasks] for n in numbers}
    shared = [set.intersection(*(set(answers[n][at][2]) for n in numbers)) for at in range(len(tasks))]
    if not all(shared):
        return []
    found = []
    for n in numbers:
        kept = [_only(*one) for one in zip(answers[n], shared, strict=True)]
        values: dict[str, float | None] = {
            name: _mean([metric(*rows) for rows in kept]) for name, metric in _METRICS.items()
        }
        accuracy, brier = values["accuracy"], values["brier"]
        values["expected_reward"] = None if accuracy is None or brier is None else accuracy - brier
        label = pairs.runs[n].label
        found.append(RunResult(label, values, sum(len(right) for right, _ in kept), marks.get(label, "")))
    return found


def _only(answers: Answers, questions: set[Any]) -> tuple[Floats, Floats]:
    correct, confidence, asked = answers
    kept = np.array([question in questions for question in asked], dtype=bool)
    return np.asarray(correct, float)[kept], np.asarray(confidence, float)[kept]


def _of_rated(metric: Callable[[Floats, Floats], float | None]) -> Callable[[Floats, Floats], float | None]:
    def of(correct: Floats, confidence: Floats) -> float | None:
        rated = ~np.isnan(confidence)
        return metric(correct[rated], confidence[rated]) if rated.any() else None

    return of


_METRICS: dict[str, Callable[[Floats, Floats], float | None]] = {
    "accuracy": lambda correct, _: float(correct.mean()) if len(correct) else None,
    "auroc": _of_rated(metrics.auroc),
    "brier": _of_rated(metrics.brier),
    "ece": _of_rated(metrics.ece),
    "confidence": _of_rated(lambda _, confidence: float(confidence.mean())),
}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else None


def _further(run: EvalRun, tasks: Sequence[str], name: str) -> Estimate:
    """A metric that no table has: from the results, or of one task from the records."""
    value, low, high = estimate_of(stored_of(run, tasks), name)
    if value is not None:
        low, high = (None if math.isnan(end) else end for end in (low, high))
        return Estimate(value, low, high)
    correct, confidence, question = run.rows.scored(tasks)
    if len(tasks) > 1 or not len(correct) or np.isnan(confidence).all():
        return Estimate(None, None, None)
    resamples = min(200, affordable(len(correct)))
    return metrics.summary(correct, confidence, question=labels_of(question), resamples=resamples).metrics[
        name
    ]


def trained_of(run: TrainingRun) -> Trained:
    """A training, by the beginnings and ends of its curves."""
    moves = {label: move for name, label in _MOVES.items() if (move := _move(run.columns.get(name)))}
    return Trained(run.label, len(run.update), run.planned, run.is_unfinished, moves)


def _move(values: Floats | None) -> tuple[float, float, bool] | None:
    """Means of the first and of the last updates, and whether they differ by more than their noise."""
    values = np.zeros(0) if values is None else values[~np.isnan(values)]
    if not len(values):
        return None
    size = max(1, math.ceil(_ENDS * len(values)))
    first, last = values[:size], values[-size:]
    if len(values) < 4:
        return float(first.mean()), float(last.mean()), len(values) > 1 and bool(first.mean() != last.mean())
    # The spread between neighbours is noise; that between beginning and end is what is asked for.
    noise = float(np.diff(values).std()) / math.sqrt(2)
    moved = abs(float(last.mean() - first.mean())) > 2 * noise * math.sqrt(2 / size)
    return float(first.mean()), float(last.mean()), moved
