"""Answer only when sure enough: which confidence to ask for, so that answers are right often enough.

The threshold is chosen on one half of the questions and checked on the other, then the other way round:

    threshold   the lowest confidence t such that answers with at least t are right in the wanted share
    precision   the share of right answers among those with at least t, on the half that did not choose it
    coverage    the share of answers with at least t, there

Chosen on the very answers it is checked on, a threshold keeps its promise by construction; on the other half
it may not. Intervals are 95% over questions, from resamples; where all of these are the same (one answer, or
all of them right) Wilson's interval for so many questions. Responses that state no confidence are never
answered; unscorable ones are left out, and counted.

A promise *holds* where the whole interval keeps it, and is *kept on average* where the value does but not
the whole interval; it is *just missed* where the value does not but part of the interval would, and *broken*
where nothing of it does. Where Wilson's interval leaves both open, there are *too few to tell*.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rlcr import metrics
from rlcr.errors import RlcrError
from rlcr.many.halves import halves
from rlcr.many.pool import Floats, Ints, pools_of
from rlcr.many.standings import standings
from rlcr.metrics import Estimate
from rlcr.metrics.bootstrap import Resampled, question_weights, ratio, wilson
from rlcr.runs.columns import VERBALISED, column_files, read_column
from rlcr.runs.record import CODES
from rlcr.runs.stamps import stamp, write_derived
from rlcr.runs.store import Run, open_run

SELECTIVE = "selective.json"
_CURVE_POINTS = 200


@dataclass(frozen=True)
class Check:
    """A threshold from one half, and what it does on the other."""

    threshold: Estimate
    """Its interval is over resamples of the half that chose it; None where no confidence is enough."""
    precision: Estimate
    coverage: Estimate
    questions: int
    answers: int = 0
    """The scored answers of the other half that are sure enough."""
    answered_questions: int = 0
    """The questions that these answers are of."""
    alike: bool = False
    """Whether precision is the same in every resample."""

    def verdict(self, wanted: float) -> str:
        """Whether the promise held, in words."""
        if self.threshold.value is None:
            return f"no confidence reaches {wanted:.0%} on the half that chooses"
        asked = f"confidence at least {self.threshold.value:.3g}"
        precision = self.precision
        if precision.value is None or precision.low is None or precision.high is None:
            return f"{asked}: nothing is that sure on the other half"
        if precision.low >= wanted:
            held = "holds"
        elif precision.high < wanted:
            held = "broken"
        elif self.alike:
            held = "too few to tell"
        else:
            held = "kept on average" if precision.value >= wanted else "just missed"
        interval = f"[{precision.low:.3f}, {precision.high:.3f}]"
        return (
            f"{asked}: precision {precision.value:.3f} {interval} of {self.answers:,} answers to"
            f" {self.answered_questions:,} questions, coverage {self.coverage.value:.3f}: {held}"
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "threshold": self.threshold.to_dict(),
            "precision": self.precision.to_dict(),
            "coverage": self.coverage.to_dict(),
            "questions": self.questions,
            "answers": self.answers,
            "answered_questions": self.answered_questions,
        }


@dataclass(frozen=True)
class TaskSelection:
    """Both checks of a task, its curve of risk against coverage, and what was counted."""

    checks: tuple[Check, Check]
    curve: Mapping[str, Sequence[float]]
    counts: Mapping[str, int]


@dataclass(frozen=True)
class Selection:
    """The tasks of a run, and those that were left out, with the reason."""

    tasks: Mapping[str, TaskSelection]
    left_out: Mapping[str, str]


Rows = dict[str, list[tuple[str, str, float]]]


def select(
    folder: Path, precision: float, *, confidence: str = VERBALISED, samples: int = 1, seed: int = 0
) -> Selection:
    """Find and check thresholds for every task of a finished run, and write selective.json beside it.

    With ``samples`` above 1 they are for voted answers: each question's is the confidence-weighted vote of so
    many samples, and its confidence the mean of those that gave it.
    """
    if not 0 < precision <= 1:
        raise RlcrError(f"the precision must be above 0 and at most 1, not {precision:g}")
    run = open_run(folder)
    run.check_finished()
    made_from = stamp(run, column_files(confidence))
    rows = _answers(run, confidence) if samples == 1 else _voted(run, confidence, samples)
    tasks: dict[str, TaskSelection] = {}
    left_out: dict[str, str] = {}
    for task in sorted(rows):
        ids, verdicts, confidences = zip(*sorted(rows[task]), strict=True)
        try:
            tasks[task] = task_selection(ids, verdicts, np.array(confidences), precision, seed=seed)
        except RlcrError as error:
            left_out[task] = str(error)
    if not tasks:
        raise RlcrError(f"{folder}: " + "; ".join(f"{task}: {reason}" for task, reason in left_out.items()))
    stored = {"confidence": confidence, "precision": precision, "samples": samples, "left_out": left_out}
    stored["tasks"] = {name: _to_dict(task, precision) for name, task in tasks.items()}
    write_derived(run, SELECTIVE, stored, made_from)
    return Selection(tasks, left_out)


def _answers(run: Run, confidence: str) -> Rows:
    """Every answer by itself, as (question, verdict, confidence)."""
    column = read_column(run, confidence)
    rows: Rows = {}
    for record in run.independent_records():
        stated = column.get(record.key)
        row = record.id, record.verdict, np.nan if stated is None else stated
        rows.setdefault(record.task, []).append(row)
    return rows


def _voted(run: Run, confidence: str, samples: int) -> Rows:
    """The voted answer of each question that has so many samples."""
    rows: Rows = {}
    for task, pool in pools_of(run, run.independent_records(), confidence).items():
        pool = pool.having(samples).first(samples)
        if not len(pool):
            raise RlcrError(f"{run.folder}: {task}: no question has {samples} samples")
        for q, name in enumerate(pool.ids):
            best = standings(pool.group_QM[q], pool.confidence_QM[q])[:1]
            outcome = pool.outcome_QG[q, best[0].group] if best else pool.blank_Q[q]
            stated = best[0].confidence if best else None
            row = name, _OUTCOMES[int(outcome)], np.nan if stated is None else stated
            rows.setdefault(task, []).append(row)
    return rows


_OUTCOMES = {code: name for name, code in CODES.items()}


def _to_dict(task: TaskSelection, precision: float) -> dict[str, Any]:
    return {
        "checks": [check.to_dict() for check in task.checks],
        "verdicts": [check.verdict(precision) for check in task.checks],
        "curve": dict(task.curve),
        "counts": dict(task.counts),
    }


def task_selection(
    ids: Sequence[str],
    verdicts: Sequence[str],
    confidence_N: Floats,
    precision: float,
    *,
    seed: int = 0,
    resamples: int = 1000,
) -> TaskSelection:
    """Thresholds for the responses of one task, each from one half of the questions for the other."""
    scored = np.array([verdict != "unscorable" for verdict in verdicts])
    names = sorted({name for name, kept in zip(ids, scored, strict=True) if kept})
    stated = scored & ~np.isnan(confidence_N)
    counts = {
        "answers": len(ids),
        "unscorable": int((~scored).sum()),
        "without confidence": int((scored & ~stated).sum()),
    }
    if len(names) < 2 or not stated.any():
        raise RlcrError("choosing on one half needs two scored questions and a confidence")
    place = {name: number for number, name in enumerate(names)}
    question = np.array([place.get(name, -1) for name in ids])[scored]
    right = np.array([verdict == "correct" for verdict in verdicts], np.float64)[scored]
    confidence = np.where(np.isnan(confidence_N), -1.0, confidence_N)[scored]
    first, second = (_half(half, question, right, confidence) for half in halves(names, seed))
    kept = confidence >= 0
    risk = metrics.risk_coverage(right[kept].astype(np.int64), confidence[kept])
    points = min(_CURVE_POINTS, len(risk.coverage))
    at = np.unique(np.linspace(0, len(risk.coverage) - 1, points).round().astype(int))
    curve = {"coverage": risk.coverage[at], "risk": risk.risk[at], "threshold": risk.threshold[at]}
    return TaskSelection(
        (_check(first, second, precision, resamples), _check(second, first, precision, resamples)),
        {name: values.tolist() for name, values in curve.items()},
        counts,
    )


@dataclass(frozen=True)
class _Half:
    question: Ints
    right: Floats
    confidence: Floats
    size: int


def _half(half: Ints, question: Ints, right: Floats, confidence: Floats) -> _Half:
    """The rows of a half, its questions numbered from 0."""
    number = np.full(int(question.max()) + 1, -1)
    number[half] = np.arange(len(half))
    rows = number[question] >= 0
    return _Half(number[question[rows]], right[rows], confidence[rows], len(half))


def _check(chosen: _Half, other: _Half, precision: float, resamples: int) -> Check:
    draws = [
        threshold(chosen.right, chosen.confidence, precision, weight_Q[chosen.question])
        for weight_Q in question_weights(chosen.size, resamples, 0)
    ]
    value = threshold(chosen.right, chosen.confidence, precision)
    lowest = Resampled(
        math.nan if value is None else value,
        np.array([math.nan if drawn is None else drawn for drawn in draws]),
    )
    if value is None:
        nothing = Estimate(None, None, None, "no threshold")
        return Check(lowest.estimate("no confidence is enough"), nothing, nothing, other.size)
    sure = other.confidence >= value
    # By question before anything is resampled: a draw for each answer would not fit into memory.
    answers_Q, sure_Q, right_Q = (
        np.bincount(other.question, weight, other.size).astype(np.float64)
        for weight in (np.ones_like(other.right), sure, sure * other.right)
    )
    weights_RQ = question_weights(other.size, resamples, 1)
    return Check(
        lowest.estimate(),
        _share(right_Q, sure_Q, weights_RQ),
        _share(sure_Q, answers_Q, weights_RQ),
        other.size,
        int(sure.sum()),
        int((sure_Q > 0).sum()),
        ratio(right_Q, sure_Q, weights_RQ).alike,
    )


def _share(above_Q: Floats, below_Q: Floats, weights_RQ: Floats) -> Estimate:
    """A share with its interval over questions; Wilson's where all resamples agree on it."""
    share = ratio(above_Q, below_Q, weights_RQ)
    estimate = share.estimate("nothing is that sure")
    if estimate.value is None or not share.alike:
        return estimate
    return Estimate(estimate.value, *wilson(estimate.value, int((below_Q > 0).sum())))


def threshold(
    right: Floats, confidence: Floats, precision: float, weight: Floats | None = None
) -> float | None:
    """The lowest stated confidence from which on the share of right answers is the wanted one, or None.

    >>> threshold(np.array([1.0, 0, 1, 1]), np.array([0.9, 0.2, 0.6, 0.6]), 0.9)
    0.6
    >>> threshold(np.array([0.0, 1.0]), np.array([0.9, 0.2]), 0.9) is None
    True
    """
    weight = np.ones_like(right) if weight is None else weight
    values, place = np.unique(confidence, return_inverse=True)
    answered = np.bincount(place, weight, len(values))[::-1].cumsum()[::-1]
    good = np.bincount(place, weight * right, len(values))[::-1].cumsum()[::-1]
    # A missing confidence is -1 here and never enough.
    enough = (values >= 0) & (answered > 0) & (good >= precision * answered - 1e-9)
    return float(values[enough][0]) if enough.any() else None
