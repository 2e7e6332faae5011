"""The tables of the report: headline, task by task, held-out evaluations, and paired differences.

Numbers come from results.json where a run has them. Only what no file holds is measured here, from the
records: runs without results, averages over some of their tasks, and differences.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from rlcr import metrics
from rlcr.metrics import Estimate
from rlcr.metrics.intervals import Answers
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
from rlcr.report.curves import Scope, estimate_of
from rlcr.report.fields import UNSCORABLE, mapping_of, number_of
from rlcr.report.reading import EvalRun, TrainingRun
from rlcr.report.trainings import taught_updates

# name, heading, which way is better
HEADLINE = (
    Heading("Accuracy", "up", interval=True),
    Heading("AUROC", "up", interval=True),
    Heading("Brier", "down", interval=True),
    Heading("ECE", "down", interval=True),
)
_METRICS = ("accuracy", "auroc", "brier", "ece")
_RATED = Heading("Rated")
_COUNTED = (Heading("Tokens"), Heading("Repaired"), Heading("Unscorable"), Heading("Answers"), _RATED)

_RESAMPLES = 1000
# Rows times resamples that all comparisons together may cost: some twenty seconds.
_WORK = 200_000_000
_ALL_PAIRS = 6


def _run_cell(runs: Sequence[EvalRun], run: EvalRun) -> Cell:
    return Cell(run.label, series=runs.index(run), note=f"{run.method}, {run.model}")


def overview(runs: Sequence[EvalRun]) -> Table:
    """What was evaluated, and how."""
    names = ("method", "model", "tasks", "samples", "grading", "verifier")
    rows = []
    for run in runs:
        grading = str(run.settings.get("grading") or "unknown")
        samples = str(run.settings.get("samples") or "unknown")
        texts = (run.method, run.model, ", ".join(run.tasks) or "none", samples, grading, _verifiers(run))
        rows.append((_run_cell(runs, run), *(Cell(text) for text in texts)))
    columns = text_headings("Run", *(name.capitalize() for name in names))
    return Table("runs", "Runs", columns, tuple(rows))


def _verifiers(run: EvalRun, tasks: Sequence[str] = ()) -> str:
    """Which verifiers graded a run, or some of its tasks; a judge with the name of its model."""
    known = run.rows.verifiers
    names = sorted({name for task in tasks or known for name in known.get(task, ())})
    judge = run.settings.get("judge_name")
    return ", ".join(f"judge {judge}" if name == "judge" and judge else name for name in names) or "unknown"


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


def _basis(run: EvalRun, tasks: Sequence[str]) -> _Basis:
    """What the metrics of some tasks rest on: from the records, or where they are gone from the results."""
    rows = run.rows.of(tasks)
    stored = [_stored_basis(run.results or {}, task) for task in tasks]
    asked = sum(basis.asked for basis in stored)
    if not rows.any():
        return _Basis(asked, sum(basis.scored for basis in stored), sum(basis.rated for basis in stored))
    scored = rows & (run.rows.verdict != UNSCORABLE)
    rated = scored & ~np.isnan(run.rows.confidence)
    return _Basis(max(asked, int(rows.sum())), int(scored.sum()), int(rated.sum()))


def _stored_basis(results: Mapping[str, Any], task: str, source: Mapping[str, Any] | None = None) -> _Basis:
    """What the results say of a task, or of another source of confidence in its answers."""
    held = mapping_of(mapping_of(results.get("tasks")).get(task))
    asked = number_of(mapping_of(mapping_of(results.get("coverage")).get(task)).get("asked"))
    counts = [number_of((held if source is None else source).get(name)) for name in ("n", "rated")]
    scored, rated = (0 if math.isnan(count) else int(count) for count in counts)
    return _Basis(scored if math.isnan(asked) else int(asked), scored, rated)


def scope_table(runs: Sequence[EvalRun], scope: Scope, name: str, title: str) -> Table:
    """The metrics of every run on some tasks: of one task, or the unweighted average of several."""
    columns = (*text_headings("Run"), *HEADLINE, *_COUNTED)
    rows: list[tuple[Cell, ...]] = []
    partial: list[tuple[Cell, ...]] = []
    notes: list[str] = []
    without = [run.label for run in runs if not set(scope.tasks) & set(run.tasks)]
    if without:
        notes.append(
            f"Not evaluated on {'this task' if len(scope.tasks) == 1 else 'these'}: {'; '.join(without)}."
        )
    for run in runs:
        having = tuple(task for task in scope.tasks if task in run.tasks)
        if not having:
            continue
        estimates = estimates_of(run, having, notes)
        basis = _basis(run, having)
        cells = [
            basis.under(name, estimate_cell(e.value, e.low, e.high, note=e.note))
            for name, e in zip(_METRICS, estimates, strict=True)
        ]
        row = (_run_cell(runs, run), *cells, *_counts(run, having), basis.cell())
        if len(having) < len(scope.tasks):
            notes.append(
                f"{run.label} has {len(having)} of the {len(scope.tasks)} tasks ({', '.join(having)}): its "
                "numbers are of those alone, and it is left out when the best is marked."
            )
            partial.append(row)
        else:
            rows.append(row)
    marked = (*mark_best(columns, rows), *partial)
    notes += partial_note(marked)
    missing = "" if marked else " ".join(notes) or "no evaluation was given"
    return Table(name, title, columns, marked, notes=tuple(notes) if marked else (), missing=missing)


def estimates_of(run: EvalRun, tasks: Sequence[str], notes: list[str]) -> list[Estimate]:
    """The headline metrics of a run, from its results where they hold them, else from its records."""
    results = run.results or {}
    stored: Any = None
    if len(tasks) == 1:
        stored = (results.get("tasks") or {}).get(tasks[0])
    elif isinstance(results.get("macro"), Mapping) and sorted(map(str, results["macro"]["tasks"])) == sorted(
        tasks
    ):
        stored = results["macro"]
    estimates = [estimate_of(stored, name) for name in _METRICS]
    if estimates[0][0] is not None:
        whys = [_note(stored, name) for name in _METRICS]
        return [
            Estimate(value, _end(low), _end(high), why)
            for (value, low, high), why in zip(estimates, whys, strict=True)
        ]
    return _measured(run, tasks, notes)


def _note(stored: Any, name: str) -> str:
    estimate = stored["metrics"].get(name)
    return str(estimate.get("note", "")) if isinstance(estimate, Mapping) else ""


def _end(value: float) -> float | None:
    return None if math.isnan(value) else value


def _measured(run: EvalRun, tasks: Sequence[str], notes: list[str]) -> list[Estimate]:
    summaries: dict[str, metrics.Summary] = {}
    resamples = _affordable(len(run.rows))
    for task in tasks:
        correct, confidence, question = run.rows.scored([task])
        if len(correct):
            summaries[task] = metrics.summary(
                correct, confidence, question=question.tolist(), resamples=resamples
            )
    if not summaries:
        return [Estimate(None, None, None, "nothing could be scored")] * len(_METRICS)
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
    return [averages[name] for name in _METRICS]


def _affordable(rows: int) -> int:
    return max(100, min(_RESAMPLES, _WORK // max(1, rows)))


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
                basis = _stored_basis(run.results or {}, task, mapping_of(held))
                cells = [basis.under(name, estimate_cell(*estimate_of(held, name))) for name in _METRICS[1:]]
                row = (_run_cell(runs, run), Cell(task), Cell(str(source)), *cells, basis.cell())
                rows.append(row)
    if not rows:
        return None
    title = "Other sources of confidence"
    return Table("confidence-sources", title, columns, tuple(rows), notes=partial_note(rows), folded=True)


def trainings_table(trainings: Sequence[TrainingRun]) -> Table:
    """What was trained, and how many of the updates taught anything."""
    columns = (*text_headings("Training", "Model", "Task"), Heading("Updates"), Heading("Taught anything"))
    rows = []
    for run in trainings:
        model, made = str(run.settings.get("model") or "unknown"), len(run.update)
        found = taught_updates(run.columns)
        share = Cell("unknown") if found is None else Cell(of_all(*found), found[0])
        names = Cell(run.label, series=run.colour), Cell(model), Cell(run.task or "unknown")
        rows.append((*names, Cell(f"{made:,}", made), share))
    warnings = tuple(f"{run.label}: {warning}" for run in trainings for warning in run.warnings)
    return Table("trainings", "Trainings", columns, tuple(rows), notes=warnings)


def held_out_table(trainings: Sequence[TrainingRun]) -> Table | None:
    """The held-out evaluations of the trainings, update by update; None where there are none."""
    columns = (*text_headings("Training"), Heading("Update"), *text_headings("Task"), *HEADLINE, _RATED)
    rows = []
    for run in trainings:
        for update, results in run.evals:
            for task, stored in (results.get("tasks") or {}).items():
                basis = _stored_basis(results, task)
                cells = [basis.under(name, estimate_cell(*estimate_of(stored, name))) for name in _METRICS]
                when = Cell(f"{update:,}", update)
                rows.append((Cell(run.label, series=run.colour), when, Cell(task), *cells, basis.cell()))
    if not rows:
        return None
    return Table("held-out", "Held-out evaluations", columns, tuple(rows), notes=partial_note(rows))


# --- differences ------------------------------------------------------------------------------------


def differences(runs: Sequence[EvalRun], tasks: Sequence[str]) -> Table:
    """Paired differences between the runs on the questions that both scored, as `rlcr compare` makes them."""
    columns = (
        *text_headings("Run", "minus", "Task"),
        *(Heading(f"Δ {column.text}", column.better, interval=True) for column in HEADLINE),
        Heading("Questions"),
        Heading("Rated of each"),
    )
    every = len(runs) <= _ALL_PAIRS
    pairs = list(combinations(range(len(runs)), 2)) if every else [(0, n) for n in range(1, len(runs))]
    work = [
        (a, b, task)
        for a, b in pairs
        for task in tasks
        if task in runs[a].rows.tasks and task in runs[b].rows.tasks
    ]
    answers = {(n, task): _answers(run, task) for n, run in enumerate(runs) for task in run.rows.tasks}
    cost = sum(len(answers[n, task][0]) for a, b, task in work for n in (a, b))
    resamples = _affordable(cost)
    rows, notes = [], []
    for a, b, task in work:
        same = _same_problems(runs[a], runs[b], task)
        if same is not None:
            notes.append(
                f"{runs[b].label} and {runs[a].label} do not have all problems of {task} in common: the "
                "pairs are those with the same id and content."
            )
        comparison = metrics.compare_common(
            answers[a, task], answers[b, task], only=same, resamples=resamples
        )
        if comparison is None:
            notes.append(f"{runs[b].label} and {runs[a].label} have no scored question of {task} in common.")
            continue
        paired = [comparison.metrics[name] for name in _METRICS]
        cells = [
            resting_on(
                difference_cell(d.value, d.low, d.high, column.better, d.note),
                sum(comparison.rows(name)),
                sum(comparison.n),
            )
            for name, d, column in zip(_METRICS, paired, HEADLINE, strict=True)
        ]
        questions = Cell(f"{comparison.questions:,}", comparison.questions)
        rated = [of_all(*counts) for counts in zip(comparison.rated, comparison.n, strict=True)]
        named = _run_cell(runs, runs[b]), _run_cell(runs, runs[a]), Cell(task)
        rows.append((*named, *cells, questions, Cell(" and ".join(reversed(rated)))))
        by_a, by_b = (_verifiers(runs[n], [task]) for n in (a, b))
        if by_a != by_b:
            notes.append(f"{task}: {runs[b].label} was verified by {by_b}, {runs[a].label} by {by_a}.")
    if not every:
        notes.append(f"With more than {_ALL_PAIRS} runs, each is compared with the first alone.")
    missing = ""
    if not rows:
        missing = "two runs with records of the same task are needed" if not notes else " ".join(notes)
    caption = (
        f"95% intervals from {resamples:,} paired resamples of the questions that both runs scored. "
        "Marked: those whose interval leaves out 0."
    )
    return Table(
        "differences",
        "Paired differences",
        columns,
        tuple(rows),
        caption,
        (*notes, *partial_note(rows)) if rows else (),
        missing,
    )


def _same_problems(a: EvalRun, b: EvalRun, task: str) -> set[str] | None:
    """The ids under which both runs hold the same problem; None where that is all, or unknown."""
    hashes = a.task_hash(task), b.task_hash(task)
    if None in hashes or hashes[0] == hashes[1]:
        return None
    ids = set(a.rows.ids) & set(b.rows.ids)
    first, second = (run.problems(ids) for run in (a, b))
    return {
        name
        for name in first.keys() & second.keys()
        if all(first[name].get(part) == second[name].get(part) for part in ("question", "gold"))
    }


def _answers(run: EvalRun, task: str) -> Answers:
    correct, confidence, question = run.rows.scored([task])
    return correct, confidence, [run.rows.ids[number] for number in question]
