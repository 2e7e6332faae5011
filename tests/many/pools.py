"""Pools made by code, and the obvious way to vote: every subset, one after the other."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
from typing import Literal

import numpy as np

from rlcr.many.pool import Pool, make_pool

Kind = Literal["calibrated", "uninformative", "anti", "constant"]


def simulated(
    kind: Kind,
    *,
    questions: int = 1500,
    samples: int = 32,
    seed: int = 0,
    easy: float = 2.0,
    hard: float = 1.2,
) -> Pool:
    """Questions of known accuracy: each sample is right with a chance of its own, which calibrated confidence states.

    The chances of a question scatter around its accuracy, Beta(easy, hard) over questions; wrong answers are of
    several kinds, the first the likeliest.
    """
    rng = np.random.default_rng(seed)
    accuracy = np.clip(rng.beta(easy, hard, questions), 0.02, 0.98)[:, None]
    chance = rng.beta(accuracy * 4, (1 - accuracy) * 4, (questions, samples))
    right = rng.random((questions, samples)) < chance
    wrong = 1 + np.minimum(rng.geometric(0.35, (questions, samples)) - 1, 8)
    # Models that cannot tell say high numbers. (Noise from 0 to 1 would cost a vote a quarter of its samples.)
    noise = 0.5 + 0.5 * rng.random((questions, samples))
    confidence = {
        "calibrated": chance, "uninformative": noise, "anti": 1 - chance, "constant": np.full_like(chance, 0.7)
    }[kind]  # fmt: skip
    return make_pool(
        [f"q{n}" for n in range(questions)],
        np.where(right, 0, wrong).tolist(),
        right.astype(int).tolist(),
        np.round(confidence, 2).tolist(),
        rng.random((questions, samples)).tolist(),
    )


def ragged(seed: int, *, most: int = 8, questions: int = 4) -> Pool:
    """A small pool of everything that can go wrong: no answer, no confidence, unscorable, fewer samples."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(most - 2, most + 1, questions)
    groups = [rng.integers(-1, 4, size).tolist() for size in sizes]
    outcome = [
        [int(rng.choice([1, 0, 0, -1])) if group >= 0 else int(rng.choice([0, -1])) for group in row]
        for row in groups
    ]
    scores = [
        [[float(rng.choice([0, 0.1, 0.2, 0.3, 0.5, 1, np.nan])) for _ in row] for row in groups]
        for _ in range(2)
    ]
    return make_pool([f"q{n}" for n in range(questions)], groups, outcome, *scores)


def brute_force(
    pool: Pool, method: str, n: int, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The chance of right and of scorable, by question, over every subset of size n: one loop in the other."""
    right, scorable = np.zeros((2, len(pool)))
    for q, size in enumerate(pool.size_Q.tolist()):
        subsets = list(combinations(range(size), n))
        for subset in subsets:
            leaders = _leaders(pool, method, q, subset, weights)
            outcomes = [int(pool.outcome_QG[q, g]) if g >= 0 else int(pool.blank_Q[q]) for g in leaders]
            right[q] += sum(outcome == 1 for outcome in outcomes) / len(outcomes) / len(subsets)
            scorable[q] += sum(outcome != -1 for outcome in outcomes) / len(outcomes) / len(subsets)
    return right, scorable


def _leaders(
    pool: Pool, method: str, q: int, subset: tuple[int, ...], weights: np.ndarray | None
) -> list[int]:
    groups = pool.group_QM[q].tolist()
    answered = [i for i in subset if groups[i] >= 0]
    if not answered:
        return [-1]
    if method == "pass":
        outcomes = {int(pool.outcome_QG[q, groups[i]]): groups[i] for i in answered}
        blank = [-1] if len(answered) < len(subset) else []
        lost = int(pool.blank_Q[q]) == -1 and bool(blank)
        if 1 in outcomes:
            return [outcomes[1]]
        return [outcomes[-1]] if -1 in outcomes else blank if lost else [groups[answered[0]]]
    score = [0.0] * len(groups) if weights is None else weights[q].tolist()
    if method == "highest":
        stated = {i: -1.0 if np.isnan(score[i]) else score[i] for i in answered}
        best = max(stated.values())
        return [groups[i] for i in answered if stated[i] == best]
    totals: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])
    for i in answered:
        totals[groups[i]][0] += 0 if np.isnan(score[i]) else round(score[i] * 10**9)
        totals[groups[i]][1] += 1
    best = max(totals.values())
    return [group for group, total in totals.items() if total == best]
