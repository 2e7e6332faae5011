"""Grade generations made anywhere: parse, verify, measure.

Two gradings. ``strict`` (the default) reads leniently, so that a misplaced tag does not hide an answer, and
compares both sides as what they mean. ``paper`` reads and compares as the authors' evaluation code does,
and exists to reproduce published numbers; its strict counterpart is always reported beside it.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from rlcr.errors import RlcrError
from rlcr.evaluate.grade import grade
from rlcr.files import new_file
from rlcr.metrics.measurement import GradedSamples, Measurement
from rlcr.problem import Problem, as_texts
from rlcr.response import get_format
from rlcr.runs.lines import json_line
from rlcr.runs.record import Record, Sampled
from rlcr.tasks.plumbing.options import Options, named_option, options_of
from rlcr.tasks.plumbing.tables import Progress, Row, read_rows
from rlcr.verify import Grading, get_verifier
from rlcr.verify.verdict import unscorable_warning

# Completions held at once: enough to keep the verifier's processes busy, few enough to stay small.
_BATCH = 2000


@dataclass
class Tally:
    """How the completions read: what is counted beside the metrics."""

    completions: int = 0
    well_formed: int = 0
    no_answer: int = 0
    no_confidence: int = 0
    leniencies: Counter[str] = field(default_factory=Counter)
    unscorable: Counter[str] = field(default_factory=Counter)
    """By reason."""
    without_options: int = 0
    """Of multiple choice: how many were graded by what the gold alone says of the options."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return vars(self) | {"leniencies": dict(self.leniencies), "unscorable": dict(self.unscorable)}

    def add(self, record: Record) -> None:
        """Count one completion."""
        self.completions += 1
        self.well_formed += record.well_formed
        self.no_answer += not record.answer
        self.no_confidence += record.confidence is None
        self.leniencies.update(record.leniencies)
        if record.correct is None:
            self.unscorable[record.reason] += 1


@dataclass(frozen=True)
class Scores:
    """The result of grading: metrics, how the completions read, and (from Python) the records."""

    grading: Grading
    measurement: Measurement
    tally: Tally
    strict: Measurement | None
    """With ``paper`` grading, the same completions graded strictly."""
    records: list[Record]

    @property
    def warnings(self) -> list[str]:
        """What makes the numbers doubtful: many unscorable answers, options that are not known."""
        warning = unscorable_warning(self.tally.unscorable, self.tally.completions)
        unknown = self.tally.without_options
        without = f"{unknown:,} answers were graded by the verifier choice without the options: --choices COL"
        return [*([warning] if warning else []), *([without] if unknown else [])]

    def to_dict(self) -> dict[str, Any]:
        """As JSON: that of the measurement, with the grading, the counts and the warnings."""
        result = self.measurement.to_dict() | {
            "grading": self.grading,
            "reading": self.tally.to_dict(),
            "warnings": self.warnings,
        }
        if self.strict:
            result["strict"] = self.strict.to_dict()
        return result


def score(
    completions: Iterable[str | Sequence[str]],
    golds: Iterable[str | float | Sequence[str | float]],
    *,
    format: str = "rlcr",
    verifier: str = "exact",
    grading: Grading = "strict",
    choices: Iterable[Mapping[str, str]] | None = None,
    think_open: bool = False,
    resamples: int = 1000,
) -> Scores:
    """Parse, verify and measure completions.

    A completion may be a list: several samples of one question. A gold may be a list: its aliases.

    >>> scores = score(
    ...     ["<think>…</think><answer>Paris</answer><confidence>0.9</confidence>",
    ...      "<think>…</think><answer>Rome</answer><confidence>20%</confidence>"],
    ...     ["Paris", ["Madrid", "Villa de Madrid"]],
    ...     format="confidence",
    ... )
    >>> scores.measurement.overall.metrics["accuracy"].value
    0.5
    >>> scores.records[1].confidence, scores.records[1].leniencies
    (0.2, ('percent',))
    """
    grader = Grader(format, verifier, grading, think_open=think_open)
    completions, golds = list(completions), list(golds)
    options = [{} for _ in completions] if choices is None else list(choices)
    if not len(completions) == len(golds) == len(options):
        sizes = f"{len(completions)} completions, {len(golds)} golds"
        raise RlcrError(
            f"{sizes}{'' if choices is None else f', {len(options)} choices'}: one of each for a question"
        )
    records: list[Record] = []
    for row, (completion, gold, option) in enumerate(zip(completions, golds, options, strict=True)):
        try:
            texts, aliases = as_texts(completion), as_texts(gold)
        except ValueError as error:
            raise RlcrError(f"question {row}: {error}") from None
        records += [record for _, record in grader.take(row, str(row), texts, aliases, option)]
    records += [record for _, record in grader.flush()]
    return grader.finish(records=records, resamples=resamples)


def grade_file(
    path: Path,
    *,
    completion: str,
    gold: str,
    format: str = "rlcr",
    verifier: str = "exact",
    grading: Grading = "strict",
    choices: str | None = None,
    id: str | None = None,
    think_open: bool = False,
    out: Path | None = None,
    progress: Progress | None = None,
) -> Grader:
    """Grade the completions in a file and, if asked for, write a line of JSON for each.

    Returns the grader, whose ``finish`` gives the scores. Nothing is kept in memory but the verdicts. ``out``
    appears whole or not at all.
    """
    grader = Grader(format, verifier, grading, think_open=think_open)
    if out and out.exists() and path.exists() and out.samefile(path):
        raise RlcrError(f"{out}: is the input, which would be lost; write somewhere else")
    wanted = [column for column in (completion, gold, choices, id) if column]
    with new_file(out, make_folder=False) if out else contextlib.nullcontext() as file:
        for number, row in enumerate(read_rows(path, wanted, progress=progress)):
            name = str(number if id is None else row.cells[id])
            texts, golds = row.texts(completion), row.texts(gold)
            options = Options({}, {}) if choices is None else _options(row, choices)
            golds = named_option(golds, options) or golds
            _write(file, grader.take(number, name, texts, golds, options.texts))
        _write(file, grader.flush())
    return grader


#: A completion with the row of its question in the input, and its problem.
_Waiting = tuple[int, Sampled, Problem]
#: A record with the row of its question in the input.
GradedRow = tuple[int, Record]


class Grader:
    """Collects completions into batches, grades each batch, and keeps the samples to be measured."""

    def __init__(self, format: str, verifier: str, grading: Grading, *, think_open: bool = False) -> None:
        self._format = get_format(format).name
        get_verifier(verifier, grading)  # a wrong name fails here, before any row is read
        self._verifier, self._think_open = verifier, think_open
        self._grading: Grading = grading
        self._samples, self._strict_samples, self._tally = GradedSamples(), GradedSamples(), Tally()
        self._waiting: list[_Waiting] = []

    def take(
        self,
        row: int,
        name: str,
        completions: Sequence[str],
        gold: tuple[str, ...],
        choices: Mapping[str, str],
    ) -> list[GradedRow]:
        """Take the samples of one question; returns records whenever a batch is full."""
        extras = {"choices": choices} if choices else {}
        if self._verifier == "choice" and not choices:
            self._tally.without_options += len(completions)
        problem = Problem(name, "", gold, self._verifier, extras=extras)
        for sample, text in enumerate(completions):
            completion = Sampled(
                id=name, sample=sample, task="", format=self._format, text=text, think_open=self._think_open
            )
            self._waiting.append((row, completion, problem))
        return self.flush() if len(self._waiting) >= _BATCH else []

    def flush(self) -> list[GradedRow]:
        """Grade what is waiting."""
        waiting, self._waiting = self._waiting, []
        graded = self._grade(waiting, self._grading)
        for row, record in graded:
            self._samples.add(record.correct, record.confidence, question=row)
            self._tally.add(record)
        if self._grading == "paper":
            for row, record in self._grade(waiting, "strict"):
                self._strict_samples.add(record.correct, record.confidence, question=row)
        return graded

    def _grade(self, waiting: list[_Waiting], grading: Grading) -> list[GradedRow]:
        rows, completions, problems = zip(*waiting, strict=True) if waiting else ((), (), ())
        return list(zip(rows, grade(completions, problems, grading, None), strict=True))

    def finish(
        self, *, records: list[Record] | None = None, resamples: int = 1000, progress: Progress | None = None
    ) -> Scores:
        """Measure what was graded."""
        measurement = self._samples.measure(resamples=resamples, progress=progress)
        strict = self._strict_samples.measure(resamples=resamples) if self._grading == "paper" else None
        return Scores(self._grading, measurement, self._tally, strict, records or [])


def _options(row: Row, column: str) -> Options:
    try:
        return options_of(row.cells[column])
    except ValueError as error:
        raise row.error(column, str(error)) from None


_WRITTEN = (
    "id", "sample", "answer", "confidence", "verdict", "reason", "well_formed", "fault", "leniencies"
)  # fmt: skip


def _write(file: IO[bytes] | None, graded: list[GradedRow]) -> None:
    if file:
        for row, record in graded:
            line = json_line({"row": row} | {name: getattr(record, name) for name in _WRITTEN})
            file.write(line.encode(errors="backslashreplace"))  # half a character: as JSON escapes it
