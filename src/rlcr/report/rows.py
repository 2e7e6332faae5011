"""The records of a run as columns of numbers, read once and continued where the file ended.

A record is a row of numbers and the place of its line in the file; its text is read again only if someone
looks at it. `rlcr report` reads a file to its end; `rlcr view` reads what has been added since, again and
again, and never a line that is not whole yet.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rlcr.errors import RlcrError
from rlcr.report.fields import UNSCORABLE, number_of, sample_number, share, verdict_code
from rlcr.runs.lines import cells_of
from rlcr.runs.record import Key
from rlcr.runs.stamps import RecordsHash

Floats = NDArray[np.float64]
Ints = NDArray[Any]  # whole numbers of any width

REPAIRED_ANSWER, REPAIRED_CONFIDENCE = 1, 2

#: The columns, each as narrow as it can be: a million records should not need a gigabyte.
_COLUMNS: dict[str, DTypeLike] = {
    "task": np.int32,
    "question": np.int32,
    "sample": np.int64,
    "verdict": np.int8,
    "confidence": np.float64,
    "tokens": np.float64,
    "repaired": np.int8,
    "offset": np.int64,
}
_BLOCK = 1 << 22


@dataclass(frozen=True)
class RecordColumns:
    """The records of a run as columns, one entry a record."""

    tasks: tuple[str, ...]
    ids: tuple[str, ...]
    task: Ints
    question: Ints
    sample: Ints
    verdict: Ints
    confidence: Floats
    """NaN where none was stated."""
    tokens: Floats
    repaired: Ints
    offset: Ints
    """Where the line of the record begins in records.jsonl."""
    verifiers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Which graded the records of each task."""
    codes: Mapping[str, int] = field(default_factory=dict, repr=False)
    """The number of each id; later records may have added some that no row has."""

    def __len__(self) -> int:
        return len(self.task)

    def of(self, tasks: Iterable[str]) -> NDArray[np.bool_]:
        """Which rows belong to these tasks."""
        codes = [self.tasks.index(name) for name in tasks if name in self.tasks]
        return np.isin(self.task, codes)

    def answered(self, keys: Iterable[Key]) -> set[Key]:
        """Which of these completions there are."""
        asked = {key: self.codes[key[0]] for key in keys if key[0] in self.codes}
        rows = np.flatnonzero(np.isin(self.question, np.fromiter(asked.values(), np.int64, len(asked))))
        there = set(zip(self.question[rows].tolist(), self.sample[rows].tolist(), strict=True))
        return {key for key, code in asked.items() if (code, key[1]) in there}

    def scored(self, tasks: Iterable[str]) -> tuple[Ints, Floats, Ints]:
        """Verdicts, confidences and questions of the scored rows, in an order of their own."""
        rows = self._order[(self.of(tasks) & (self.verdict != UNSCORABLE))[self._order]]
        return self.verdict[rows], self.confidence[rows], self.question[rows]

    @cached_property
    def _order(self) -> Ints:
        """Rows by task, id and sample: as `rlcr eval` orders them before it resamples."""
        if not len(self):
            return np.zeros(0, np.int64)
        question, task = (_ranks(names) for names in (self.ids, self.tasks))
        return np.lexsort((self.sample, question[self.question], task[self.task]))


def labels_of(question: Ints) -> list[int] | None:
    """The questions that are drawn; None where each has one answer: rows are drawn then, in less memory."""
    return question.tolist() if len(np.unique(question)) < len(question) else None


def _ranks(names: tuple[str, ...]) -> Ints:
    """The place of each name among them all, sorted."""
    ranks = np.empty(len(names), np.int32)
    # As objects: an array of texts would hold each at the length of the longest.
    ranks[np.argsort(np.array(names, object), kind="stable")] = np.arange(len(names), dtype=np.int32)
    return ranks


class RecordReader:
    """Reads a file of records, in as many steps as one likes; what it holds can be asked for at any time.

    Where the file is replaced or becomes shorter than what was read of it, reading begins anew.
    """

    def __init__(self, path: Path, grading: object = None) -> None:
        self.path, self.grading = path, grading
        self._lock = Lock()
        self._begin()

    def _begin(self) -> None:
        self.tasks: dict[str, int] = {}
        self.ids: dict[str, int] = {}
        self._verifiers: dict[str, dict[str, None]] = {}
        self._columns = {name: np.empty(1024, kind) for name, kind in _COLUMNS.items()}
        self._count = 0
        self._hash = RecordsHash(self.grading)
        self._position = self._lines = 0
        self._file: tuple[int, int] | None = None
        self.unreadable, self.first_unreadable = 0, 0
        self._has_checksums = False

    def __len__(self) -> int:
        return self._count

    @property
    def position(self) -> int:
        """How many bytes of the file have been read."""
        return self._position

    def read(self, at_most: int = _BLOCK, *, to_the_end: bool = False) -> bool:
        """Read on, ``at_most`` so many bytes of lines that are whole. False where there are none.

        With ``to_the_end``, what follows the last line break is a line too, whole or not.
        """
        try:
            with open(self.path, "rb") as file:
                status = os.fstat(file.fileno())
                identity = status.st_dev, status.st_ino
                if status.st_size < self._position or (self._file and self._file != identity):
                    with self._lock:
                        self._begin()
                self._file = identity
                file.seek(self._position)
                block = file.read(at_most)
                end = block.rfind(b"\n") + 1
                if not end and len(block) == at_most:  # a line longer than the block
                    block += file.readline()
                    end = len(block) if block.endswith(b"\n") else 0
                if to_the_end and len(block) < at_most:
                    end = len(block)
        except FileNotFoundError:
            if self._position:
                with self._lock:
                    self._begin()
            return False
        except OSError as error:
            raise RlcrError(f"{self.path}: cannot be read: {error.strerror or error}") from None
        if not end:
            return False
        with self._lock:
            self._add(block[:end])
        return True

    def read_all(self) -> None:
        """Read the file to its end."""
        while self.read(to_the_end=True):
            pass

    def _add(self, block: bytes) -> None:
        rows: list[tuple[Any, ...]] = []
        lines = block.split(b"\n")
        if not lines[-1]:
            lines.pop()
        offset = after = self._position
        for line in lines:
            offset, after = after, after + len(line) + 1
            self._lines += 1
            try:
                record, self._has_checksums = cells_of(line, self._has_checksums)
            except ValueError:
                record = {}
            if not isinstance(record.get("id"), str) or "verdict" not in record:
                self.unreadable += 1
                self.first_unreadable = self.first_unreadable or self._lines
                continue
            self._hash.add(record)
            rows.append(self._row(record, offset))
        self._position += len(block)
        start, self._count = self._count, self._count + len(rows)
        for name, values in zip(_COLUMNS, zip(*rows, strict=True), strict=False):  # no rows, no values
            column = self._columns[name]
            if len(column) < self._count:
                # Those who hold the old column keep it: its rows do not change.
                room = np.empty(self._count + self._count // 2, column.dtype)
                room[:start] = column[:start]
                self._columns[name] = column = room
            column[start : self._count] = values

    def _row(self, record: dict[str, Any], offset: int) -> tuple[Any, ...]:
        task = str(record.get("task") or "(no task)")
        self._verifiers.setdefault(task, {})[str(record.get("verifier") or "unknown")] = None
        return (
            self.tasks.setdefault(task, len(self.tasks)),
            self.ids.setdefault(record["id"], len(self.ids)),
            sample_number(record.get("sample")),
            verdict_code(record["verdict"]),
            share(record.get("confidence")),
            number_of(record.get("tokens")),
            REPAIRED_ANSWER * (record.get("forced_answer") is not None)
            + REPAIRED_CONFIDENCE * (record.get("forced_confidence") is not None),
            offset,
        )

    def notes(self) -> list[str]:
        """What is not there."""
        if not self.path.exists():
            return [f"no {self.path.name}: no figure of its confidences and no samples"]
        return [] if self._count or self.unreadable else [f"{self.path.name} has no record yet"]

    def damage(self) -> str:
        """What is there and could not be read, in words; empty where all could."""
        if not self.unreadable:
            return ""
        lines, them = "1 line is damaged (", "it"
        if self.unreadable > 1:
            lines, them = f"{self.unreadable:,} lines are damaged (the first is ", "them"
        return (
            f"{self.path.name}: {lines}line {self.first_unreadable:,}); left out of every number, and "
            f"`rlcr eval … --resume` makes {them} again"
        )

    def columns(self, samples: float = math.nan) -> tuple[RecordColumns, str]:
        """The records that were read so far, and the hash of what others build on.

        Where ``samples`` is a number, there are only that many of each question; the hash is of all.
        """
        with self._lock:
            shown = {name: column[: self._count] for name, column in self._columns.items()}
            if not math.isnan(samples):
                first = shown["sample"] < samples
                shown = {name: column[first] for name, column in shown.items()}
            verifiers = {task: tuple(sorted(names)) for task, names in self._verifiers.items()}
            rows = RecordColumns(
                tuple(self.tasks), tuple(self.ids), **shown, verifiers=verifiers, codes=self.ids
            )
            return rows, self._hash.value()
