"""A pool: all samples of each question of a task, as arrays, with their answers grouped by equality.

Everything in :mod:`rlcr.many` is computed from pools. What happens to samples that are not whole:

- No answer: the sample counts as drawn and votes for nothing. A draw without any answer is wrong.
- No confidence (or no likelihood): its weight is 0, and it is chosen only where no other sample can be.
- Unscorable: an answer's verdict is that of most of its scorable samples (a tie is wrong), so that one judge
  who did not reply changes nothing. An answer none of whose samples could be scored is a third outcome: draws
  that choose it are left out of accuracy, and counted.
- Fewer samples than others: curves stop at the largest N that nine in ten questions have, and are over the
  same questions at every N; the others are left out, and counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rlcr.errors import RlcrError
from rlcr.many.equivalence import group_many
from rlcr.problem import Problem
from rlcr.runs.columns import VERBALISED, read_column
from rlcr.runs.record import CODES, CORRECT, UNSCORABLE, WRONG, Key, Record
from rlcr.runs.store import PROBLEMS, Run, open_run

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Pool:
    """Q questions with up to M samples each; rows shorter than M are padded.

    ``group_QM`` numbers the answers of a question from 0, -1 is no answer (or padding); ``outcome_QG`` is the
    verdict of each; ``blank_Q`` that of giving no answer at all.
    """

    ids: tuple[str, ...]
    size_Q: Ints
    group_QM: Ints
    outcome_QG: Ints
    blank_Q: Ints
    confidence_QM: Floats
    likelihood_QM: Floats

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def real_QM(self) -> NDArray[np.bool_]:
        """Which entries are samples and not padding."""
        return np.arange(self.group_QM.shape[1]) < self.size_Q[:, None]

    @property
    def sample_outcome_QM(self) -> Ints:
        """The outcome of each sample's answer."""
        with_blank = np.concatenate([self.outcome_QG, self.blank_Q[:, None]], axis=1)
        return np.take_along_axis(with_blank, self.group_QM, axis=1)

    def most(self) -> int:
        """How many samples nine in ten questions have: as far as curves go."""
        return nine_in_ten_have(self.size_Q)

    def having(self, samples: int) -> Pool:
        """The questions with at least this many samples."""
        return self.rows(np.flatnonzero(self.size_Q >= samples))

    def first(self, samples: int) -> Pool:
        """The first samples of each question."""
        taken = {
            name: getattr(self, name)[:, :samples] for name in ("group_QM", "confidence_QM", "likelihood_QM")
        }
        return replace(self, size_Q=np.minimum(self.size_Q, samples), **taken)

    def rows(self, rows: Ints) -> Pool:
        """Some of the questions."""
        taken = {f.name: getattr(self, f.name)[rows] for f in fields(self) if f.name != "ids"}
        return replace(self, ids=tuple(self.ids[row] for row in rows), **taken)

    def counts(self) -> dict[str, int]:
        """What a reader must know of the samples beside their number."""
        real = self.real_QM
        answered = real & (self.group_QM >= 0)
        outcomes = np.where(real, self.sample_outcome_QM, UNSCORABLE)
        return {
            "questions": len(self),
            "samples": int(self.size_Q.sum()),
            "without answer": int((real & ~answered).sum()),
            "without confidence": int((answered & np.isnan(self.confidence_QM)).sum()),
            "without likelihood": int((answered & np.isnan(self.likelihood_QM)).sum()),
            "unscorable answers": int((answered & (outcomes == UNSCORABLE)).sum()),
            "unscorable questions": int((outcomes == UNSCORABLE).all(axis=1).sum()),
        }


def nine_in_ten_have(sizes: Ints) -> int:
    """The largest number that at least nine in ten of the sizes reach.

    >>> nine_in_ten_have(np.array([3, *[8] * 9]))
    8
    """
    return int(np.sort(sizes)[len(sizes) // 10]) if len(sizes) else 0


def make_pool(
    ids: Sequence[str],
    groups: Sequence[Sequence[int]],
    outcomes: Sequence[Sequence[int]],
    confidences: Sequence[Sequence[float | None]],
    likelihoods: Sequence[Sequence[float | None]] | None = None,
) -> Pool:
    """A pool from one sequence a question: of groups (-1 is no answer), outcomes (1, 0, -1) and scores."""
    size_Q = np.array([len(row) for row in groups], np.int64)
    if not len(size_Q) or not size_Q.min():
        raise RlcrError("a pool needs at least one question, and each question a sample")
    shape = len(size_Q), int(size_Q.max())
    group_QM, verdict_QM = np.full(shape, -1, np.int64), np.full(shape, WRONG, np.int64)
    scores = np.full((2, *shape), np.nan)
    for q, (row, verdicts) in enumerate(zip(groups, outcomes, strict=True)):
        group_QM[q, : len(row)] = row
        verdict_QM[q, : len(row)] = verdicts
        scores[0, q, : len(row)] = np.array(confidences[q], np.float64)
        if likelihoods is not None:
            scores[1, q, : len(row)] = np.array(likelihoods[q], np.float64)
    answers = int(group_QM.max()) + 1
    # Behind the answers a place for samples without one, and a place for padding.
    votes = np.zeros((len(size_Q), answers + 2, 2), np.int64)
    real = np.arange(shape[1]) < size_Q[:, None]
    place = np.where(real, np.where(group_QM < 0, answers, group_QM), answers + 1)
    for verdict in (WRONG, CORRECT):
        row, column = np.nonzero(verdict_QM == verdict)
        np.add.at(votes[:, :, verdict], (row, place[row, column]), 1)
    outcome = np.where(
        votes.sum(axis=2) == 0, UNSCORABLE, (votes[:, :, CORRECT] > votes[:, :, WRONG]).astype(np.int64)
    )
    blank = outcome[:, answers].copy()
    # Where every sample answered, giving no answer is wrong, unless nothing of the question could be scored.
    unseen = ~(place == answers).any(axis=1)
    blank[unseen] = np.where((outcome[unseen, :answers] == UNSCORABLE).all(axis=1), UNSCORABLE, WRONG)
    return Pool(tuple(ids), size_Q, group_QM, outcome[:, :answers], blank, scores[0], scores[1])


def read_pools(run: Run | Path, confidence: str = VERBALISED) -> dict[str, Pool]:
    """The pools of a finished run by task, with confidences of one of its columns.

    Of a run that was sampled adaptively only the first round is taken: how many samples came later depends on
    what they said.
    """
    run = run if isinstance(run, Run) else open_run(run)
    run.check_finished()
    return pools_of(run, run.independent_records(), confidence)


def pools_of(run: Run, records: Iterable[Record], confidence: str = VERBALISED) -> dict[str, Pool]:
    """The pools of some records of a run."""
    column = read_column(run, confidence)
    kept: defaultdict[str, defaultdict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        kept[record.task][record.id].append(replace(record, text=""))  # the texts would fill the memory
    # Answers are the same by the equality that graded them, which rescoring may have changed.
    problems = run.problems()
    for name in (name for asked in kept.values() for name in asked if name not in problems):
        raise RlcrError(f"{run.folder / PROBLEMS}: damaged: the problem {name} of the records is not there")
    return {task: _pool(kept[task], problems, column) for task in sorted(kept)}


def _pool(
    asked: Mapping[str, list[Record]], problems: Mapping[str, Problem], column: Mapping[Key, float | None]
) -> Pool:
    ids = sorted(asked)
    rows = [sorted(asked[name], key=lambda record: record.sample) for name in ids]
    groups = group_many(
        (problems[name], [record.answer for record in records])
        for name, records in zip(ids, rows, strict=True)
    )
    return make_pool(
        ids,
        groups,
        [[CODES[record.verdict] for record in records] for records in rows],
        [
            [column.get((name, record.sample)) for record in records]
            for name, records in zip(ids, rows, strict=True)
        ],
        [[record.likelihood for record in records] for records in rows],
    )
