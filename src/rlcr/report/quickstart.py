"""The table of the quickstart: each way beside the optimum and beside what the paper reports."""

from __future__ import annotations

from rlcr.quickstart import START, WAYS, Quickstart
from rlcr.tasks.arms import Arms
from rlcr.tasks.arms_optimum import ExactEvaluation, exact_evaluation, optimum

#: Accuracy and Brier score of the paper's 7B models on this task, from its table on the toy arms.
_PAPER = {"paper, RLCR-Brier (7B)": (0.344, 0.22), "paper, RLCR-Log (7B)": (0.0, 0.0)}
_HEAD = ("", "accuracy", "AUROC", "Brier", "ECE", "share of the optimal reward")


def table(found: Quickstart) -> str:
    """As Markdown, which reads well on a terminal too. All numbers are exact but the paper's."""
    rows = [(way.title, *_cells(found.exact[way.name])) for way in (START, *WAYS)]
    best = optimum(Arms())
    rows.append(("optimum", *_cells(exact_evaluation(Arms(), (best.answers_S, best.confidences_S)))))
    for name, (accuracy, brier) in _PAPER.items():
        rows.append((name, f"{accuracy:.3f}", "", f"{brier:.2f}", "", ""))
    return markdown([_HEAD, *rows])


def _cells(exact: ExactEvaluation) -> tuple[str, ...]:
    auroc = "n/a" if exact.auroc is None else f"{exact.auroc:.3f}"
    share = "n/a" if exact.share is None else f"{exact.share:.1%}"
    return (f"{exact.accuracy:.3f}", auroc, f"{exact.brier:.3f}", f"{exact.ece:.3f}", share)


def markdown(rows: list[tuple[str, ...]]) -> str:
    """Aligned columns: names to the left, numbers to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]

    def line(row: tuple[str, ...]) -> str:
        first, *rest = (
            cell.ljust(w) if i == 0 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        return f"| {' | '.join([first, *rest])} |"

    rule = f"|{'-' * (widths[0] + 2)}|" + "".join(f"{'-' * (width + 1)}:|" for width in widths[1:])
    return "\n".join([line(rows[0]), rule, *map(line, rows[1:])])
