"""The authors' own grading, kept to reproduce their published numbers. Not recommended for anything else.

Their evaluation asks math-verify first and exact match second, for every dataset without a judge, HotpotQA
as well as mathematics. The gold goes into math-verify unparsed, where a string is equal to nothing but the
same string: ``\\frac{1}{2}`` does not match 0.5; and exact match drops the minus sign: 1 matches -1.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlcr.problem import Problem
from rlcr.verify._math_pool import Job, settle
from rlcr.verify.exact import normalise
from rlcr.verify.math import TIME_LIMIT
from rlcr.verify.verdict import CORRECT, NO_ANSWER, Verdict


def verify_paper(
    problems: Sequence[Problem], answers: Sequence[str | None], *, time_limit: float = TIME_LIMIT
) -> list[Verdict]:
    """Correct when math-verify reads the gold's very string in the answer, or both normalise to one text."""
    looks = [_first_look(problem.gold, answer) for problem, answer in zip(problems, answers, strict=True)]
    return settle(looks, time_limit)


def _first_look(golds: Sequence[str], answer: str | None) -> Verdict | Job:
    if answer is None:
        return NO_ANSWER
    if normalise(answer) in map(normalise, golds):
        return CORRECT
    return Job(tuple(golds), answer, paper=True)
