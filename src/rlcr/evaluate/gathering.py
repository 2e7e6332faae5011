"""What is gathered of the records of a run, task by task, before anything is computed of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from sys import intern
from typing import NamedTuple

from rlcr.evaluate.forced import forced_kinds
from rlcr.metrics.measurement import GradedSamples
from rlcr.runs.columns import HELD, held_confidences
from rlcr.runs.record import Key, Record


def gather(
    records: Iterable[Record], columns: Mapping[str, Mapping[Key, float | None]]
) -> dict[str, TaskSamples]:
    """The samples of each task, with the confidences of the records and of further columns."""
    # Sorted, since the bootstrap draws by position: a resumed run must get the intervals of a whole one.
    rows = sorted((_Row.of(record, columns.values()) for record in records), key=itemgetter(0, 1))
    gathered: dict[str, TaskSamples] = {}
    for row in rows:
        if row.task not in gathered:
            gathered[row.task] = TaskSamples()
        gathered[row.task].add(row, (*HELD, *columns))
    return gathered


class _Row(NamedTuple):
    """What results need of a record: a tenth of its size, since all of a run are in memory together."""

    task: str
    key: Key
    correct: bool | None
    confidences: tuple[float | None, ...]
    tokens: int
    repairs: tuple[str, ...]
    unrepaired: tuple[str, ...]
    verifier: str
    forced: tuple[str, ...]
    cut_off: bool
    without_logprobs: bool
    reason: str

    @staticmethod
    def of(record: Record, columns: Iterable[Mapping[Key, float | None]]) -> _Row:
        """The row of a record. Texts that many records share are kept once."""
        key = record.key
        return _Row(
            intern(record.task),
            key,
            record.correct,
            (*held_confidences(record).values(), *(column.get(key) for column in columns)),
            record.tokens,
            record.repairs,
            record.unrepaired,
            intern(record.verifier),
            tuple(forced_kinds(record)),
            record.finish_reason == "length",
            record.likelihood is None,
            intern(record.reason),
        )


@dataclass
class TaskSamples:
    """What is gathered of one task while its records stream by."""

    samples: dict[str, GradedSamples] = field(default_factory=dict)
    questions: dict[str, int] = field(default_factory=dict)
    completions: int = 0
    tokens: int = 0
    repaired: Counter[str] = field(default_factory=Counter)
    unrepaired: Counter[str] = field(default_factory=Counter)
    unscorable: Counter[str] = field(default_factory=Counter)
    verifiers: Counter[str] = field(default_factory=Counter)
    forced: Counter[str] = field(default_factory=Counter)
    cut_off: int = 0
    without_logprobs: int = 0

    @property
    def scored(self) -> int:
        """How many could be judged right or wrong."""
        return self.completions - self.unscorable.total()

    def add(self, row: _Row, sources: Iterable[str]) -> None:
        """Count a row; its confidences are of these sources."""
        question = self.questions.setdefault(row.key[0], len(self.questions))
        for name, confidence in zip(sources, row.confidences, strict=True):
            if name not in self.samples:
                self.samples[name] = GradedSamples()
            self.samples[name].add(row.correct, confidence, question=question)
        self.completions += 1
        self.tokens += row.tokens
        self.repaired.update(row.repairs)
        self.unrepaired.update(row.unrepaired)
        self.verifiers[row.verifier] += 1
        self.forced.update(row.forced)
        self.cut_off += row.cut_off
        self.without_logprobs += row.without_logprobs
        if row.correct is None:
            self.unscorable[row.reason] += 1
