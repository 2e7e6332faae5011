"""When to stop sampling a question: the rule, and what it would have done with a pool that is already there.

Samples are drawn in rounds. After each, votes are weighted by confidence: w1 for the leading answer, w2 for
the next. With a Beta prior that is flat, the chance that the leader is the answer that further samples
would prefer is

    P = P(X > 1/2),  X ~ Beta(w1 + 1, w2 + 1)

and a question is safe, and left alone, when P reaches the wanted safety, or when the leader cannot be
overtaken any more: w1 - w2 is more than the number of samples left in the budget, each of which weighs 1 at
most. At a safety of 1 only the second holds. A hesitant answer weighs little, so that it takes more samples
to be safe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcr.errors import RlcrError
from rlcr.many.pool import Floats, Pool
from rlcr.many.subsets import contributions, orders, parts, running, shuffled, votes_and_weight
from rlcr.metrics import Estimate
from rlcr.metrics.bootstrap import question_weights, ratio

#: The safeties whose accuracy is drawn against the samples they took.
SAFETIES = (0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999, 1.0)
_ORDERS = 32


@dataclass(frozen=True)
class Rule:
    """A budget of samples for each question, and when to stop before it is spent."""

    budget: int = 32
    safety: float = 0.95
    first: int = 4
    step: int = 2

    def __post_init__(self) -> None:
        if self.budget < 2:
            raise RlcrError(f"an adaptive run needs a budget of at least 2 samples, not {self.budget}")
        if not 0.5 < self.safety <= 1:
            raise RlcrError(f"the safety must be above 0.5 and at most 1, not {self.safety:g}")

    @property
    def rounds(self) -> tuple[int, ...]:
        """The number of samples after each round; the last is the budget."""
        return (*range(min(self.first, self.budget), self.budget, self.step), self.budget)

    def stops(
        self, leader: Floats, second: Floats, used: int, likely: Floats | None = None
    ) -> NDArray[np.bool_]:
        """Whether sampling stops for questions with these weights, after ``used`` samples.

        ``likely`` is the :func:`chance` of the weights, where it is known already.
        """
        settled = (leader - second > self.budget - used) | (used >= self.budget)
        if self.safety == 1:
            return settled
        return settled | ((chance(leader, second) if likely is None else likely) >= self.safety)

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def chance(leader: Floats, second: Floats) -> Floats:
    """P(X > 1/2) for X ~ Beta(leader + 1, second + 1).

    >>> float(chance(np.array(1.0), np.array(1.0))), float(chance(np.array(3.0), np.array(0.0)))
    (0.5, 0.9375)
    """
    from scipy.special import betainc  # here, since the command line should start at once

    return betainc(second + 1, leader + 1, 0.5)


@dataclass(frozen=True)
class Spent:
    """What a rule does with a pool: samples used and accuracy, on average over questions and orders."""

    rule: Rule
    samples: float
    accuracy: Estimate


def simulate(
    pool: Pool, budget: int, *, safeties: Sequence[float] = SAFETIES, seed: int = 0, resamples: int = 1000
) -> list[Spent]:
    """For each safety, what sampling adaptively from these pools would have cost and given."""
    pool = pool.having(budget)
    rules = [Rule(budget, safety) for safety in safeties]
    used = np.zeros((len(rules), len(pool), _ORDERS))
    right, scorable = np.zeros((2, len(rules), len(pool), _ORDERS))
    moved, order = shuffled(pool, seed)
    added = np.take_along_axis(contributions(pool.confidence_QM), order, axis=1)
    longest = pool.group_QM.shape[1]
    for samples, rows in parts(pool, _ORDERS):
        drawn = orders(samples, budget, _ORDERS, seed)
        for n, standing in enumerate(running(moved.rows(rows), added[rows], drawn, whole=True), 1):
            if n not in rules[0].rounds:
                continue
            leader, second = (
                votes_and_weight(total, longest)[1] for total in (standing.best, standing.second)
            )
            likely = chance(leader, second)  # once for all rules: it is what takes the time
            now_right, now_scorable = standing.right, standing.scorable
            for at, rule in enumerate(rules):
                stop = rule.stops(leader, second, n, likely) & (used[at, rows] == 0)
                used[at, rows] = np.where(stop, n, used[at, rows])
                right[at, rows] = np.where(stop, now_right, right[at, rows])
                scorable[at, rows] = np.where(stop, now_scorable, scorable[at, rows])
    weights_RQ = question_weights(len(pool), resamples, seed)
    return [
        Spent(
            rule,
            float(used[at].mean()),
            ratio(right[at].mean(axis=1), scorable[at].mean(axis=1), weights_RQ).estimate(),
        )
        for at, rule in enumerate(rules)
    ]


def final_votes(pool: Pool) -> tuple[Floats, Floats, Floats, Floats]:
    """The confidence-weighted vote of all samples of each question, however many it has.

    Gives, by question, the chance that it is right and that it can be scored (ties in expectation), and the
    weights of the leading answer and of the next.
    """
    right, scorable, leader, second = np.zeros((4, len(pool)))
    added, longest = contributions(pool.confidence_QM), pool.group_QM.shape[1]
    for samples, rows in parts(pool, 1):
        *_, last = running(pool.rows(rows), added[rows], np.arange(samples)[None, :], whole=True)
        right[rows], scorable[rows] = last.right[:, 0], last.scorable[:, 0]
        leader[rows] = votes_and_weight(last.best, longest)[1][:, 0]
        second[rows] = votes_and_weight(last.second, longest)[1][:, 0]
    return right, scorable, leader, second
