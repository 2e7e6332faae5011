"""One vote: the answers to a single question, the leading one first.

Ties are as everywhere (:mod:`rlcr.many.subsets`): weights are read to nine decimals, then the number of votes
decides, then the first to be given, since an application needs one answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlcr.many.subsets import contributions, votes_and_weight


@dataclass(frozen=True, slots=True)
class AnswerVotes:
    """What stands behind one answer: its samples, and the confidence that they state together."""

    group: int
    votes: int
    weight: float
    confidence: float | None
    """The mean of its samples that state one."""


def standings(
    groups: Sequence[int] | NDArray[np.int64], confidences: Sequence[float | None] | NDArray[np.float64]
) -> list[AnswerVotes]:
    """The answers to a question by their weight. A sample without an answer (-1) votes for none.

    >>> [(one.group, one.votes, one.confidence) for one in standings([0, 1, 1, -1], [0.9, 0.5, None, 1.0])]
    [(0, 1, 0.9), (1, 2, 0.5)]
    """
    stated_M = np.array([np.nan if q is None else q for q in confidences], np.float64)
    group_M = np.asarray(groups, np.int64)
    contribution_M = contributions(stated_M[None, :])[0]
    found: list[tuple[int, AnswerVotes]] = []
    for group in dict.fromkeys(int(group) for group in group_M if group >= 0):
        of_it = group_M == group
        total = contribution_M[of_it].sum()
        votes, weight = votes_and_weight(total, len(group_M))
        stating = stated_M[of_it & ~np.isnan(stated_M)]
        mean = float(stating.mean()) if len(stating) else None
        found.append((int(total), AnswerVotes(group, int(votes), float(weight), mean)))
    # The sort is stable: of equals the first to be given stays first.
    return [answer for _, answer in sorted(found, key=lambda one: -one[0])]
