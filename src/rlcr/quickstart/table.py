"""The table of the quickstart: each way beside the optimum and beside what the paper reports."""

from __future__ import annotations

from collections.abc import Mapping

from rlcr.metrics.tables import Cell, Heading, Table, estimate_cell
from rlcr.quickstart import START, WAYS
from rlcr.tasks.arms import Arms
from rlcr.tasks.arms_optimum import ExactEvaluation, exact_evaluation, optimum

#: Accuracy and Brier score of the paper's 7B models on this task, from its table on the toy arms.
_PAPER = {"paper, RLCR-Brier (7B)": (0.344, 0.22), "paper, RLCR-Log (7B)": (0.0, 0.0)}
_COLUMNS = (
    Heading("", numeric=False),
    Heading("accuracy", "up"),
    Heading("AUROC", "up"),
    Heading("Brier", "down"),
    Heading("ECE", "down"),
    Heading("share of the optimal reward", "up"),
)


def exact_table(exact: Mapping[str, ExactEvaluation]) -> Table:
    """What each way is worth in expectation over all sequences of draws; the paper's numbers beside it."""
    ways = [way for way in (START, *WAYS) if way.name in exact]
    rows = [(Cell(way.title, series=n), *_cells(exact[way.name])) for n, way in enumerate(ways)]
    best = optimum(Arms())
    rows.append((Cell("optimum"), *_cells(exact_evaluation(Arms(), (best.answers_S, best.confidences_S)))))
    for name, (accuracy, brier) in _PAPER.items():
        said = (Cell(f"{accuracy:.3f}", accuracy), Cell(""), Cell(f"{brier:.2f}", brier), Cell(""), Cell(""))
        rows.append((Cell(name), *said))
    caption = (
        f"No sampling noise: greedy answers to all {len(best.answers_S):,} sequences of draws, each weighed "
        "with its chance. The share is of the best reward that anybody can earn from RLCR with Brier's "
        "score; the best arm with one constant confidence earns 93%."
    )
    return Table("exact", "Exactly, over every sequence of draws", _COLUMNS, tuple(rows), caption)


def _cells(exact: ExactEvaluation) -> tuple[Cell, ...]:
    share = Cell("n/a") if exact.share is None else Cell(f"{exact.share:.1%}", exact.share)
    return (*(estimate_cell(x) for x in (exact.accuracy, exact.auroc, exact.brier, exact.ece)), share)
