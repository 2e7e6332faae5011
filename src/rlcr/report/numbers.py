"""The numbers of the report and their tables: headline, runs by tasks, task by task, other sources.

Numbers come from results.json where a run has them. Only what no file holds is measured here, from the
records: runs without results, and averages over some of their tasks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rlcr import metrics
from rlcr.metrics import Estimate
from rlcr.metrics.tables import (
    PARTIAL,
    Cell,
    Heading,
    Mark,
    Table,
    estimate_cell,
    mark_best,
    of_all,
    partial_note,
    resting_on,
    text_headings,
)
from rlcr.report.curves import Scope, estimate_of
from rlcr.report.fields import UNSCORABLE, mapping_of, number_of
from rlcr.report.naming import short_model
from rlcr.report.pairs import Pairs, affordable
from rlcr.report.reading import EvalRun
from rlcr.report.rows import labels_of

#: The metrics of every table, by their names in results.json, and what stands above them.
METRICS = ("accuracy", "auroc", "brier", "ece", "expected_reward")
HEADLINE = (
    Heading("Accuracy", "up", interval=True, key=True),
    Heading("AUROC", "up", interval=True),
    Heading("Brier", "down", interval=True),
    Heading("ECE", "down", interval=True, key=True),
    Heading("Reward", "up", interval=True, key=True),
)
_RATED = Heading("Rated")
_COUNTED = (Heading("Tokens"), Heading("Repaired"), Heading("Unscorable"), Heading("Answers"), _RATED)
_CAPTION = "With 95% intervals. Reward is accuracy − Brier: what RLCR pays on average."
_BEST = "“best” is marked only where the 95% interval of the paired difference to the runner-up excludes 0."
_GRID_NOTE = f"{PARTIAL} uses only some of the answers; the table of that task says how many."
_MEANINGS = {
    "Repaired": "Repaired: responses that had to be forced to give an answer or a confidence.",
    "Unscorable": "Unscorable: answers that could not be graded; they are left out of every number.",
    "Rated": "Rated: graded answers that state a confidence; every number but accuracy uses only these.",
}


def run_cell(runs: Sequence[EvalRun], run: EvalRun, mark: Mark = "") -> Cell:
    """The name of a run in its colour."""
    return Cell(run.label, series=runs.index(run), note=f"{run.method}, {run.model}", mark=mark)


def without_columns(
    columns: Sequence[Heading], rows: Sequence[Sequence[Cell]], names: Sequence[str]
) -> tuple[tuple[Heading, ...], tuple[tuple[Cell, ...], ...]]:
    """A table without some of its columns."""
    kept = [at for at, column in enumerate(columns) if column.text not in names]
    return tuple(columns[at] for at in kept), tuple(tuple(row[at] for at in kept) for row in rows)


def overview(runs: Sequence[EvalRun]) -> Table:
    """What was evaluated, and how."""
    names = ("method", "model", "tasks", "samples", "grading", "verifier")
    rows = []
    for run in runs:
        grading = str(run.settings.get("grading") or "unknown")
        samples = str(run.settings.get("samples") or "unknown")
        texts = (run.method, run.model, ", ".join(run.tasks) or "none", samples, grading, verifiers_of(run))
        rows.append((run_cell(runs, run), *(Cell(text) for text in texts)))
    columns = text_headings("Run", *(name.capitalize() for name in names))
    return Table("runs", "Runs", columns, tuple(rows))


def verifiers_of(run: EvalRun, tasks: Sequence[str] = ()) -> str:
    """Which verifiers graded a run, or some of its tasks; a judge with the name of its model."""
    known = run.rows.verifiers
    names = sorted({name for task in tasks or known for name in known.get(task, ())})
    judge = run.settings.get("judge_name")
    named = f"judge {short_model(str(judge))}" if judge else "judge"
    return ", ".join(named if name == "judge" else name for name in names) or "unknown"


@dataclass(frozen=True)
class _Basis:
    """How many answers were asked for, judged right or wrong, and of those state a confidence."""

    asked: int
    scored: int
    rated: int

    def under(self, metric: str, cell: Cell) -> Cell:
        """The cell of a metric, marked where it does not rest on all."""
        return resting_on(cell, self.scored if metric == "accuracy" else self.rated, self.asked)

    def cell(self) -> Cell:
        """How many are rated."""
        return Cell(of_all(self.rated, self.asked), self.rated)


def basis_of(run: EvalRun, tasks: Sequence[str]) -> _Basis:
    """What the metrics of some tasks rest on: from the records, or where they are gone from the results."""
    rows = run.rows.of(tasks)
    stored = [stored_basis(run.results or {}, task) for task in tasks]
    asked = sum(basis.asked for basis in stored)
    if not rows.any():
        return _Basis(asked, sum(basis.scored for basis in stored), sum(basis.rated for basis in stored))
    scored = rows & (run.rows.verdict != UNSCORABLE)
    rated = scored & ~np.isnan(run.rows.confidence)
    return _Basis(max(asked, int(rows.sum())), int(scored.sum()), int(rated.sum()))


def stored_basis(results: Mapping[str, Any], task: str, source: Mapping[str, Any] | None = None) -> _Basis:
    """What the results say of a task, or of another source of confidence in its answers."""
    held = mapping_of(mapping_of(results.get("tasks")).get(task))
    asked = number_of(mapping_of(mapping_of(results.get("coverage")).get(task)).get("asked"))
    counts = [number_of((held if source is None else source).get(name)) for name in ("n", "rated")]
    scored, rated = (0 if math.isnan(count) else int(count) for count in counts)
    return _Basis(scored if math.isnan(asked) else int(asked), scored, rated)


class Measured:
    """The headline metrics of runs on tasks, each found once."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, tuple[str, ...]], tuple[list[Estimate], list[str]]] = {}

    def of(self, run: EvalRun, tasks: Sequence[str]) -> tuple[list[Estimate], list[str]]:
        """The metrics in the order of METRICS, and notes on how they were found."""
        key = id(run), tuple(tasks)
        if key not in self._kept:
            notes: list[str] = []
            self._kept[key] = estimates_of(run, tasks, notes), notes
        return self._kept[key]


def scope_table(
    pairs: Pairs, measured: Measured, scope: Scope, collapsed: Mapping[str, Mark], name: str, title: str
) -> Table:
    """The metrics of every run on some tasks: of one task, or the unweighted average of several."""
    runs = pairs.runs
    columns = (*text_headings("Run"), *HEADLINE, *_COUNTED)
    rows: list[tuple[Cell, ...]] = []
    numbers: list[int] = []
    notes: list[str] = []
    for number, run in enumerate(runs):
        if not set(scope.tasks) <= set(run.tasks):
            continue
        estimates, own_notes = measured.of(run, scope.tasks)
        notes += own_notes
        basis = basis_of(run, scope.tasks)
        cells = [
            basis.under(metric, estimate_cell(e.value, e.low, e.high, note=e.note))
            for metric, e in zip(METRICS, estimates, strict=True)
        ]
        mark = collapsed.get(run.label, "")
        rows.append((run_cell(runs, run, mark), *cells, *_counts(run, scope.tasks), basis.cell()))
        numbers.append(number)
    without = [run.label for run in runs if not set(scope.tasks) <= set(run.tasks)]
    if without:
        what = "this task" if len(scope.tasks) == 1 else "all of these"
        notes.append(f"Not evaluated on {what}: {'; '.join(without)}.")
    marked = _mark_decided(pairs, scope, columns, rows, numbers)
    missing = "" if marked else " ".join(notes) or "no evaluation was given"
    columns, shown = without_columns(columns, marked, _idle_counts(columns, marked))
    named = {column.text for column in columns}
    best = [_BEST] if len(shown) > 1 else []
    caption = " ".join([_CAPTION, *best, *(text for head, text in _MEANINGS.items() if head in named)])
    every_note = (*notes, *partial_note(shown)) if shown else ()
    return Table(name, title, columns, shown, caption, every_note, missing=missing)


def _mark_decided(
    pairs: Pairs,
    scope: Scope,
    columns: Sequence[Heading],
    rows: Sequence[tuple[Cell, ...]],
    numbers: Sequence[int],
) -> tuple[tuple[Cell, ...], ...]:
    """The best marked among the runs that did not collapse, where it is decided that it is the best."""
    if any(pairs.runs[number].unfinished for number in numbers):
        return tuple(rows)  # numbers of other questions stand beside each other
    alive = [at for at, row in enumerate(rows) if not row[0].mark]

    def decided(column: int, best: int, following: int) -> bool:
        a, b = numbers[alive[following]], numbers[alive[best]]
        found = pairs.difference(a, b, scope.tasks, METRICS[column - 1])
        if found is None or found.low is None or found.high is None:
            return False
        return found.low > 0 if columns[column].better == "up" else found.high < 0

    marked = dict(zip(alive, mark_best(columns, [rows[at] for at in alive], decided), strict=True))
    return tuple(marked.get(at, row) for at, row in enumerate(rows))


def _idle_counts(columns: Sequence[Heading], rows: Sequence[Sequence[Cell]]) -> list[str]:
    """The counts that say nothing of any run: no tokens known, none repaired, none lost, all rated."""
    texts = {column.text: [row[at].text for row in rows] for at, column in enumerate(columns)}
    nothing = {"Tokens": ("0", "n/a"), "Repaired": ("0.0%",), "Unscorable": ("0",)}
    idle = [name for name, values in nothing.items() if set(texts[name]) <= set(values)]
    return [*idle, "Rated"] if texts["Rated"] == texts["Answers"] else idle


def grid(runs: Sequence[EvalRun], measured: Measured, tasks: Sequence[str]) -> Table:
    """Runs by tasks: the accuracy of each, with ECE and reward below it."""
    rows, notes = [], []
    for run in runs:
        cells = [run_cell(runs, run)]
        for task in tasks:
            if task not in run.tasks:
                cells.append(Cell("–", note="not evaluated on this task"))
                continue
            (accuracy, _, _, ece, reward), own_notes = measured.of(run, [task])
            notes += own_notes
            cell = estimate_cell(accuracy.value)
            cell = basis_of(run, [task]).under("accuracy", cell)
            cells.append(replace(cell, below=(f"ECE {_short(ece)}", f"reward {_short(reward)}")))
        rows.append(tuple(cells))
    columns = (*text_headings("Run"), *(Heading(task, key=True) for task in tasks))
    caption = "Accuracy; below it ECE and reward (accuracy − Brier). A dash: not evaluated on this task."
    notes = (*dict.fromkeys(notes), *partial_note(rows, _GRID_NOTE))
    return Table("grid", "Runs by tasks", columns, tuple(rows), caption, notes)


def _short(estimate: Estimate) -> str:
    return estimate_cell(estimate.value).text


def estimates_of(run: EvalRun, tasks: Sequence[str], notes: list[str]) -> list[Estimate]:
    """The headline metrics of a run, from its results where they hold them, else from its records."""
    stored = stored_of(run, tasks)
    estimates = [estimate_of(stored, name) for name in METRICS]
    if estimates[0][0] is None:
        return _measured(run, tasks, notes)
    whys = [_note(stored, name) for name in METRICS]
    found = [
        Estimate(value, _end(low), _end(high), why)
        for (value, low, high), why in zip(estimates, whys, strict=True)
    ]
    if not isinstance(mapping_of(stored.get("metrics")).get("expected_reward"), Mapping):
        # Results of an older version.
        found[-1] = _measured(run, tasks, [])[-1]
    return found


def stored_of(run: EvalRun, tasks: Sequence[str]) -> Any:
    """What the results of a run hold of a task, or of all of these together; None where they do not."""
    results = run.results or {}
    if len(tasks) == 1:
        return (results.get("tasks") or {}).get(tasks[0])
    macro = results.get("macro")
    same = isinstance(macro, Mapping) and sorted(map(str, macro["tasks"])) == sorted(tasks)
    return macro if same else None


def _note(stored: Any, name: str) -> str:
    estimate = stored["metrics"].get(name)
    return str(estimate.get("note", "")) if isinstance(estimate, Mapping) else ""


def _end(value: float) -> float | None:
    return None if math.isnan(value) else value


def _measured(run: EvalRun, tasks: Sequence[str], notes: list[str]) -> list[Estimate]:
    summaries: dict[str, metrics.Summary] = {}
    resamples = affordable(len(run.rows))
    for task in tasks:
        correct, confidence, question = run.rows.scored([task])
        if len(correct):
            summaries[task] = metrics.summary(
                correct, confidence, question=labels_of(question), resamples=resamples
            )
    if not summaries:
        return [Estimate(None, None, None, "nothing could be scored")] * len(METRICS)
    if len(summaries) < len(tasks):
        lost = ", ".join(task for task in tasks if task not in summaries)
        notes.append(f"{run.label}: nothing of {lost} could be scored.")
    if not run.results:
        notes.append(
            f"{run.label} has no results: measured here, from its records ({resamples:,} resamples)."
        )
    if len(summaries) == 1:
        averages = next(iter(summaries.values())).metrics
    else:
        averages = metrics.macro_average(summaries).metrics
    return [averages[name] for name in METRICS]


def _counts(run: EvalRun, tasks: Sequence[str]) -> tuple[Cell, ...]:
    rows = run.rows.of(tasks)
    n = int(rows.sum())
    if not n:
        stored = [(run.results or {}).get("tasks", {}).get(task) for task in tasks]
        return _stored_counts([task for task in stored if isinstance(task, Mapping)])
    tokens = run.rows.tokens[rows]
    tokens = tokens[~np.isnan(tokens)]
    mean = float(tokens.mean()) if len(tokens) else None
    repaired = float((run.rows.repaired[rows] > 0).mean())
    lost = int((run.rows.verdict[rows] == UNSCORABLE).sum())
    return (
        Cell("n/a") if mean is None else Cell(f"{mean:,.0f}", mean),
        Cell(f"{repaired:.1%}", repaired),
        Cell(f"{lost:,}", lost),
        Cell(f"{n:,}", n),
    )


def _stored_counts(tasks: Sequence[Mapping[str, Any]]) -> tuple[Cell, ...]:
    """From the results alone, where the records are gone. They do not say how many took any repair."""
    try:
        counts = [int(task["completions"]) for task in tasks]
        n, lost = sum(counts), sum(int(sum(task["unscorable"].values())) for task in tasks)
        tokens = sum(number_of(task["tokens"]) * count for task, count in zip(tasks, counts, strict=True)) / n
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError):
        return (Cell("n/a"),) * 4
    return Cell(f"{tokens:,.0f}", tokens), Cell("n/a"), Cell(f"{lost:,}", lost), Cell(f"{n:,}", n)


def source_table(runs: Sequence[EvalRun]) -> Table | None:
    """Other sources of confidence than what the model states, from the results; None where there are none."""
    columns = (*text_headings("Run", "Task", "Confidence"), *HEADLINE[1:], _RATED)
    rows = []
    for run in runs:
        for task, stored in ((run.results or {}).get("tasks") or {}).items():
            others = stored.get("confidences") if isinstance(stored, Mapping) else None
            if not isinstance(others, Mapping) or not others:
                continue
            for source, held in (("verbalised", stored), *others.items()):
                basis = stored_basis(run.results or {}, task, mapping_of(held))
                cells = [basis.under(name, estimate_cell(*estimate_of(held, name))) for name in METRICS[1:]]
                row = (run_cell(runs, run), Cell(task), Cell(str(source)), *cells, basis.cell())
                rows.append(row)
    if not rows:
        return None
    title = "Other sources of confidence"
    return Table("confidence-sources", title, columns, tuple(rows), notes=partial_note(rows), folded=title)
