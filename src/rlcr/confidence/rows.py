"""The completions of a run as rows to learn from: verdicts, and which rows are of one question.

Everything here that is learned is learned on other questions than those it is used on. Rows with the same
text of the question belong together, whatever their ids: a question that is in a data set twice is one
question.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcr.errors import RlcrError
from rlcr.problem import Problem
from rlcr.prompts import user_message
from rlcr.runs.columns import Column, read_column
from rlcr.runs.record import CODES, CORRECT, UNSCORABLE, WRONG, Key, Record
from rlcr.runs.store import PROBLEMS, Run, open_run

#: Fewer scored rows than this, or fewer of either class, are too few to learn from.
LEAST_ROWS, LEAST_OF_CLASS = 30, 5
FOLDS = 5


@dataclass(frozen=True)
class Rows:
    """The completions of a finished run, or some of them, in the order of the file."""

    run: Run
    keys: list[Key]
    questions: list[str]
    """For each row a hash of the text of its question."""
    verdict: NDArray[np.int64]

    def records(self) -> Iterator[Record]:
        """The records of the rows, one for each, from the file."""
        wanted = set(self.keys)
        return (r for r in self.run.records() if r.key in wanted)

    def only(self, chosen: NDArray[np.bool_]) -> Rows:
        """Some of the rows."""
        kept = np.flatnonzero(chosen)
        return Rows(
            self.run, [self.keys[n] for n in kept], [self.questions[n] for n in kept], self.verdict[kept]
        )

    @property
    def scored(self) -> NDArray[np.bool_]:
        """Which rows are right or wrong."""
        return self.verdict != UNSCORABLE

    @cached_property
    def problems(self) -> dict[str, Problem]:
        """The problems of the run by their ids."""
        return self.run.problems()

    def column(self, name: str) -> NDArray[np.float64]:
        """A column in the order of the rows; NaN where it gives no confidence."""
        return self.aligned(read_column(self.run, name))

    def aligned(self, column: Column) -> NDArray[np.float64]:
        """A column that was already read, in the order of the rows; NaN where it gives no confidence."""
        values = [column.get(key) for key in self.keys]
        return np.array([np.nan if value is None else value for value in values], np.float64)

    def to_column(self, values: NDArray[np.floating]) -> Column:
        """Values in the order of the rows as a column; NaN becomes none."""
        confidences = [None if np.isnan(value) else float(value) for value in values]
        return dict(zip(self.keys, confidences, strict=True))

    def counts(self) -> dict[str, int]:
        """Rows by verdict: an imbalance of classes should be seen."""
        return {name: int((self.verdict == code).sum()) for name, code in CODES.items()}

    def check_learnable(self, usable: NDArray[np.bool_] | None = None) -> None:
        """Raise unless enough usable rows of both classes, of enough questions, are there to learn from."""
        kept = self.scored if usable is None else usable & self.scored
        right, wrong = (int((self.verdict[kept] == code).sum()) for code in (CORRECT, WRONG))
        where = f"{self.run.folder}: {right:,} right and {wrong:,} wrong records to learn from"
        if not right + wrong and self.scored.any():
            raise RlcrError(f"{where}: of those with a verdict none has what is to be learned from")
        if not right + wrong:
            raise RlcrError(f"{where}: none has a verdict; `rlcr rescore` with another verifier")
        if not right or not wrong:
            raise RlcrError(f"{where}: one class only, so that nothing can be told apart; use more questions")
        if right + wrong < LEAST_ROWS or min(right, wrong) < LEAST_OF_CLASS:
            raise RlcrError(f"{where}: too few; at least {LEAST_ROWS}, and {LEAST_OF_CLASS} of each class")
        questions = len({q for q, keep in zip(self.questions, kept, strict=True) if keep})
        if questions < 2 * FOLDS:
            raise RlcrError(f"{where}: of only {questions} questions; at least {2 * FOLDS} are needed")


def read_rows(run: Run | Path) -> Rows:
    """The rows of a finished run; of an adaptive one those of its first round."""
    run = run if isinstance(run, Run) else open_run(run)
    run.check_finished()
    hashes = {name: _hash(user_message(problem)) for name, problem in run.problems().items()}
    keys, questions, verdicts = [], [], []
    for record in run.independent_records():
        if record.id not in hashes:
            raise RlcrError(f"{run.records_path}: problem {record.id} is not in {PROBLEMS}")
        keys.append(record.key)
        questions.append(hashes[record.id])
        verdicts.append(CODES[record.verdict])
    return Rows(run, keys, questions, np.array(verdicts, np.int64))


def _hash(text: str) -> str:
    return hashlib.sha256(" ".join(text.split()).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def folds_of(questions: Sequence[str], folds: int = FOLDS, seed: int = 0) -> NDArray[np.int64]:
    """A fold for each row, all rows of a question in one; folds are about equally large.

    >>> folds = folds_of(["a", "b", "a", "c", "b"], 2)
    >>> bool(folds[0] == folds[2] and folds[1] == folds[4])
    True
    """
    names, codes = np.unique(np.array(questions, dtype=object).astype(str), return_inverse=True)
    sizes = np.bincount(codes, minlength=len(names))
    fold_of = np.zeros(len(names), np.int64)
    held = np.zeros(folds)
    for name in np.random.default_rng(seed).permutation(len(names)):
        fold_of[name] = int(held.argmin())
        held[fold_of[name]] += sizes[name]
    return fold_of[codes]


def unseen(rows: Rows, trained_on: set[str]) -> NDArray[np.bool_]:
    """Which rows are of questions that were not learned from. None at all is an error."""
    new = np.array([question not in trained_on for question in rows.questions], bool)
    if not new.any():
        raise RlcrError(
            f"{rows.run.folder}: every question was also trained on, so that nothing can be measured there;"
            " use a run on other questions"
        )
    return new


def cost(passes: int = 0, tokens: int = 0, *, completions: int) -> dict[str, int]:
    """What a column costs beyond the run itself: forward passes over a sequence, and tokens read.

    ``completions`` are those for which that was spent, of all tasks.
    """
    return {"passes": passes, "tokens": tokens, "completions": completions}


def column_provenance(source: str, spent: dict[str, int], **details: Any) -> dict[str, Any]:
    """The provenance of a column."""
    return {"source": source, "cost": spent, **details}
