"""`rlcr confidence compare`: all columns of a run in one table, and each against what the model stated.

Every column is measured on the rows where it gives a confidence (``coverage`` says how many those are);
differences from the stated confidence are paired, on the rows where both give one. The comparison is
written to the run as ``columns.json``, which the report reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcr import metrics
from rlcr.confidence.rows import RIGHT, WRONG, Rows, read_rows
from rlcr.errors import RlcrError
from rlcr.metrics import Estimate
from rlcr.runs.columns import (
    VERBALISED,
    column_names,
    fresh_columns,
    provenance,
    records_fingerprint,
)
from rlcr.runs.store import write_whole

#: Written into the run.
COMPARISON = "columns.json"
METRICS = ("auroc", "brier", "brier_skill", "ece")
WITHIN = "within"


@dataclass(frozen=True)
class ColumnResult:
    """One column on one task."""

    name: str
    rows: int
    coverage: float
    metrics: Mapping[str, Estimate]
    """Those of METRICS and ``within``."""
    minus_verbalised: Mapping[str, Estimate] | None
    """Paired differences on the rows where both columns give a confidence; None for the stated one itself."""
    cost: Mapping[str, int]
    """``passes`` and ``tokens`` for so many ``completions``, of all tasks; empty where it is not known."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        less = self.minus_verbalised
        return {
            "name": self.name,
            "rows": self.rows,
            "coverage": self.coverage,
            "metrics": {name: estimate.to_dict() for name, estimate in self.metrics.items()},
            "minus_verbalised": less and {name: estimate.to_dict() for name, estimate in less.items()},
            "cost": dict(self.cost),
        }


@dataclass(frozen=True)
class ColumnComparison:
    """All columns, task by task; ``notes`` name what was left out, ``records`` tells what it is about."""

    tasks: Mapping[str, list[ColumnResult]]
    notes: tuple[str, ...]
    records: str

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        tasks = {task: [result.to_dict() for result in found] for task, found in self.tasks.items()}
        return {"tasks": tasks, "notes": list(self.notes), "records": self.records}


def compare_columns(folder: Path, *, resamples: int = 1000) -> ColumnComparison:
    """Measure every column of a run and write ``columns.json``."""
    rows = read_rows(folder)
    if not rows.scored.any():
        raise RlcrError(f"{folder}: no record has a verdict, so that no confidence can be measured")
    stored, stale = fresh_columns(rows.run)
    names = [name for name in column_names(rows.run) if name not in stale]
    columns = {name: rows.aligned(stored[name]) if name in stored else rows.column(name) for name in names}
    task_of = np.array([record["task"] for record in rows.records()], dtype=object)
    tasks = {}
    for task in sorted(set(task_of)):
        chosen = (task_of == task) & rows.scored
        if chosen.any():
            tasks[task] = [_measured(rows, columns, name, chosen, resamples) for name in names]
    notes = [f"{name}: {why}" for name, why in stale.items()]
    found = ColumnComparison(tasks, tuple(notes), records_fingerprint(rows.run))
    write_whole(folder / COMPARISON, json.dumps(found.to_dict(), indent=2) + "\n")
    return found


def _measured(
    rows: Rows,
    columns: Mapping[str, NDArray[np.float64]],
    name: str,
    chosen: NDArray[np.bool_],
    resamples: int,
) -> ColumnResult:
    confidence_N = columns[name]
    ids = np.array([key[0] for key in rows.keys], dtype=object)
    given = chosen & ~np.isnan(confidence_N)
    found: dict[str, Estimate] = dict.fromkeys(
        (*METRICS, WITHIN), Estimate(None, None, None, "no confidence")
    )
    if given.any():
        correct, stated, question = rows.verdict[given], confidence_N[given], ids[given]
        summary = metrics.summary(correct, stated, question=question.tolist(), resamples=resamples)
        found = {metric: summary.metrics[metric] for metric in METRICS}
        found[WITHIN] = within_question(correct, [stated], question, resamples)[0]
    less = None
    if name != VERBALISED:
        both = given & ~np.isnan(columns[VERBALISED])
        if both.any():
            less = _differences(rows, columns[VERBALISED], confidence_N, ids, both, resamples)
    spent = _cost(rows, name)
    share = float(given.sum() / chosen.sum())
    return ColumnResult(name, int(given.sum()), share, found, less, spent)


def _cost(rows: Rows, name: str) -> dict[str, int]:
    """What a column took, and for how many completions (of all tasks) it was spent."""
    told = provenance(rows.run, name)
    spent = told.get("cost")
    if not isinstance(spent, Mapping) or not spent:
        return {}
    return {"completions": told.get("completions") or len(rows.keys), **spent}


def _differences(
    rows: Rows,
    verbalised_N: NDArray[np.float64],
    confidence_N: NDArray[np.float64],
    ids: NDArray[Any],
    both: NDArray[np.bool_],
    resamples: int,
) -> dict[str, Estimate]:
    correct, question = rows.verdict[both], ids[both]
    paired = metrics.compare(
        correct,
        verbalised_N[both],
        correct,
        confidence_N[both],
        question=question.tolist(),
        resamples=resamples,
    )
    found: dict[str, Estimate] = {metric: paired.metrics[metric] for metric in METRICS}
    found[WITHIN] = within_question(correct, [verbalised_N[both], confidence_N[both]], question, resamples)[
        -1
    ]
    return found


def within_question(
    correct_N: NDArray[np.int64],
    confidences: list[NDArray[np.float64]],
    question_N: NDArray[Any],
    resamples: int = 1000,
    seed: int = 0,
) -> list[Estimate]:
    """↑ Of a right and a wrong sample of the same question, how often is the right one more confident?

    Over all such pairs, ties counting half; each question weighs by its pairs. None where no question has
    both. Intervals resample questions. With two columns the last estimate is second minus first, paired.

    >>> question = np.array(["a", "a", "b", "b"])
    >>> within_question(np.array([1, 0, 0, 1]), [np.array([0.9, 0.2, 0.5, 0.5])], question, 0)[0].value
    0.75
    """
    _, codes = np.unique(question_N.astype(str), return_inverse=True)
    order = np.argsort(codes, kind="stable")
    pairs_Q, wins_CQ = [], []
    for members in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
        right, wrong = members[correct_N[members] == RIGHT], members[correct_N[members] == WRONG]
        if len(right) and len(wrong):
            gaps = [np.sign(q[right][:, None] - q[wrong][None]) for q in confidences]
            pairs_Q.append(len(right) * len(wrong))
            wins_CQ.append([float((gap + 1).sum() / 2) for gap in gaps])
    if not pairs_Q:
        nothing = Estimate(None, None, None, "no question has both a right and a wrong sample")
        return [nothing] * (len(confidences) + (len(confidences) == 2))
    pairs, wins = np.array(pairs_Q, np.float64), np.array(wins_CQ)
    weights_RQ = np.random.default_rng(seed).multinomial(
        len(pairs), np.full(len(pairs), 1 / len(pairs)), size=resamples
    )
    values_C = wins.sum(0) / pairs.sum()
    draws_RC = (weights_RQ @ wins) / (weights_RQ @ pairs)[:, None]
    estimates = [_estimate(values_C[c], draws_RC[:, c]) for c in range(len(confidences))]
    if len(confidences) == 2:
        estimates.append(_estimate(values_C[1] - values_C[0], draws_RC[:, 1] - draws_RC[:, 0]))
    return estimates


def _estimate(value: float, draws_R: NDArray[np.float64]) -> Estimate:
    if not len(draws_R):
        return Estimate(float(value), None, None)
    low, high = np.percentile(draws_R, [2.5, 97.5])
    return Estimate(float(value), float(low), float(high))
