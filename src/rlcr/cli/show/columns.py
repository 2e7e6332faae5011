"""Confidence columns side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape
from rich.table import Table as RichTable

from rlcr.confidence.comparison import ColumnComparison
from rlcr.confidence.study import SizeResult
from rlcr.metrics import Estimate
from rlcr.metrics.tables import Cell, aligned_text, estimate_text, of_all, resting_on
from rlcr.report.columns import COUNTED, MEASURED, cost_each
from rlcr.terminal import console, say


def print_columns(comparison: ColumnComparison) -> None:
    """The table on the terminal, task by task."""
    out = console()
    for task, results in comparison.tasks.items():
        table = RichTable(box=None, padding=(0, 2, 0, 0), title=escape(task), title_justify="left")
        table.add_column("confidence", no_wrap=True)
        for heading in (*(h.title for _, h in MEASURED), "Δ AUROC", "Δ Brier", *COUNTED):
            table.add_column(heading, justify="right", no_wrap=True)
        for result in results:
            less = result.minus_verbalised or {}
            spent = [cost_each(result.cost, name) for name in ("passes", "tokens")]
            measured = [Cell(estimate_text(result.metrics[name])) for name, _ in MEASURED]
            paired = [Cell(_signed(less[name]) if name in less else "") for name in ("auroc", "brier")]
            table.add_row(
                escape(result.name),
                *(resting_on(cell, result.rows, result.scored).text for cell in measured),
                *(resting_on(cell, result.pairs, result.scored).text for cell in paired),
                of_all(result.rows, result.scored),
                f"{result.coverage:.3f}",
                *("?" if math.isnan(each) else f"{each:,.3g}" for each in spent),
            )
        out.print(table)
    out.print(
        "± and brackets: 95% intervals, resampling questions. Δ: minus verbalised, paired, where both give "
        "one. Within question: chance that of a right and a wrong sample of one question the right one is "
        "more confident. Rows: the answers with this confidence, on which its numbers rest; * where these "
        "are not all, or not all of a difference have both. Passes and tokens: for each row, beyond the run.",
        soft_wrap=True,
    )
    for note in comparison.notes:
        out.print(escape(f"note: {note}"), soft_wrap=True)


def _signed(estimate: Estimate) -> str:
    if estimate.value is None:
        return "n/a"
    ends = "" if estimate.low is None else f" \\[{estimate.low:+.3f}, {estimate.high:+.3f}]"
    return f"{estimate.value:+.3f}{ends}"


def print_study(results: Sequence[SizeResult]) -> None:
    """The classifiers of a study, a line each."""
    rows = [
        [
            result.run,
            Path(result.model).name,
            *map(_metric, result.metrics.items()),
            f"({result.rows:,} rows)",
        ]
        for result in results
    ]
    say("\n".join(aligned_text(rows)))


def _metric(named: tuple[str, Estimate]) -> str:
    name, estimate = named
    return f"{name} {'n/a' if estimate.value is None else f'{estimate.value:.3f}'}"
