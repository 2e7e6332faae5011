"""`rlcr confidence compare`: all columns of a run in one table, and each against what the model stated.

Every column is measured on the rows where it gives a confidence (``coverage`` says how many those are);
differences from the stated confidence are paired, on the rows where both give one. The comparison is
written to the run as ``columns.json``, which the report reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcr import metrics
from rlcr.confidence.rows import Rows, read_rows
from rlcr.errors import RlcrError
from rlcr.metrics import Difference, Estimate
from rlcr.metrics.bootstrap import Resampled, question_weights
from rlcr.metrics.within import NO_PAIRS, within_question
from rlcr.runs.columns import (
    VERBALISED,
    column_files,
    column_names,
    fresh_columns,
    provenance,
    stamp_columns,
)
from rlcr.runs.stamps import write_derived
from rlcr.runs.store import COMPARISON, CONFIDENCES, open_run

#: Written into the run.
MEASURED = ("auroc", "brier", "brier_skill", "ece")
WITHIN = "within"


@dataclass(frozen=True)
class ColumnResult:
    """One column on one task."""

    name: str
    rows: int
    coverage: float
    metrics: Mapping[str, Estimate]
    """Those of MEASURED and ``within``."""
    minus_verbalised: Mapping[str, Estimate] | None
    """Paired differences on the rows where both columns give a confidence; None for the stated one itself."""
    pairs: int
    """How many rows those are."""
    scored: int
    """The rows of the task that were judged right or wrong."""
    cost: Mapping[str, int]
    """``passes`` and ``tokens`` for so many ``completions``, of all tasks; empty where it is not known."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        less = self.minus_verbalised
        return {
            "name": self.name,
            "rows": self.rows,
            "coverage": self.coverage,
            "scored": self.scored,
            "pairs": self.pairs,
            "metrics": {name: estimate.to_dict() for name, estimate in self.metrics.items()},
            "minus_verbalised": less and {name: estimate.to_dict() for name, estimate in less.items()},
            "cost": dict(self.cost),
        }


@dataclass(frozen=True)
class ColumnComparison:
    """All columns, task by task; ``notes`` name what was left out."""

    tasks: Mapping[str, list[ColumnResult]]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        tasks = {task: [result.to_dict() for result in results] for task, results in self.tasks.items()}
        return {"tasks": tasks, "notes": list(self.notes)}


def compare_columns(folder: Path, *, resamples: int = 1000) -> ColumnComparison:
    """Measure every column of a run and write ``columns.json``."""
    made_from = stamp_columns(open_run(folder))
    rows = read_rows(folder)
    if not rows.scored.any():
        raise RlcrError(f"{folder}: no record has a verdict, so that no confidence can be measured")
    stored, stale = fresh_columns(rows.run)
    names = [name for name in column_names(rows.run) if name not in stale]
    columns = {name: rows.aligned(stored[name]) if name in stored else rows.column(name) for name in names}
    task_of = np.array([record.task for record in rows.records()], dtype=object)
    tasks = {}
    for task in sorted(set(task_of)):
        chosen = (task_of == task) & rows.scored
        if chosen.any():
            tasks[task] = [_measured(rows, columns, name, chosen, resamples) for name in names]
    notes = [f"{name}: {why}" for name, why in stale.items()]
    if given := rows.run.settings.get(CONFIDENCES):
        notes.append(f"{VERBALISED} is {given} of what was imported: no model stated it")
    comparison = ColumnComparison(tasks, tuple(notes))
    left_out = column_files(*stale)
    write_derived(rows.run, COMPARISON, comparison.to_dict(), made_from, without=left_out)
    return comparison


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
    estimates: dict[str, Estimate] = dict.fromkeys(
        (*MEASURED, WITHIN), Estimate(None, None, None, "no confidence")
    )
    if given.any():
        correct, stated, question = rows.verdict[given], confidence_N[given], ids[given]
        summary = metrics.summary(correct, stated, question=question.tolist(), resamples=resamples)
        estimates = {metric: summary.metrics[metric] for metric in MEASURED}
        (within,) = _within_question(correct, question, resamples, stated)
        estimates[WITHIN] = within.estimate(NO_PAIRS)
    less = None
    both = given & ~np.isnan(columns[VERBALISED])
    if name != VERBALISED and both.any():
        less = _differences(
            rows.verdict[both], ids[both], columns[VERBALISED][both], confidence_N[both], resamples
        )
    spent = _cost(rows, name)
    rows_given, scored, pairs = (int(which.sum()) for which in (given, chosen, both))
    return ColumnResult(name, rows_given, rows_given / scored, estimates, less, pairs, scored, spent)


def _differences(
    correct_N: NDArray[np.int64],
    question_N: NDArray[Any],
    verbalised_N: NDArray[np.float64],
    confidence_N: NDArray[np.float64],
    resamples: int,
) -> dict[str, Difference]:
    paired = metrics.compare(
        correct_N, verbalised_N, correct_N, confidence_N, question=question_N.tolist(), resamples=resamples
    )
    stated, other = _within_question(correct_N, question_N, resamples, verbalised_N, confidence_N)
    return {metric: paired.metrics[metric] for metric in MEASURED} | {WITHIN: other.minus(stated, NO_PAIRS)}


def _within_question(
    correct_N: NDArray[np.int64], question_N: NDArray[Any], resamples: int, *columns: NDArray[np.float64]
) -> list[Resampled]:
    """For each column, on the same resamples; each sample by its own verdict, as for the other metrics."""
    names, code_N = np.unique(question_N.astype(str), return_inverse=True)
    weights_RQ = question_weights(len(names), resamples)
    return [within_question(correct_N, confidence_N, code_N, weights_RQ) for confidence_N in columns]


def _cost(rows: Rows, name: str) -> dict[str, int]:
    """What a column took, and for how many completions (of all tasks) it was spent."""
    source = provenance(rows.run, name)
    spent = source.get("cost")
    if not isinstance(spent, Mapping) or not spent:
        return {}
    return {"completions": source.get("completions") or len(rows.keys), **spent}
