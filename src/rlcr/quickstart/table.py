"""What the quickstart found: each way beside the optimum and beside what the paper reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from rlcr.metrics.tables import Cell, Heading, Table, estimate_cell
from rlcr.quickstart import START, WAYS
from rlcr.report.sections import Story
from rlcr.tasks.arms import Arms
from rlcr.tasks.arms_optimum import ExactEvaluation, exact_evaluation, optimum

#: Accuracy and Brier score of the paper's 7B models on this task, from its table on the toy arms.
_PAPER = {"paper, RLCR-Brier (7B)": (0.344, 0.22), "paper, RLCR-Log (7B)": (0.0, 0.0)}
_COLUMNS = (
    Heading("", numeric=False),
    Heading("accuracy", "up", key=True),
    Heading("AUROC", "up"),
    Heading("Brier", "down"),
    Heading("ECE", "down", key=True),
    Heading("reward", "up", key=True),
    Heading("share of the optimal reward", "up"),
)
#: Why the trainings of the quickstart are not equally long.
_LENGTHS = (
    "RLCR with the Brier score is still learning how sure to be long after the others have settled: RLVR "
    "has nothing to learn about confidence, and the two that give up do so early."
)


def exact_table(exact: Mapping[str, ExactEvaluation]) -> Table:
    """What each way is worth in expectation over all sequences of draws; the paper's numbers beside it."""
    ways = [way for way in (START, *WAYS) if way.name in exact]
    rows = [(Cell(way.title, series=n), *_cells(exact[way.name])) for n, way in enumerate(ways)]
    best = optimum(Arms())
    rows.append((Cell("optimum"), *_cells(exact_evaluation(Arms(), (best.answers_S, best.confidences_S)))))
    for name, (accuracy, brier) in _PAPER.items():
        said = Cell(f"{accuracy:.3f}", accuracy), Cell(""), Cell(f"{brier:.2f}", brier)
        rows.append((Cell(name), *said, Cell(""), Cell(""), Cell("")))
    caption = (
        f"No sampling noise: greedy answers to all {len(best.answers_S):,} sequences of draws, each weighted "
        "by its probability. Reward is accuracy − Brier; its share is of the most that any policy can earn. "
        "The best answers with one constant confidence would earn 93%."
    )
    return Table("exact", "Exact values, over every sequence of draws", _COLUMNS, tuple(rows), caption)


def story_of(out: Path, exact: Mapping[str, ExactEvaluation]) -> Story:
    """What the report should know: one set of names, the exact numbers, why trainings differ in length."""
    ways = [way for way in (START, *WAYS) if way.name in exact]
    return Story(
        names={out / way.name / what: way.title for way in ways for what in ("eval", "train")},
        exact={way.title: _told(exact[way.name]) for way in ways},
        table=_as_on_the_page(exact_table(exact)),
        lengths=_LENGTHS if len(ways) == 1 + len(WAYS) else "",
    )


def _as_on_the_page(table: Table) -> Table:
    """Headings as those of the page's other tables; in a terminal they are in small letters."""
    columns = tuple(
        replace(column, text=column.text[:1].upper() + column.text[1:]) for column in table.columns
    )
    return replace(table, columns=columns)


def _told(exact: ExactEvaluation) -> dict[str, float | None]:
    return {
        "accuracy": exact.accuracy,
        "auroc": exact.auroc,
        "brier": exact.brier,
        "ece": exact.ece,
        "expected_reward": exact.reward,
        "confidence": exact.mean_confidence,
    }


def _cells(exact: ExactEvaluation) -> tuple[Cell, ...]:
    share = Cell("n/a") if exact.share is None else Cell(f"{exact.share:.1%}", exact.share)
    numbers = exact.accuracy, exact.auroc, exact.brier, exact.ece, exact.reward
    return (*map(estimate_cell, numbers), share)
