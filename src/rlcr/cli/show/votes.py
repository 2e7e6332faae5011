"""What `rlcr vote`, `rlcr coherence`, `rlcr select` and `rlcr analyses` say on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from rlcr.cli.show import plain_table
from rlcr.many.coherence import TaskCoherence
from rlcr.many.selective import Selection
from rlcr.many.vote import TaskVotes, Votes
from rlcr.metrics.tables import estimate_text
from rlcr.terminal import console

_MOST_COLUMNS = 6


def print_votes(votes: Votes) -> None:
    """Accuracy by N, differences, confidence of voted answers, and adaptive sampling."""
    out = console()
    for name, task in votes.tasks.items():
        out.print(_accuracy(name, task, votes.confidence))
        for line in _lines(task):
            out.print(escape(line), soft_wrap=True)
        out.print()


def _accuracy(name: str, task: TaskVotes, confidence: str) -> Table:
    scaling = task.scaling
    sizes = _some([n for n in range(1, scaling.most + 1) if n == scaling.most or n & (n - 1) == 0])
    title = escape(f"{name}: accuracy of the chosen answer, confidence {confidence}")
    table = plain_table("choose by", *(f">N = {n}" for n in sizes), "computed", title=title)
    for curve in scaling.curves.values():
        cells = [estimate_text(curve.estimates[n - 1]) for n in sizes]
        drawn = sum(how == "drawn" for how in curve.how)
        how = f"{scaling.subsets:,} subsets at {drawn} of {len(curve.how)} N" if drawn else "exactly"
        table.add_row(curve.name, *cells, how)
    return table


def _some(sizes: Sequence[int]) -> list[int]:
    """As many as fit a line, the last among them."""
    return [*sizes[: _MOST_COLUMNS - 1], sizes[-1]] if len(sizes) > _MOST_COLUMNS else list(sizes)


def _lines(task: TaskVotes) -> list[str]:
    scaling = task.scaling
    within = scaling.within_question_by_answer.value
    lines = [
        *scaling.verdicts(),
        f"within-question discrimination {'n/a' if within is None else f'{within:.3f}'}"
        " (a sample with a right answer is more confident than one with a wrong one of the same question;"
        " 0.5 is chance)",
    ]
    for kind in task.confidence:
        auroc = "n/a" if kind.auroc is None else f"{kind.auroc:.3f}"
        lost = f"; {kind.left_out:.1%} of votes have none" if kind.left_out else ""
        lines.append(
            f"confidence of the voted answer, {kind.name}: Brier {estimate_text(kind.brier[-1])},"
            f" ECE {estimate_text(kind.ece[-1])}, AUROC {auroc}{lost}"
        )
    for spent in task.adaptive:
        if spent.rule.safety in (0.8, 0.95):
            lines.append(
                f"adaptive, safety {spent.rule.safety:g}: {spent.samples:.1f} of {spent.rule.budget} samples"
                f" on average, accuracy {estimate_text(spent.accuracy)}"
            )
    return [*lines, _counts(scaling.counts)]


def _counts(counts: Mapping[str, int]) -> str:
    first = ("questions", "samples", "answers", "analyses")
    rest = {name: n for name, n in counts.items() if n and name not in first}
    head = ", ".join(f"{counts[name]:,} {name}" for name in first if name in counts)
    return f"{head}; " + (", ".join(f"{n:,} {name}" for name, n in rest.items()) or "nothing missing")


def print_coherence(tasks: Mapping[str, TaskCoherence]) -> None:
    """Sums and spreads of every task."""
    out = console()
    table = plain_table("task", ">mean sum", ">above 1", ">excess", ">spread, responses", ">spread, analyses")
    for name, coherence in tasks.items():
        table.add_row(escape(name), *(estimate_text(estimate) for estimate in coherence.summary().values()))
    out.print(table)
    for name, coherence in tasks.items():
        out.print(escape(f"{name}: {_counts(coherence.counts)}"), soft_wrap=True)


def print_selection(selection: Selection, precision: float) -> None:
    """Both checks of every task."""
    out = console()
    for name, reason in selection.left_out.items():
        out.print(escape(f"{name}: left out: {reason}"), soft_wrap=True)
    for name, answering in selection.tasks.items():
        for number, check in enumerate(answering.checks, 1):
            where = f"{name}, chosen on half {number}, checked on half {3 - number}"
            out.print(escape(f"{where}: {check.verdict(precision)}"), soft_wrap=True)
        out.print(escape(f"{name}: {_counts(answering.counts)}"), soft_wrap=True)


def print_analyses(measured: Mapping[str, Any]) -> None:
    """Brier score and ECE of one confidence, and of the mean of all."""
    out = console()
    for name, curves in measured["tasks"].items():
        for curve in curves:
            line = (
                f"{name}: {curve['metric']} {curve['value'][0]:.3f} with one analysis,"
                f" {curve['value'][-1]:.3f} with the mean of {curve['n'][-1]}"
            )
            out.print(escape(line), soft_wrap=True)
        out.print(escape(f"{name}: {_counts(measured['details'][name])}"), soft_wrap=True)
    lost = measured["responses without a closed answer"]
    out.print(f"{lost:,} responses have no closed answer to continue")
    if refused := measured["analyses refused"]:
        out.print(f"{refused:,} analyses were refused; the same command asks for them again")
