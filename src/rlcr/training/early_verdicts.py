"""Verdicts found while other completions are still being sampled.

Comparing formulas takes about 10 ms of a core for each answer: 20 s for an update of 2,048. Where the model
samples on a GPU the cores are free meanwhile, so each answer goes to a worker process as soon as it is
there, and the step does not wait. On a CPU workers would take the cores that sample, whose threads wait for
each other at every layer: there verification comes when all is sampled, and then has the cores to itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from rlcr.problem import Problem
from rlcr.verify import VERIFIERS, Grading, Verdict, Verifier, verify

#: Verifiers that work in processes of their own. The others take microseconds.
_SLOW = ("math", "gym")
#: They only wait for the workers, of which there are no more.
_THREADS = 16


class EarlyVerdicts:
    """The verdicts of one update. Leaving the context gives up what has not been started."""

    def __init__(self, grading: Grading, own: Mapping[str, Verifier] | None = None) -> None:
        self._grading: Grading = grading
        self._own = own
        self._threads = ThreadPoolExecutor(_THREADS, "rlcr-early")
        self._begun: dict[tuple[str, str], Future[list[Verdict]]] = {}

    def __enter__(self) -> EarlyVerdicts:
        return self

    def __exit__(self, *_: Any) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def begin(self, problem: Problem, answer: str | None) -> None:
        """Verify an answer in the background, if that takes long and has not been asked before."""
        if answer is None or not self.takes_long(problem):
            return
        key = problem.id, answer
        if key not in self._begun:
            self._begun[key] = self._threads.submit(verify, [problem], [answer], grading=self._grading)

    def takes_long(self, problem: Problem) -> bool:
        """Whether it is worth beginning early."""
        return problem.verifier in _SLOW or (self._grading == "paper" and problem.verifier in VERIFIERS)

    def verify(
        self, problems: Sequence[Problem], answers: Sequence[str | None], *, grading: Grading
    ) -> list[Verdict]:
        """As :func:`rlcr.verify.verify`, which is asked for those that nobody began."""
        assert grading == self._grading
        begun = [
            self._begun.get((problem.id, answer)) if answer is not None else None
            for problem, answer in zip(problems, answers, strict=True)
        ]
        left = [row for row, future in enumerate(begun) if future is None]
        verdicts = verify(
            [problems[row] for row in left], [answers[row] for row in left], grading=grading, own=self._own
        )
        late = dict(zip(left, verdicts, strict=True))
        return [late[row] if future is None else future.result()[0] for row, future in enumerate(begun)]
