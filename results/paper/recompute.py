"""What the authors' stored outputs give for the cells of the tables.

Three grades of evidence, the best one for each cell:

- `completions`: verdicts and confidences are read again from the completions, with the paper's grading
  (MATH-500: Base, RLVR, RLCR).
- `verdicts`: the metrics are computed from stored verdicts and confidences (CommonsenseQA, where a language
  model was the judge; classifier and answer probability on MATH-500).
- `metrics`: the authors' own metrics with all their digits, for everything else they stored.

Averages are then taken over unrounded numbers; GPQA, of which nothing is stored, enters as printed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from results.paper.checks import BOOTSTRAP_SCATTER, average_parts
from results.paper.tables import Cell, Measured, Paper

from rlcr import metrics
from rlcr.errors import RlcrError
from rlcr.evaluate.grade import grade
from rlcr.problem import Problem
from rlcr.runs.record import Sampled
from rlcr.tasks.plumbing.tables import read_rows

RESAMPLES = 10_000
MODEL = "Qwen2.5-7B"
FILES = ("metrics.jsonl", "hotpot_models_commonsenseqa.jsonl.gz", "hotpot_models_math-500.jsonl.gz")
TRAINED_ON = {"Hotpot-models": "HotpotQA", "Math-models": "Big-Math"}
DATA = {
    "commonsenseqa": "CommonsenseQA",
    "gsm8k": "GSM8K",
    "hotpot-eval-em": "HotpotQA-Modified",
    "hotpot-vanilla-eval-em": "HotpotQA",
    "math-500": "MATH-500",
    "simpleqa": "SimpleQA",
    "trivia": "TriviaQA",
    "big-math-digits": "Big-Math",
}
METHODS = {
    "Base": "Base",
    "RLVR": "RLVR",
    "RLVR-Classifier": "BCE classifier",
    "Answer-Prob": "Answer prob",
    "RLCR": "RLCR",
    "SFT-RLCR": "SFT+RLCR",
}
COLUMNS = {"accuracy": "accuracy", "auroc": "auroc", "brier_score": "brier", "ece": "ece"}
#: Whose completions state their confidence, and in which tags.
FORMATS = {"Base": "confidence", "RLVR": "rlvr", "RLCR": "rlcr"}


Row = Mapping[str, Any]


@dataclass(frozen=True)
class Stored:
    """One number from stored outputs, as a share or a score."""

    value: float
    half_width: float | None
    source: str
    slack: float = 0.0
    """How far off it may be, where printed numbers entered."""


@dataclass(frozen=True)
class Recomputed:
    """A printed cell beside what the outputs give, in the unit of the table."""

    cell: Cell
    value: float
    slack: float
    half_width: float | None
    source: str

    @property
    def difference(self) -> float:
        """Printed minus recomputed."""
        return self.cell.number.value - self.value

    @property
    def agrees(self) -> bool:
        """Whether the printed number is the recomputed one, rounded."""
        return self.cell.number.may_be(self.value - self.slack, self.value + self.slack)

    @property
    def half_width_agrees(self) -> bool | None:
        """Whether the printed interval is as wide, within the scatter of a bootstrap; None without one."""
        if self.half_width is None or self.cell.half_width is None:
            return None
        spread = BOOTSTRAP_SCATTER * self.half_width
        return self.cell.half_width.may_be(self.half_width - spread, self.half_width + spread)


def recompute(paper: Paper, folder: Path, *, resamples: int = RESAMPLES) -> list[Recomputed]:
    """Every cell that the outputs in this folder (`rlcr_outputs`) can say something about.

    A row that RLVR's accuracy spans is compared with the accuracy of its own outputs.
    """
    stored = dict(_metrics(folder / FILES[0]))
    for file, data in zip(FILES[1:], ("CommonsenseQA", "MATH-500"), strict=True):
        stored |= _rows(folder / file, data, resamples)
    return [
        Recomputed(
            cell,
            number.value * cell.scale,
            number.slack * cell.scale,
            None if number.half_width is None else number.half_width * cell.scale,
            number.source,
        )
        for cell in paper.cells.values()
        if (number := stored.get(cell.measured) or _average(paper, cell, stored))
    ]


def _metrics(path: Path) -> Iterator[tuple[Measured, Stored]]:
    """The authors' metrics, by what they measure."""
    for row in read_rows(path, ["run", "method", *COLUMNS]):
        models, data = str(row.cells["run"]).split("/")
        method = METHODS[str(row.cells["method"])]
        trained_on = "" if method == "Base" else TRAINED_ON[models]
        for name, column in COLUMNS.items():
            measured = Measured(MODEL, trained_on, method, DATA[data], column)
            yield measured, Stored(float(row.cells[name]), None, "metrics")


def _rows(path: Path, data: str, resamples: int) -> dict[Measured, Stored]:
    """The metrics with half-widths, from the outputs themselves."""
    methods = [method for method in METHODS if method != "SFT-RLCR"]
    columns = [
        f"{method}-{kind}" for method in methods for kind in ("evals", "confidence_levels", "output_0")
    ]
    rows = [row.cells for row in read_rows(path, ["answer", *columns])]
    numbers = {}
    for method in methods:
        correct = [row[f"{method}-evals"][0] for row in rows]
        confidence = [row[f"{method}-confidence_levels"][0] for row in rows]
        source = "verdicts"
        if data == "MATH-500" and method in FORMATS:
            correct, confidence = _graded(rows, method)
            source = "completions"
        measured = metrics.summary(correct, confidence, resamples=resamples).metrics
        trained_on = "" if method == "Base" else "HotpotQA"
        for column in COLUMNS.values():
            estimate = measured[column]
            if estimate.value is None:
                raise RlcrError(f"{path}: {method} has no {column}: {estimate.note}")
            number = Stored(estimate.value, estimate.half_width, source)
            numbers[Measured(MODEL, trained_on, METHODS[method], data, column)] = number
    return numbers


def _graded(rows: Sequence[Row], method: str) -> tuple[list[bool], list[float | None]]:
    """Verdicts and confidences of one method's completions, read and compared as the authors do."""
    problems = [Problem(str(row), "", (cells["answer"],), "math") for row, cells in enumerate(rows)]
    completions = [
        Sampled(id=str(row), sample=0, task="", format=FORMATS[method], text=cells[f"{method}-output_0"])
        for row, cells in enumerate(rows)
    ]
    verdicts: list[bool] = []
    records = grade(completions, problems, "paper", None)
    for record in records:
        if record.correct is None:
            raise RlcrError(f"{method} on MATH-500, row {record.id}: could not be graded: {record.reason}")
        verdicts.append(record.correct)
    return verdicts, [record.confidence for record in records]


def _average(paper: Paper, cell: Cell, stored: Mapping[Measured, Stored]) -> Stored | None:
    """An average over unrounded numbers; None where only printed ones exist."""
    parts = average_parts(paper, cell)
    numbers = [stored.get(part.measured) for part in parts]
    if not any(numbers):
        return None
    total = slack = 0.0
    for part, number in zip(parts, numbers, strict=True):
        low, high = (number.value, number.value) if number else part.share
        total += (low + high) / 2
        slack += (high - low) / 2
    return Stored(total / len(parts), None, "average", slack / len(parts))
