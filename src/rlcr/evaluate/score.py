"""Grade generations made anywhere: parse, verify, measure.

Two gradings. ``strict`` (the default) reads leniently, so that a misplaced tag does not hide an answer, and
compares both sides as what they mean. ``paper`` reads and compares as the authors' evaluation code does,
and exists to reproduce published numbers; its strict counterpart is always reported beside it.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import IO, Any

from rlcr.errors import RlcrError, described
from rlcr.files import new_file
from rlcr.metrics.measurement import GradedSamples, Measurement
from rlcr.problem import Problem, as_texts
from rlcr.response import Response, get_format, parse
from rlcr.tasks.plumbing.tables import Progress, Row, read_rows
from rlcr.verify import Grading, Verdict, get_verifier, of_responses, verify
from rlcr.verify.verdict import unscorable_warning

# Completions held at once: enough to keep the verifier's processes busy, few enough to stay small.
_BATCH = 2000


@dataclass(frozen=True, slots=True)
class Record:
    """What was found in one completion. ``row`` is its place in the input, ``sample`` its number there.

    ``id`` is what the column named by ``--id`` says, or the row.
    """

    row: int
    id: str
    sample: int
    answer: str | None
    confidence: float | None
    verdict: str
    reason: str
    well_formed: bool
    fault: str
    leniencies: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


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

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return vars(self) | {"leniencies": dict(self.leniencies), "unscorable": dict(self.unscorable)}

    def add(self, response: Response, verdict: Verdict) -> None:
        """Count one completion."""
        self.completions += 1
        self.well_formed += response.well_formed
        self.no_answer += not response.answer
        self.no_confidence += response.confidence is None
        self.leniencies.update(response.leniencies)
        if verdict.outcome == "unscorable":
            self.unscorable[verdict.reason] += 1


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
        """What takes the ground from under the numbers: many unscorable answers."""
        warning = unscorable_warning(self.tally.unscorable, self.tally.completions)
        return [warning] if warning else []

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
        records += grader.take(row, str(row), texts, aliases, option)
    records += grader.flush()
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
            options = {} if choices is None else _options(row, choices)
            name = str(number if id is None else row.cells[id])
            texts = [row.texts(column) for column in (completion, gold)]
            _write(file, grader.take(number, name, texts[0], texts[1], options))
        _write(file, grader.flush())
    return grader


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A completion that is to be graded."""

    row: int
    sample: int
    text: str
    problem: Problem


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
    ) -> list[Record]:
        """Take the samples of one question; returns records whenever a batch is full."""
        extras = {"choices": choices} if choices else {}
        problem = Problem(name, "", gold, self._verifier, extras=extras)
        self._waiting += [_Waiting(row, sample, text, problem) for sample, text in enumerate(completions)]
        return self.flush() if len(self._waiting) >= _BATCH else []

    def flush(self) -> list[Record]:
        """Grade what is waiting."""
        waiting, self._waiting = self._waiting, []
        records = []
        for item, response, verdict in self._grade(waiting, self._grading):
            self._samples.add(verdict.correct, response.confidence, question=item.row)
            self._tally.add(response, verdict)
            records.append(
                Record(
                    row=item.row,
                    id=item.problem.id,
                    sample=item.sample,
                    answer=response.answer,
                    confidence=response.confidence,
                    verdict=verdict.outcome,
                    reason=verdict.reason,
                    well_formed=response.well_formed,
                    fault=response.fault,
                    leniencies=response.leniencies,
                )
            )
        if self._grading == "paper":
            for item, response, verdict in self._grade(waiting, "strict"):
                self._strict_samples.add(verdict.correct, response.confidence, question=item.row)
        return records

    def _grade(
        self, waiting: list[_Waiting], grading: Grading
    ) -> Iterator[tuple[_Waiting, Response, Verdict]]:
        mode = "paper" if grading == "paper" else "lenient"
        responses = [
            parse(item.text, self._format, mode=mode, think_open=self._think_open) for item in waiting
        ]
        problems = [item.problem for item in waiting]
        verdicts = verify(problems, [response.answer for response in responses], grading=grading)
        return zip(waiting, responses, of_responses(responses, verdicts), strict=True)

    def finish(
        self,
        *,
        records: list[Record] | None = None,
        resamples: int = 1000,
        progress: Progress | None = None,
    ) -> Scores:
        """Measure what was graded."""
        measurement = self._samples.measure(resamples=resamples, progress=progress)
        strict = self._strict_samples.measure(resamples=resamples) if self._grading == "paper" else None
        return Scores(self._grading, measurement, self._tally, strict, records or [])


def _options(row: Row, column: str) -> Mapping[str, str]:
    cell = row.cells[column]
    if isinstance(cell, str):
        with contextlib.suppress(json.JSONDecodeError):
            cell = json.loads(cell)
    if isinstance(cell, list):
        cell = {chr(ord("A") + index): text for index, text in enumerate(cell)}
    if not isinstance(cell, dict) or not all(isinstance(text, str) for text in cell.values()):
        raise row.error(column, f"expected a list of options, or an object of them, found {described(cell)}")
    return cell


def _write(file: IO[bytes] | None, records: list[Record]) -> None:
    if file:
        for record in records:
            line = json.dumps(record.to_dict(), ensure_ascii=False) + "\n"
            file.write(line.encode(errors="backslashreplace"))  # half a character: as JSON escapes it
