"""Runs compared with each other on the questions that both scored, as `rlcr compare` does it.

Each pair is resampled once, when it is first asked for, and read both ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from rlcr import metrics
from rlcr.metrics import Comparison, Difference
from rlcr.metrics.intervals import Answers
from rlcr.report.reading import EvalRun

_RESAMPLES = 1000
# Rows times resamples that all comparisons together may cost: some twenty seconds.
_WORK = 200_000_000
#: With more runs than this, each is compared with the first alone.
ALL_PAIRS = 8


def affordable(rows: int) -> int:
    """How many resamples of so many rows can be drawn in bearable time."""
    return max(100, min(_RESAMPLES, _WORK // max(1, rows)))


class Pairs:
    """The paired comparisons of some runs on some tasks. Runs are meant by their numbers."""

    def __init__(self, runs: Sequence[EvalRun], tasks: Sequence[str]) -> None:
        self.runs, self.tasks = runs, tuple(tasks)
        self._answers: dict[tuple[int, str], Answers] = {}
        self._kept: dict[tuple[int, int, str], Comparison | None] = {}
        self._same: dict[tuple[int, int, str], set[str] | None] = {}
        sizes = [[int(run.rows.of([task]).sum()) for task in tasks] for run in runs]
        self.resamples = affordable(
            sum(
                a + b
                for one, other in combinations(sizes, 2)
                if self.every_pair or one is sizes[0]
                for a, b in zip(one, other, strict=True)
                if a and b
            )
        )

    @property
    def every_pair(self) -> bool:
        """Whether every run can be the baseline, or only the first."""
        return len(self.runs) <= ALL_PAIRS

    def comparison(self, a: int, b: int, task: str) -> Comparison | None:
        """Run b minus run a on a task; None where they have no scored question in common."""
        if a > b:
            found = self.comparison(b, a, task)
            return None if found is None else _mirrored(found)
        key = a, b, task
        if key not in self._kept:
            one, other = self.answers_of(a, task), self.answers_of(b, task)
            only = self.common_problems(a, b, task)
            self._kept[key] = metrics.compare_common(one, other, only=only, resamples=self.resamples)
        return self._kept[key]

    def difference(self, a: int, b: int, tasks: Sequence[str], metric: str) -> Difference | None:
        """Run b minus run a, of several tasks the unweighted mean; None where a task cannot be compared."""
        found = [self.comparison(a, b, task) for task in tasks]
        known = [comparison for comparison in found if comparison is not None]
        if not known or len(known) < len(tasks):
            return None
        return known[0].metrics[metric] if len(known) == 1 else metrics.macro_difference(known, metric)

    def common_problems(self, a: int, b: int, task: str) -> set[str] | None:
        """The ids under which both runs hold the same problem; None where that is all, or unknown."""
        key = min(a, b), max(a, b), task
        if key not in self._same:
            self._same[key] = _same_problems(self.runs[key[0]], self.runs[key[1]], task)
        return self._same[key]

    def answers_of(self, number: int, task: str) -> Answers:
        """Verdicts, confidences and ids of questions of what a run scored on a task."""
        if (number, task) not in self._answers:
            rows = self.runs[number].rows
            correct, confidence, question = rows.scored([task])
            self._answers[number, task] = correct, confidence, [rows.ids[code] for code in question]
        return self._answers[number, task]


def _mirrored(found: Comparison) -> Comparison:
    """The same pair, the other way round."""

    def turned(one: Difference) -> Difference:
        ends = [None if end is None else -end for end in (one.value, one.high, one.low)]
        return Difference(*ends, note=one.note, p_value=one.p_value)

    return replace(
        found,
        n=found.n[::-1],
        rated=found.rated[::-1],
        metrics={name: turned(one) for name, one in found.metrics.items()},
        draws_R={name: -draws for name, draws in found.draws_R.items()},
    )


def _same_problems(a: EvalRun, b: EvalRun, task: str) -> set[str] | None:
    hashes = a.task_hash(task), b.task_hash(task)
    if None in hashes or hashes[0] == hashes[1]:
        return None
    ids = set(a.rows.ids) & set(b.rows.ids)
    first, second = (run.problems(ids) for run in (a, b))
    return {
        name
        for name in first.keys() & second.keys()
        if all(first[name].get(part) == second[name].get(part) for part in ("question", "gold"))
    }
