"""Weighted votes over subsets of a pool: all of them where they are few, seeded ones where not.

A vote for one of N samples adds its weight to its answer; the answer with the most weight is chosen. Equal
weights are decided by the number of votes, and answers equal in that too have the same chance, taken in
expectation. Weights are read to nine decimals, so that ties are ties: 0.1 three times is 0.3.

No closed form is known for weights that all differ. Of the subsets of size N,

    N = 1, 2                       closed: the heavier sample decides
    at most 1,000 subsets          all of them
    otherwise                      drawn: random orders of the pool, whose first N samples are a subset

The orders are the same for all questions with M samples, but each question's samples are shuffled first, so
that errors of different questions are independent and average out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rlcr.many.exact import LARGEST, Expected, highest
from rlcr.many.pool import CORRECT, UNSCORABLE, Floats, Ints, Pool

How = Literal["closed", "all", "drawn"]

#: All subsets are taken where they are no more than this, or than those that would be drawn.
ENUMERATED = 1000
_DECIMALS = 10**9
_CHUNK = 1 << 20


def enough(questions: int) -> int:
    """How many subsets to draw for each question: the fewer questions, the more, from 200 to 4,000."""
    return int(min(4000, max(200, 1_000_000 // max(1, questions))))


def contributions(weight_QM: Floats) -> Ints:
    """What each sample adds to its answer: its weight before the point, one vote behind it."""
    weight = np.rint(np.nan_to_num(weight_QM, nan=0.0) * _DECIMALS).astype(np.int64)
    return weight * (weight.shape[1] + 1) + 1


def votes_and_weight(total: Ints, samples: int) -> tuple[Ints, Floats]:
    """The votes and the weight behind a total of contributions, in a pool of this many samples."""
    return total % (samples + 1), total // (samples + 1) / _DECIMALS


# Three small counts in one number: tied leaders, those that are right, those that can be scored.
_BITS = 20
_MASK = (1 << _BITS) - 1


@dataclass(frozen=True)
class Standing:
    """Where votes stand after n samples, for each question and order: arrays of shape (Q, S).

    ``best`` and ``second`` are the totals of contributions of the leading answer and of the next one,
    ``total`` of all samples with an answer, ``leading`` is the answer that leads (of tied ones the first to
    do so); the latter three only where they were asked for.
    """

    leaders: Ints
    best: Ints
    second: Ints
    total: Ints
    leading: NDArray[np.int32]

    @property
    def right(self) -> Floats:
        """The share of the tied leaders that is right."""
        return (self.leaders >> _BITS & _MASK) / (self.leaders & _MASK)

    @property
    def scorable(self) -> Floats:
        """The share of the tied leaders that can be scored."""
        return (self.leaders >> 2 * _BITS) / (self.leaders & _MASK)


def running(pool: Pool, contribution_QM: Ints, orders_SN: Ints, *, whole: bool = False) -> Iterator[Standing]:
    """The standing after each further sample, in the orders given; ``whole`` with the second and the total.

    Every question must have the samples that the orders name. The arrays of a standing change with the next
    one. Contributions are positive, so that only the answer that gets a vote can change who leads.
    """
    questions, orders = shape = len(pool), len(orders_SN)
    answers = pool.outcome_QG.shape[1]
    groups = np.where(pool.group_QM < 0, answers, pool.group_QM).astype(np.int32)
    right_QM = _right(pool.sample_outcome_QM)
    # No answer has a place of its own, which never leads.
    totals = np.zeros((questions * orders, answers + 1), np.int64)
    totals[:, answers] = np.iinfo(np.int64).min // 2
    flat = totals.reshape(-1)
    places = (np.arange(questions * orders) * (answers + 1)).reshape(shape)
    best, second, total = (np.zeros(shape, np.int64) for _ in range(3))
    leaders = np.repeat(_right(pool.blank_Q)[:, None], orders, axis=1)
    leading = np.full(shape, answers, np.int32)
    for step in range(orders_SN.shape[1]):
        drawn = orders_SN[:, step]
        group, added, right = (np.take(a, drawn, axis=1) for a in (groups, contribution_QM, right_QM))
        place = places + group
        now = flat[place]
        now += added
        flat[place] = now
        ahead = now > best
        if whole:
            total += np.where(group < answers, added, 0)
            same = group == leading
            np.copyto(second, np.maximum(second, now), where=~same & ~ahead)
            np.copyto(second, best, where=~same & ahead)
            np.copyto(leading, group, where=ahead)
        np.add(leaders, right, out=leaders, where=now == best)
        np.copyto(leaders, right, where=ahead)
        np.copyto(best, now, where=ahead)
        yield Standing(leaders, best, second, total, leading)


def _right(outcome: Ints) -> Ints:
    return (
        1
        + ((outcome == CORRECT).astype(np.int64) << _BITS)
        + ((outcome != UNSCORABLE).astype(np.int64) << 2 * _BITS)
    )


def orders(samples: int, most: int, subsets: int, seed: int) -> Ints:
    """Random orders of ``samples`` samples, the first ``most`` of each."""
    rng = np.random.default_rng([seed, samples])
    return np.argsort(rng.random((subsets, samples)), axis=1)[:, :most]


def shuffled(pool: Pool, seed: int) -> tuple[Pool, Ints]:
    """The pool with the samples of each question in a random order, and that order."""
    rng = np.random.default_rng([seed, len(pool)])
    order = np.argsort(np.where(pool.real_QM, rng.random(pool.group_QM.shape), 2.0), axis=1)
    moved = {
        name: np.take_along_axis(getattr(pool, name), order, axis=1)
        for name in ("group_QM", "confidence_QM", "likelihood_QM")
    }
    return Pool(pool.ids, pool.size_Q, outcome_QG=pool.outcome_QG, blank_Q=pool.blank_Q, **moved), order


def parts(pool: Pool, subsets: int) -> Iterator[tuple[int, Ints]]:
    """The questions by their number of samples, in parts that fit into memory with this many orders each."""
    chunk = max(1, _CHUNK // (subsets * (pool.outcome_QG.shape[1] + 1)))
    for samples in np.unique(pool.size_Q):
        rows = np.flatnonzero(pool.size_Q == samples)
        for start in range(0, len(rows), chunk):
            yield int(samples), rows[start : start + chunk]


def weighted(pool: Pool, weight_QM: Floats, most: int, subsets: int, seed: int) -> tuple[Expected, list[How]]:
    """The chance that a weighted vote of N = 1 to ``most`` samples is right, and that it can be scored.

    Every question must have ``most`` samples. The list says how each N was computed.
    """
    contribution = contributions(weight_QM)
    right, scorable = np.zeros((2, len(pool), most))
    how: list[How] = ["drawn"] * most
    moved, order = shuffled(pool, seed)
    added = np.take_along_axis(contribution, order, axis=1)
    methods = {int(samples): _methods(int(samples), most, subsets) for samples in np.unique(pool.size_Q)}
    for n in range(most):
        ways = {how_of[n] for how_of in methods.values()}
        how[n] = "drawn" if "drawn" in ways else "all" if "all" in ways else "closed"
    for samples, rows in parts(pool, subsets):
        here, weights = moved.rows(rows), added[rows]
        if "drawn" in methods[samples]:
            for n, standing in enumerate(running(here, weights, orders(samples, most, subsets, seed))):
                right[rows, n] = standing.right.mean(axis=1)
                scorable[rows, n] = standing.scorable.mean(axis=1)
        for n in range(most):
            if methods[samples][n] == "all":
                every = np.array(list(combinations(range(samples), n + 1)))
                *_, standing = running(here, weights, every)
                right[rows, n] = standing.right.mean(axis=1)
                scorable[rows, n] = standing.scorable.mean(axis=1)
    if pool.size_Q.max() <= LARGEST:
        closed = min(2, most)
        right[:, :closed], scorable[:, :closed] = highest(pool, contribution.astype(np.float64), closed)
    return (right, scorable), how


def _methods(samples: int, most: int, subsets: int) -> list[How]:
    closed = 2 if samples <= LARGEST else 0
    return [
        "closed" if n <= closed else "all" if math.comb(samples, n) <= max(ENUMERATED, subsets) else "drawn"
        for n in range(1, most + 1)
    ]
