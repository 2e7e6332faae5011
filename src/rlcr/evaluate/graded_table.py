"""Read a table of verdicts and confidences from anywhere: what `rlcr metrics` measures."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from rlcr.metrics.measurement import GradedSamples
from rlcr.tasks.plumbing.tables import Progress, as_confidence, as_correct, check_percent, read_rows


def read_graded(
    path: Path,
    *,
    correct: str,
    confidence: str,
    by: str | None = None,
    question: str | None = None,
    percent: bool = False,
    progress: Progress | None = None,
) -> GradedSamples:
    """Read verdicts and confidences from a file. A list in a cell holds several samples of that question.

    Rows with the same value in the column ``question`` are samples of one question; without it each row
    is a question of its own. With ``percent`` confidences are from 0 to 100.
    """
    samples = GradedSamples()
    as_stated = partial(as_confidence, percent=percent)
    most: float | None = None
    questions: dict[str, int] = {}
    wanted = [column for column in (correct, confidence, by, question) if column]
    for number, row in enumerate(read_rows(path, wanted, progress=progress)):
        verdicts, confidences = row.converted(correct, as_correct), row.converted(confidence, as_stated)
        if len(verdicts) != len(confidences):
            raise row.error(
                confidence, f"{len(confidences)} confidences for {len(verdicts)} in column {correct}"
            )
        code = number if question is None else questions.setdefault(str(row.cells[question]), len(questions))
        group = None if by is None else group_name(row.cells[by])
        for verdict, stated in zip(verdicts, confidences, strict=True):
            samples.add(verdict, stated, question=code, group=group)
            most = max(most or 0.0, stated or 0.0)
    if percent:
        check_percent([most], path, confidence)
    return samples


def group_name(cell: Any) -> str:
    """The name of the group that a value stands for."""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)  # 1 and 1.0 are the same group
    return "(none)" if cell is None else str(cell)
