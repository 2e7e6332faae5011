"""Paired differences: every run minus a baseline, which the reader of the page chooses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rlcr.metrics import Comparison
from rlcr.metrics.tables import (
    Cell,
    Heading,
    Mark,
    Table,
    difference_cell,
    of_all,
    partial_note,
    resting_on,
    text_headings,
)
from rlcr.report.numbers import HEADLINE, METRICS, run_cell, verifiers_of, without_columns
from rlcr.report.pairs import ALL_PAIRS, Pairs

_RATED = "Rated (run, baseline)"


def differences(pairs: Pairs, collapsed: Sequence[Mark]) -> list[tuple[str, Table]]:
    """For each run that others can be compared with, a table of the others minus it; the first run first."""
    baselines = range(len(pairs.runs)) if pairs.every_pair else range(min(1, len(pairs.runs)))
    tables = [(pairs.runs[baseline].label, _minus(pairs, baseline, collapsed)) for baseline in baselines]
    return [(label, table) for label, table in tables if table.rows]


def _minus(pairs: Pairs, baseline: int, collapsed: Sequence[Mark]) -> Table:
    runs, rows, notes = pairs.runs, [], []
    columns = (
        *text_headings("Run", "Task"),
        *(replace(column, text=f"Δ {column.text}") for column in HEADLINE),
        Heading("Questions"),
        Heading(_RATED),
    )
    base = runs[baseline]
    for number, run in enumerate(runs):
        if number == baseline:
            continue
        for task in pairs.tasks:
            if task not in run.rows.tasks or task not in base.rows.tasks:
                continue
            comparison = pairs.comparison(baseline, number, task)
            if pairs.common_problems(baseline, number, task) is not None:
                notes.append(
                    f"{run.label} and {base.label} do not have all problems of {task} in common: the "
                    "pairs are those with the same id and content."
                )
            if comparison is None:
                notes.append(f"{run.label} and {base.label} have no scored question of {task} in common.")
                continue
            rows.append(
                (
                    run_cell(runs, run, collapsed[number]),
                    Cell(task),
                    *_cells(comparison, collapsed[baseline], collapsed[number]),
                    Cell(f"{comparison.questions:,}", comparison.questions),
                    Cell(", ".join(of_all(*n) for n in _rated(comparison))),
                )
            )
            graded = [verifiers_of(one, [task]) for one in (base, run)]
            if graded[0] != graded[1]:
                notes.append(f"{task}: {run.label} was verified by {graded[1]}, {base.label} by {graded[0]}.")
    if not pairs.every_pair:
        notes.append(f"With more than {ALL_PAIRS} runs, each is compared with the first alone.")
    caption = (
        f"95% intervals from {pairs.resamples:,} paired resamples of the questions that both runs scored. "
        "Marked where the interval excludes 0."
    )
    if any(collapsed):
        caption += " A run that gave up or is never right is not marked better, nor any other worse than it."
    idle = [name for name, at in (("Task", 1), (_RATED, -1)) if _is_idle(rows, at)]
    columns, shown = without_columns(columns, rows, idle)
    # The name of the first run's table is that of its files; others are told apart by their number.
    name = "differences" if not baseline else f"differences-{baseline + 1}"
    every_note = (*dict.fromkeys(notes), *partial_note(shown)) if shown else tuple(notes)
    return Table(name, f"Minus {base.label}", columns, shown, caption, every_note)


def _is_idle(rows: Sequence[Sequence[Cell]], at: int) -> bool:
    """Whether a column says nothing: one task only, or every answer is rated."""
    if at == 1:
        return len({row[at].text for row in rows}) == 1
    return not any("/" in row[at].text for row in rows)


def _rated(comparison: Comparison) -> list[tuple[int, int]]:
    """Rated and scored answers, of the run and of the baseline."""
    return [*zip(comparison.rated, comparison.n, strict=True)][::-1]


def _cells(comparison: Comparison, base: Mark, run: Mark) -> list[Cell]:
    cells = []
    for metric, column in zip(METRICS, HEADLINE, strict=True):
        found = comparison.metrics[metric]
        cell = difference_cell(found.value, found.low, found.high, column.better, found.note)
        # What a run that gave up is better in is no merit, and to be worse than that is no fault.
        if (cell.mark == "better" and run) or (cell.mark == "worse" and base):
            cell = replace(cell, mark="")
        cells.append(resting_on(cell, sum(comparison.rows(metric)), sum(comparison.n)))
    return cells
