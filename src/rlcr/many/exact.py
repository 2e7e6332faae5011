"""Closed forms: what a vote of N samples is worth, over all subsets of size N of a pool, without drawing any.

Each function gives two arrays of shape (questions, N = 1 to ``most``): the chance that the chosen answer is
correct, and the chance that it can be scored. All questions must have at least ``most`` samples. M is the
number of samples of a question, C(a, b) the binomial coefficient.
"""

from __future__ import annotations

import numpy as np

from rlcr.many.pool import CORRECT, UNSCORABLE, Floats, Ints, Pool

#: Larger pools have binomials that a float cannot hold.
LARGEST = 1000
#: Beyond this many samples majorities are drawn: the sum over counts grows with the cube.
LARGEST_MAJORITY = 128
_CHUNK_FLOATS = 1 << 21

Expected = tuple[Floats, Floats]


def pass_at(pool: Pool, most: int) -> Expected:
    """At least one of N samples is right (oracle): 1 - C(M - c, N) / C(M, N), with c right samples.

    A draw without a right sample but with an unscorable one is unscorable.
    """
    outcomes = np.where(pool.real_QM, pool.sample_outcome_QM, 0)
    right, lost = (outcomes == CORRECT).sum(axis=1), (outcomes == UNSCORABLE).sum(axis=1)
    none_right = _ratio(pool.size_Q - right, pool.size_Q, most)
    none_known = _ratio(pool.size_Q - right - lost, pool.size_Q, most)
    return 1 - none_right, 1 - (none_right - none_known)


def highest(pool: Pool, score_QM: Floats, most: int) -> Expected:
    """The sample with the highest score is chosen; tied samples have the same chance.

    With b samples below a level of t tied ones, the level is the highest of N with the chance (C(b + t, N)
    - C(b, N)) / C(M, N), and each of its samples is chosen with a t-th of that. A missing score is below
    every other, a sample without an answer below that.
    """
    level = np.where(np.isnan(score_QM), -1.0, score_QM)
    level = np.where(pool.group_QM < 0, -2.0, level)
    real, outcomes = pool.real_QM, pool.sample_outcome_QM
    right, scorable = np.zeros((2, len(pool), most))
    chunk = max(1, _CHUNK_FLOATS // (level.shape[1] * max(most, level.shape[1])))
    binomial = _binomials(int(pool.size_Q.max()), most)
    for start in range(0, len(pool), chunk):
        rows = slice(start, start + chunk)
        here, both = level[rows], real[rows, :, None] & real[rows, None, :]
        below = (both & (here[:, None, :] < here[:, :, None])).sum(axis=2)
        tied = (both & (here[:, None, :] == here[:, :, None])).sum(axis=2)
        chosen = (binomial[below + tied] - binomial[below]) / np.maximum(tied, 1)[:, :, None]
        chosen /= binomial[pool.size_Q[rows]][:, None, :]
        right[rows] = np.einsum("qmn,qm->qn", chosen, (real & (outcomes == CORRECT))[rows].astype(float))
        scorable[rows] = np.einsum(
            "qmn,qm->qn", chosen, (real & (outcomes != UNSCORABLE))[rows].astype(float)
        )
    return right, scorable


def majority(pool: Pool, most: int) -> Expected:
    r"""The most frequent answer is chosen; tied answers have the same chance.

    The counts of the answers in a subset are multivariate hypergeometric. Answer a, held by n_a samples,
    has k votes and is among the leaders with t others where every other answer has at most k votes and t of
    them exactly k; it is then chosen with the chance 1/(1 + t), which is the integral of y^t from 0 to 1:

        P(a, N) = sum over k of C(n_a, k) / C(M, N) times the coefficient of x^(N - k) in
                  int_0^1 prod over h != a of (sum over j < k of C(n_h, j) x^j + y C(n_h, k) x^k) dy

    Answers with fewer than k samples, and samples without an answer, give (1 + x)^(their number) together.
    The integrand is a polynomial in y, so that Gauss and Legendre's points make the integral exact.
    """
    size_QG = _group_sizes(pool)
    right, scorable = np.zeros((2, len(pool), most))
    answered = size_QG.sum(axis=1)
    none_answers = _ratio(pool.size_Q - answered, pool.size_Q, most)
    scorable += 1 - none_answers * (pool.blank_Q == UNSCORABLE)[:, None]
    for outcome, target, sign in ((CORRECT, right, 1), (UNSCORABLE, scorable, -1)):
        question, answer = np.nonzero((pool.outcome_QG == outcome) & (size_QG > 0))
        if not len(question):
            continue
        others = size_QG[question].copy()
        own = others[np.arange(len(question)), answer]
        others[np.arange(len(question)), answer] = 0
        others = -np.sort(-others, axis=1)
        chance = np.zeros((len(question), most))
        # Rows that are alike in size are worked on together, so that little is computed for nothing.
        order = np.lexsort((others[:, 0], own)) if others.shape[1] else np.arange(len(question))
        for some in np.array_split(order, max(1, len(order) // 256)):
            chance[some] = _leading(own[some], others[some], pool.size_Q[question[some]], most)
        np.add.at(target, question, sign * chance)
    return right, scorable


def _leading(own_R: Ints, others_RG: Ints, size_R: Ints, most: int) -> Floats:
    """The chance that a vote chooses an answer with ``own_R`` samples among ``others_RG``, sorted falling."""
    probability = np.zeros((len(own_R), most))
    binomial = _binomials(int(size_R.max()), most)
    for k in range(1, min(most, int(own_R.max())) + 1):
        rows = np.flatnonzero(own_R >= k)
        rivals = (others_RG[rows] >= k).sum(axis=1)
        rows, rivals = rows[np.argsort(-rivals, kind="stable")], np.sort(rivals)[::-1]
        degree = most - k
        rest = size_R[rows] - own_R[rows] - np.where(others_RG[rows] >= k, others_RG[rows], 0).sum(axis=1)
        core = _rivals(others_RG[rows], rivals, k, degree, binomial)
        ways = binomial[own_R[rows], k - 1]
        # Times (1 + x)^rest: row by row the same shift, weighted by a binomial of its own.
        filled = np.zeros((len(rows), degree + 1))
        padded = np.concatenate([np.ones((len(rows), 1)), binomial[rest]], axis=1)
        for shift in range(degree + 1):
            filled[:, shift:] += padded[:, shift, None] * core[:, : degree + 1 - shift]
        probability[rows, k - 1 :] += ways[:, None] * filled
    return probability / binomial[size_R]


def _rivals(others_RG: Ints, rivals_R: Ints, k: int, degree: int, binomial: Floats) -> Floats:
    """The coefficients of the integral over the answers with at least k samples; rows by falling number."""
    most_tied = min(int(rivals_R[0]), degree // k) if len(rivals_R) else 0
    y, weight = np.polynomial.legendre.leggauss(most_tied // 2 + 1)
    y, weight = (y + 1) / 2, weight / 2
    core = np.zeros((len(rivals_R), len(y), degree + 1))
    core[:, :, 0] = 1
    for place in range(int(rivals_R[0]) if len(rivals_R) else 0):
        active = int(np.searchsorted(-rivals_R, -place, side="left"))
        size = others_RG[:active, place]
        old = core[:active].copy()
        reach = min(degree, place * k)
        for j in range(1, min(k, degree) + 1):
            factor = binomial[size, j - 1][:, None, None]
            if j == k:
                factor = factor * y[None, :, None]
            stop = min(degree, reach + j)
            core[:active, :, j : stop + 1] += factor * old[:, :, : stop + 1 - j]
    return np.einsum("rpd,p->rd", core, weight)


def _group_sizes(pool: Pool) -> Ints:
    sizes = np.zeros((len(pool), pool.outcome_QG.shape[1]), np.int64)
    row, column = np.nonzero(pool.group_QM >= 0)
    np.add.at(sizes, (row, pool.group_QM[row, column]), 1)
    return sizes


def _binomials(largest: int, most: int) -> Floats:
    """C(a, N) for a = 0 to ``largest`` and N = 1 to ``most``."""
    table = np.zeros((largest + 1, most + 1))
    table[:, 0] = 1
    for row in range(1, largest + 1):
        table[row, 1:] = table[row - 1, 1:] + table[row - 1, :-1]
    return table[:, 1:]


def _ratio(part_Q: Ints, whole_Q: Ints, most: int) -> Floats:
    """C(part, N) / C(whole, N): the chance that all N samples come from a part."""
    binomial = _binomials(int(whole_Q.max()), most)
    return binomial[part_Q] / binomial[whole_Q]
