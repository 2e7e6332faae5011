"""The results of a run as tables: Markdown, LaTeX and the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rlcr.metrics import Comparison, Estimate, MacroAverage
from rlcr.results import Coverage, Results, TaskResult

_PIPE_WIDTH = 200

# name, heading, whether more is better
_COLUMNS = (
    ("accuracy", "accuracy", True),
    ("auroc", "AUROC", True),
    ("brier", "Brier", False),
    ("ece", "ECE", False),
)


@dataclass(frozen=True)
class _Line:
    """One line of the table: a task and a source of confidence, or the average."""

    task: str
    confidence: str
    metrics: Mapping[str, Estimate]
    n: int
    tokens: str = ""
    repaired: str = ""
    unscorable: str = ""


def _lines(results: Results) -> Iterator[_Line]:
    for name, task in results.tasks.items():
        for source, measurement in task.confidences.items():
            counted = _counts(task, results.coverage[name]) if source == "verbalised" else ("", "", "")
            yield _Line(name, source, measurement.overall.metrics, measurement.overall.n, *counted)
    if results.macro:
        yield _average(results.macro)


def _average(macro: MacroAverage) -> _Line:
    return _Line("average", "verbalised", macro.metrics, macro.n)


def _counts(task: TaskResult, coverage: Coverage) -> tuple[str, str, str]:
    repaired = f"{task.repair_rate['answer']:.0%}/{task.repair_rate['confidence']:.0%}"
    failed = sum(coverage.failed.values())
    lost = f"{sum(task.unscorable.values())}{f' + {failed} failed' if failed else ''}"
    return f"{task.mean_tokens:.0f}", repaired, lost


_HEADINGS = ("task", "by", "n", "accuracy ↑", "AUROC ↑", "Brier ↓", "ECE ↓", "tokens", "repaired", "lost")


def _cells(line: _Line) -> list[str]:
    values = [estimate_text(line.metrics[name]) for name, _, _ in _COLUMNS]
    return [line.task, line.confidence, f"{line.n:,}", *values, line.tokens, line.repaired, line.unscorable]


def estimate_text(estimate: Estimate) -> str:
    """A value and half the width of its 95% interval, as the paper writes it.

    >>> estimate_text(Estimate(0.25, 0.2, 0.31)), estimate_text(Estimate(None, None, None))
    ('.250 ±.055', 'n/a')
    """
    if estimate.value is None:
        return "n/a"
    width = "" if estimate.half_width is None else f" ±{_no_zero(estimate.half_width)}"
    return _no_zero(estimate.value) + width


def _no_zero(value: float) -> str:
    """Three decimals without the leading zero: ten columns must fit a terminal."""
    return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.3f}"


def markdown(results: Results) -> str:
    """A Markdown table, with what "repaired" means below it."""
    rows = [list(_HEADINGS), ["---"] * len(_HEADINGS), *map(_cells, _lines(results))]
    table = "\n".join("| " + " | ".join(_escape_markdown(cell) for cell in row) + " |" for row in rows)
    return f"{table}\n\n{_footnote(results)}\n"


def _footnote(results: Results) -> str:
    model, method, grading = (results.settings[key] for key in ("model", "method", "grading"))
    told = (
        f"Model {model}, method {method}, grading {grading}. ± is half the width of the 95% interval. "
        "Repaired: answers/confidences that took a forced continuation. Lost: unscorable."
    )
    return " ".join([told, *_failures(results)])


def _failures(results: Results) -> Iterator[str]:
    """A sentence for each task of which completions failed: how many, and why most of them did."""
    for name, coverage in results.coverage.items():
        if coverage.failed:
            (reason, *others), failed = coverage.failed, coverage.asked - coverage.answered
            more = f", and {len(others)} other reasons" if others else ""
            yield (
                f"{name}: {coverage.answered:,} of {coverage.asked:,} completions; {failed:,} failed and are"
                f" in no number ({reason}{more}); --resume --retry-failed asks for them again."
            )


def _escape_markdown(text: str) -> str:
    return text.replace("|", "\\|")


_LATEX_SPECIAL = {c: f"\\{c}" for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
}


def latex(results: Results) -> str:
    """A LaTeX table for booktabs."""

    def row(cells: list[str]) -> str:
        return " & ".join("".join(_LATEX_SPECIAL.get(c, c) for c in cell) for cell in cells) + r" \\"

    lines = [row(_cells(line)) for line in _lines(results)]
    head = [
        r"\begin{tabular}{ll" + "r" * (len(_HEADINGS) - 2) + "}",
        r"\toprule",
        row(list(_HEADINGS)),
        r"\midrule",
    ]
    return "\n".join([*head, *lines, r"\bottomrule", r"\end{tabular}", ""])


def console() -> Console:
    """Where tables are printed."""
    # A pipe has no width; the 80 columns that rich assumes would break every line.
    return Console() if sys.stdout.isatty() else Console(width=_PIPE_WIDTH)


def print_results(results: Results) -> None:
    """The table on the terminal."""
    out = console()
    table = Table(box=None, padding=(0, 2, 0, 0))
    for index, heading in enumerate(_HEADINGS):
        table.add_column(heading, justify="left" if index < 2 else "right", no_wrap=True)
    for line in _lines(results):
        table.add_row(*map(escape, _cells(line)))
    out.print(table)
    out.print(escape(_footnote(results)), soft_wrap=True)
    for name, task in results.tasks.items():
        for part, count in task.unrepaired.items():
            out.print(escape(f"{name}: {count} without {part}: the model did not continue the response"))
    lost = {name: task.unscorable for name, task in results.tasks.items()} | dict(results.unscored)
    for name, reasons in lost.items():
        for reason, count in reasons.items():
            out.print(escape(f"{name}: {count} unscorable: {reason}"), soft_wrap=True)


def print_comparison(comparisons: Mapping[str, Comparison], notes: Sequence[str]) -> None:
    """Paired differences, second run minus first, with their intervals; and what else differs."""
    out = console()
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading, justify in (
        ("task", "left"),
        ("metric", "left"),
        ("difference", "right"),
        ("95% interval", "right"),
    ):
        table.add_column(heading, justify=justify)  # pyright: ignore[reportArgumentType]
    table.add_column("p", justify="right")
    table.add_column("better")
    for task, comparison in comparisons.items():
        for name, heading, more_is_better in _COLUMNS:
            difference = comparison.metrics[name]
            if difference.value is None or difference.low is None or difference.high is None:
                table.add_row(escape(task), heading, "n/a", "", "", "")
                continue
            interval = escape(f"[{difference.low:+.4f}, {difference.high:+.4f}]")
            p = "" if difference.p_value is None else f"{difference.p_value:.3f}"
            side = _better(difference.low, difference.high, more_is_better)
            table.add_row(escape(task), heading, f"{difference.value:+.4f}", interval, p, side)
    out.print(table)
    questions = ", ".join(f"{task} {comparison.questions:,}" for task, comparison in comparisons.items())
    out.print(
        escape(f"second run minus first, on the problems both hold and could score: {questions}"),
        soft_wrap=True,
    )
    for note in notes:
        out.print(escape(f"note: the runs differ in {note}"), soft_wrap=True)


def _better(low: float, high: float, more_is_better: bool) -> str:
    if low <= 0 <= high:
        return "undecided"
    return "second" if (low > 0) == more_is_better else "first"
