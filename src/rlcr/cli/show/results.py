"""Results and comparisons on the terminal."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table as RichTable

from rlcr.evaluate.compare import RunComparison
from rlcr.evaluate.results import Results, failures, results_table
from rlcr.metrics import Difference
from rlcr.metrics.tables import Cell, Heading, Table, of_all, partial_note, resting_on
from rlcr.terminal import console

_COMPARED = (
    ("accuracy", Heading("accuracy", "up")),
    ("auroc", Heading("AUROC", "up")),
    ("brier", Heading("Brier", "down")),
    ("ece", Heading("ECE", "down")),
)


def terminal_table(table: Table) -> RichTable:
    """A table as rich prints it."""
    shown = RichTable(box=None, padding=(0, 2, 0, 0))
    for column in table.columns:
        shown.add_column(escape(column.title), justify="right" if column.numeric else "left", no_wrap=True)
    for row in table.rows:
        shown.add_row(*(escape(cell.text) for cell in row))
    return shown


def print_results(results: Results) -> None:
    """The table on the terminal."""
    out = console()
    table = results_table(results)
    out.print(terminal_table(table))
    for line in (table.caption, *partial_note(table.rows), *failures(results)):
        out.print(escape(line), soft_wrap=True)
    for name, task in results.tasks.items():
        for part, count in task.unrepaired.items():
            out.print(escape(f"{name}: {count} without {part}: the model did not continue the response"))
        # A table of completions made elsewhere holds no log-probabilities: nothing is amiss there.
        if task.without_logprobs and results.settings["method"] != "imported":
            counts = f"{task.without_logprobs} of {task.completions}"
            out.print(
                escape(f"{name}: {counts} without log-probabilities: the server sent none that are valid")
            )
    lost = {name: task.unscorable for name, task in results.tasks.items()} | dict(results.unscored)
    for name, reasons in lost.items():
        for reason, count in reasons.items():
            out.print(escape(f"{name}: {count} unscorable: {reason}"), soft_wrap=True)
    for warning in results.warnings:
        out.print(escape(f"warning: {warning}"), style="bold yellow", highlight=False, soft_wrap=True)


def print_comparison(comparison: RunComparison) -> None:
    """Paired differences, second run minus first, with their intervals; and what else differs."""
    out = console()
    names = ("task", "metric", "difference", "95% interval", "p", "better", "first on", "second on")
    headings = tuple(Heading(name, numeric=name not in ("task", "metric", "better")) for name in names)
    rows = []
    for task, differences in comparison.tasks.items():
        for name, metric in _COMPARED:
            value, *others = _difference(differences.metrics[name], metric)
            used = list(zip(differences.rows(name), differences.n, strict=True))
            rows.append(
                (
                    Cell(task),
                    Cell(metric.text),
                    resting_on(Cell(value), sum(n for n, _ in used), sum(differences.n)),
                    *map(Cell, others),
                    *(Cell(of_all(n, every)) for n, every in used),
                )
            )
    out.print(terminal_table(Table("comparison", "", headings, tuple(rows))))
    for line in partial_note(rows):
        out.print(line)
    questions = ", ".join(
        f"{task} {differences.questions:,}" for task, differences in comparison.tasks.items()
    )
    out.print(
        escape(f"second run minus first, on the problems both hold and could score: {questions}"),
        soft_wrap=True,
    )
    for task, (first, second) in comparison.verifiers.items():
        who = f"{first} in both" if first == second else f"{first} in the first, {second} in the second"
        out.print(escape(f"{task}: verified by {who}"), soft_wrap=True)
    for note in comparison.notes:
        out.print(escape(f"note: the runs differ in {note}"), soft_wrap=True)


def _difference(difference: Difference, metric: Heading) -> tuple[str, str, str, str]:
    """The difference, its interval, its p-value, and which run is better."""
    value, low, high = difference.value, difference.low, difference.high
    if value is None or low is None or high is None:
        return "n/a", "", "", ""
    better = (
        "undecided" if low <= 0 <= high else "second" if (low > 0) == (metric.better == "up") else "first"
    )
    p = "" if difference.p_value is None else f"{difference.p_value:.3f}"
    return f"{value:+.4f}", f"[{low:+.4f}, {high:+.4f}]", p, better
