"""Confidence columns side by side, as the report's section.

The report reads ``columns.json``, which `rlcr confidence compare` wrote, and the columns themselves; it
measures nothing but the reliability curves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rlcr import metrics
from rlcr.errors import RlcrError
from rlcr.metrics.tables import (
    Cell,
    Heading,
    Table,
    difference_cell,
    estimate_cell,
    mark_best,
    of_all,
    partial_note,
    resting_on,
    text_headings,
)
from rlcr.report.curves import reliability_panel
from rlcr.report.fields import UNSCORABLE, interval_of, mapping_of, number_of
from rlcr.report.pairs import affordable
from rlcr.report.reading import EvalRun
from rlcr.report.rows import Floats
from rlcr.report.shapes import Figure, Panel
from rlcr.runs.columns import VERBALISED, Column, read_column, stored_columns

MEASURED = (
    ("auroc", Heading("AUROC", "up", interval=True, key=True)),
    ("brier", Heading("Brier", "down", interval=True, key=True)),
    ("brier_skill", Heading("Brier skill", "up", interval=True)),
    ("ece", Heading("ECE", "down", interval=True, key=True)),
    ("within", Heading("Within question", "up", interval=True)),
)
_CAPTION = (
    "Within question: of a right and a wrong sample of the same question, how often the right one is more "
    "confident. Coverage: the share of answers that are given a confidence; the best are marked among those "
    "of the highest. Cost: forward passes over a sequence, and tokens, beyond the run itself, for each "
    "answer."
)
COUNTED = ("rows", "coverage", "passes", "tokens")
_COMPARE = "`rlcr confidence compare` it again"
_MOST_PANELS = 12


def section_of(run: EvalRun, stored: Mapping[str, Any]) -> tuple[list[Table], Figure | None, list[str]]:
    """The tables and the figure of a run's columns, and notes on what could not be read."""
    tasks = stored.get("tasks")
    if not isinstance(tasks, Mapping):
        return [], None, [f"{run.label}: columns.json is not of the documented shape; {_COMPARE}"]
    names = [str(row.get("name")) for results in tasks.values() for row in _results(results)]
    figure, notes = column_reliability(run, list(dict.fromkeys(names)))
    if lacking := [name for name in stored_columns(run.folder) if name not in names]:
        notes.append(f"{run.label}: columns.json lacks {', '.join(lacking)}; {_COMPARE}")
    return column_tables(run, stored), figure, notes


def _results(results: Any) -> list[Mapping[str, Any]]:
    return [row for row in results if isinstance(row, Mapping)] if isinstance(results, list) else []


def column_tables(run: EvalRun, stored: Mapping[str, Any]) -> list[Table]:
    """For each task a table of all columns and one of their differences."""
    tables: list[Table] = []
    for task, results in stored["tasks"].items():
        rows = _results(results)
        where = f"{run.label}, {task}"
        columns = (
            *text_headings("Confidence"),
            *(heading for _, heading in MEASURED),
            *map(Heading, ("Rows", "Coverage", "Passes", "Tokens")),
        )
        cells = [_row(row) for row in rows]
        name = f"columns-{run.label}-{task}".replace("/", "-").replace(" ", "-")
        tables.append(
            Table(
                name,
                f"Columns of confidence: {where}",
                columns,
                _marked(run, task, columns, cells),
                _CAPTION,
                partial_note(cells),
            )
        )
        differences = [_difference(row) for row in rows if isinstance(row.get("minus_verbalised"), Mapping)]
        if differences:
            heads = tuple(replace(heading, text=f"Δ {heading.text}") for _, heading in MEASURED)
            caption = (
                "Each column minus the stated confidence, paired on the answers where both give one. "
                "Marked where the interval excludes 0."
            )
            tables.append(
                Table(
                    f"{name}-differences",
                    f"Against the stated confidence: {where}",
                    (*text_headings("Confidence"), *heads, Heading("Answers")),
                    tuple(differences),
                    caption,
                    partial_note(differences),
                )
            )
    return tables


def _estimates(held: Any) -> list[Cell]:
    cells = []
    for name, _ in MEASURED:
        stored = mapping_of(mapping_of(held).get(name))
        estimate = number_of(stored.get("value")), *interval_of(stored)
        cells.append(estimate_cell(*estimate, note=str(stored.get("note", ""))))
    return cells


def _row(row: Mapping[str, Any]) -> tuple[Cell, ...]:
    rows, scored = _counts(row, "rows")
    coverage = number_of(row.get("coverage"))
    each = [cost_each(mapping_of(row.get("cost")), name) for name in ("passes", "tokens")]
    return (
        Cell(str(row.get("name"))),
        *(resting_on(cell, rows, scored) for cell in _estimates(row.get("metrics"))),
        Cell(of_all(rows, scored), rows) if scored else Cell("n/a"),
        Cell("n/a") if math.isnan(coverage) else Cell(f"{coverage:.3f}", coverage),
        *(Cell("unknown") if math.isnan(value) else Cell(f"{value:,.3g}", value) for value in each),
    )


def _counts(row: Mapping[str, Any], name: str) -> tuple[int, int]:
    """How many rows something rests on, and how many were scored; 0 where that is not known."""
    counts = [number_of(row.get(field)) for field in (name, "scored")]
    rows, scored = (0 if math.isnan(count) else int(count) for count in counts)
    return rows, scored or rows


def cost_each(cost: Mapping[str, Any], name: str) -> float:
    """Passes or tokens for one completion; NaN where they are not known."""
    completions = number_of(cost.get("completions"))
    return number_of(cost.get(name)) / completions if completions else math.nan


def _marked(
    run: EvalRun, task: str, columns: Sequence[Heading], rows: Sequence[tuple[Cell, ...]]
) -> tuple[tuple[Cell, ...], ...]:
    """The best marked among the columns that give the most rows a confidence, where that is decided.

    One that speaks only of some may have chosen the easy ones.
    """
    metric_at = {heading.text: metric for metric, heading in MEASURED if metric in metrics.METRICS}

    def decided(column: int, best: int, following: int) -> bool:
        if columns[column].text not in metric_at:
            return False
        other, name = (rows[whole[number]][0].text for number in (following, best))
        found = _paired(run, task, other, name, metric_at[columns[column].text])
        if found is None or found.low is None or found.high is None:
            return False
        return found.low > 0 if columns[column].better == "up" else found.high < 0

    at = next(n for n, column in enumerate(columns) if column.text == "Coverage")
    most = max((row[at].value or 0 for row in rows), default=0)
    whole = [n for n, row in enumerate(rows) if (row[at].value or 0) == most]
    marked = dict(zip(whole, mark_best(columns, [rows[n] for n in whole], decided), strict=True))
    return tuple(marked.get(n, row) for n, row in enumerate(rows))


def _paired(run: EvalRun, task: str, a: str, b: str, metric: str) -> metrics.Difference | None:
    """Column b minus column a, on the answers of a task to which both give a confidence."""
    try:
        confidences = [_confidences(run, read_column(run.folder, name)) for name in (a, b)]
    except RlcrError:
        return None
    rows = run.rows.of([task]) & (run.rows.verdict != UNSCORABLE) & ~np.isnan(sum(confidences))
    if not rows.any():
        return None
    correct, question = run.rows.verdict[rows], run.rows.question[rows].tolist()
    first, second = (confidence[rows] for confidence in confidences)
    compared = metrics.compare(
        correct, first, correct, second, question=question, resamples=affordable(2 * int(rows.sum()))
    )
    return compared.metrics[metric]


def _confidences(run: EvalRun, column: Column) -> Floats:
    """What a column says of each row, NaN where nothing."""
    rows = run.rows
    given = [column.get((rows.ids[q], int(s))) for q, s in zip(rows.question, rows.sample, strict=True)]
    return np.array([math.nan if value is None else value for value in given], np.float64)


def _difference(row: Mapping[str, Any]) -> tuple[Cell, ...]:
    pairs, scored = _counts(row, "pairs")
    cells = [
        resting_on(difference_cell(cell.value, cell.low, cell.high, heading.better, cell.note), pairs, scored)
        for cell, (_, heading) in zip(_estimates(row["minus_verbalised"]), MEASURED, strict=True)
    ]
    return (Cell(str(row.get("name"))), *cells, Cell(of_all(pairs, scored), pairs))


def column_reliability(run: EvalRun, names: Sequence[str]) -> tuple[Figure | None, list[str]]:
    """Accuracy against confidence for each column of a run, all tasks together."""
    panels, notes = [], []
    for name in names[:_MOST_PANELS]:
        try:
            column = read_column(run.folder, name)
        except RlcrError as error:
            notes.append(f"{run.label}: {error}")
            continue
        if panel := _panel(run, name, column):
            panels.append(panel)
    if len(names) > _MOST_PANELS:
        notes.append(f"{run.label}: of {len(names)} columns the first {_MOST_PANELS} are drawn")
    if not panels:
        return None, notes
    label = f"column-reliability-{run.label}".replace("/", "-").replace(" ", "-")
    return (
        Figure(
            name=label,
            title=f"Reliability of each column: {run.label}",
            caption="Accuracy against confidence in tenths; larger marks hold more answers.",
            panels=tuple(panels),
            legend=(),
            about="column",
        ),
        notes,
    )


def _panel(run: EvalRun, name: str, column: Column) -> Panel | None:
    rows = run.rows
    confidence = _confidences(run, column)
    kept = ~np.isnan(confidence) & (rows.verdict != UNSCORABLE)
    if not kept.any():
        return None
    curve = metrics.reliability_curve(rows.verdict[kept], confidence[kept], binning="decimal")
    return reliability_panel(name, curve, "", 0 if name == VERBALISED else 1)
