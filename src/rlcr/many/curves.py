"""Accuracy against the number of samples, for every way to choose among them, with bands over questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlcr.errors import RlcrError
from rlcr.many import exact
from rlcr.many.pool import CORRECT, UNSCORABLE, Floats, Pool
from rlcr.many.subsets import How, enough, weighted
from rlcr.metrics import Estimate

#: Way of choosing -> what it does. The oracle is what any way of choosing could reach at best.
METHODS: dict[str, str] = {
    "majority": "the most frequent answer",
    "max-confidence": "the answer of the most confident sample",
    "confidence-weighted": "the answer with the most confidence in sum",
    "softmax-weighted": "the same with weights exp(confidence / T), as in CISC",
    "max-likelihood": "the answer of the likeliest sample, by its length",
    "likelihood-weighted": "the answer with the most likelihood in sum",
    "pass@N": "oracle: any sample is right",
}
#: Compared with a plain majority, each at the largest N.
RIVALS = (
    "max-confidence",
    "confidence-weighted",
    "softmax-weighted",
    "max-likelihood",
    "likelihood-weighted",
)
ORACLE = "pass@N"
#: CISC's temperature; at 0.2 a confidence of 0.9 weighs seven times as much as one of 0.5.
TEMPERATURE = 0.2
#: Weights are read to nine decimals: at this temperature a confidence of 0 still weighs more than any error
#: of reading beside one of 1, below it hesitant samples would weigh nothing.
COLDEST = 0.06
LEVEL = 0.95


@dataclass(frozen=True)
class Curve:
    """Accuracy at N = 1, 2, …; ``how`` tells which of these are exact."""

    name: str
    estimates: Sequence[Estimate]
    how: Sequence[How]

    def to_dict(self) -> dict[str, Any]:
        """As JSON, in the shape that the report draws."""
        return {
            "name": self.name,
            "metric": "accuracy",
            "n": list(range(1, len(self.estimates) + 1)),
            "value": [e.value for e in self.estimates],
            "low": [e.low for e in self.estimates],
            "high": [e.high for e in self.estimates],
            "how": list(self.how),
        }


@dataclass(frozen=True)
class Scaling:
    """The curves of one task, and how the weighted ways differ from a plain majority at the largest N."""

    curves: Mapping[str, Curve]
    differences: Mapping[str, Estimate]
    most: int
    subsets: int
    counts: Mapping[str, int]
    unscorable: Mapping[str, float]
    """The share of draws at the largest N whose choice could not be scored, by way of choosing."""
    within_question: Estimate
    """The chance that of a right and a wrong sample of one question the right one is more confident."""

    def verdicts(self) -> list[str]:
        """What the differences say, a sentence each."""
        return [_verdict(name, difference, self.most) for name, difference in self.differences.items()]


def scaling(
    pool: Pool,
    *,
    most: int | None = None,
    subsets: int | None = None,
    seed: int = 0,
    temperature: float = TEMPERATURE,
    resamples: int = 1000,
) -> Scaling:
    """Every curve of a pool.

    ``most`` is the largest N; ``subsets`` how many are drawn where no form is closed.
    """
    every, most = len(pool), _check_most(pool, most)
    pool = pool.having(most)
    subsets = subsets or enough(len(pool))
    chosen = choices(pool, most, subsets, seed, temperature)
    draws = resampled(len(pool), resamples, seed)
    curves = {
        name: Curve(name, ratio_estimates(right, scorable, draws), how)
        for name, (right, scorable, how) in chosen.items()
    }
    differences = {
        name: _difference(chosen[name], chosen["majority"], draws)
        for name in RIVALS
        if name in chosen and most > 1
    }
    counts = pool.counts() | {"questions with fewer samples": every - len(pool)}
    lost = {name: float(1 - scorable[:, -1].mean()) for name, (_, scorable, _) in chosen.items()}
    return Scaling(curves, differences, most, subsets, counts, lost, discrimination(pool, draws))


Chosen = tuple[Floats, Floats, Sequence[How]]


def choices(pool: Pool, most: int, subsets: int, seed: int, temperature: float) -> dict[str, Chosen]:
    """For every way of choosing the chances, by question and N, that the choice is right and can be scored.

    Ways for which a pool has no confidence or likelihood are left out.
    """
    if pool.size_Q.max() > exact.LARGEST:
        raise RlcrError(f"{pool.size_Q.max():,} samples of one question: at most {exact.LARGEST:,} can vote")
    closed: list[How] = ["closed"] * most
    found: dict[str, Chosen] = {}
    if pool.size_Q.max() <= exact.LARGEST_MAJORITY:
        found["majority"] = (*exact.majority(pool, most), closed)
    else:
        (right, scorable), how = weighted(pool, np.ones(pool.group_QM.shape), most, subsets, seed)
        found["majority"] = right, scorable, how
    for kind, score in (("confidence", pool.confidence_QM), ("likelihood", pool.likelihood_QM)):
        if np.isnan(score).all():
            continue
        weights = {f"{kind}-weighted": score}
        if kind == "confidence":
            weights["softmax-weighted"] = softmax(score, temperature)
        found[f"max-{kind}"] = (*exact.highest(pool, score, most), closed)
        for name, weight in weights.items():
            (right, scorable), how = weighted(pool, weight, most, subsets, seed)
            found[name] = right, scorable, how
    found[ORACLE] = (*exact.pass_at(pool, most), closed)
    return {name: found[name] for name in METHODS if name in found}


def softmax(confidence_QM: Floats, temperature: float) -> Floats:
    """CISC's weights but for their common factor: exp((q - largest q) / T).

    A missing confidence weighs nothing.
    """
    if not temperature >= COLDEST:
        raise RlcrError(f"the softmax temperature must be at least {COLDEST:g}, not {temperature:g}")
    largest = np.max(np.where(np.isnan(confidence_QM), 0.0, confidence_QM), axis=1, keepdims=True)
    return np.exp((confidence_QM - largest) / temperature)


def _check_most(pool: Pool, most: int | None) -> int:
    longest = pool.most()
    if most is None:
        return longest
    if not 1 <= most <= longest:
        raise RlcrError(f"--most {most}, but nine in ten questions have at most {longest} samples")
    return most


# --- bands ------------------------------------------------------------------------------------------


def resampled(questions: int, resamples: int, seed: int) -> Floats:
    """How often each question is drawn in each bootstrap resample of the questions."""
    rng = np.random.default_rng([seed, questions, 1])
    return rng.multinomial(questions, np.full(questions, 1 / questions), size=resamples).astype(np.float64)


def ratio_estimates(above_QN: Floats, below_QN: Floats, draws_RQ: Floats) -> list[Estimate]:
    """sum of above / sum of below over questions, with its bootstrap interval, for each column."""
    with np.errstate(invalid="ignore", divide="ignore"):
        value = above_QN.sum(axis=0) / below_QN.sum(axis=0)
        drawn = (draws_RQ @ above_QN) / (draws_RQ @ below_QN)
    return [_estimate(value[n], drawn[:, n]) for n in range(len(value))]


def _difference(first: Chosen, second: Chosen, draws_RQ: Floats) -> Estimate:
    """First minus second at the largest N, on the same resamples."""
    with np.errstate(invalid="ignore", divide="ignore"):
        values, drawn = [], []
        for right, scorable, _ in (first, second):
            values.append(right[:, -1].sum() / scorable[:, -1].sum())
            drawn.append((draws_RQ @ right[:, -1]) / (draws_RQ @ scorable[:, -1]))
    return _estimate(values[0] - values[1], drawn[0] - drawn[1])


def _estimate(value: float, drawn_R: Floats) -> Estimate:
    if not np.isfinite(value):
        return Estimate(None, None, None, "nothing could be scored")
    known = drawn_R[np.isfinite(drawn_R)]
    if not len(known):
        return Estimate(float(value), None, None)
    low, high = np.percentile(known, [50 * (1 - LEVEL), 50 * (1 + LEVEL)])
    return Estimate(float(value), float(low), float(high))


def _verdict(name: str, difference: Estimate, most: int) -> str:
    if difference.value is None:
        return f"{name} against majority at N = {most}: nothing could be scored."
    told = f"{name} minus majority at N = {most}: {difference.value:+.3f}"
    if difference.low is None or difference.high is None:
        return f"{told}."
    side = "better" if difference.low > 0 else "worse" if difference.high < 0 else "no clear difference"
    return f"{told} [{difference.low:+.3f}, {difference.high:+.3f}], {side}."


def discrimination(pool: Pool, draws_RQ: Floats) -> Estimate:
    """Within-question discrimination: over pairs of a right and a wrong sample of one question, ties half.

    It is this, not calibration over all questions, that decides whether confidence helps a vote.
    """
    outcomes, q = pool.sample_outcome_QM, pool.confidence_QM
    stated = pool.real_QM & ~np.isnan(q)
    wins, pairs = np.zeros((2, len(pool), 1))
    for row in range(len(pool)):
        right = q[row, stated[row] & (outcomes[row] == CORRECT)]
        wrong = q[row, stated[row] & (outcomes[row] != CORRECT) & (outcomes[row] != UNSCORABLE)]
        pairs[row] = len(right) * len(wrong)
        if pairs[row]:
            ordered = np.sort(wrong)
            below = np.searchsorted(ordered, right, "left") + np.searchsorted(ordered, right, "right")
            wins[row] = below.sum() / 2
    if not pairs.any():
        return Estimate(None, None, None, "no question has both a right and a wrong sample")
    return ratio_estimates(wins, pairs, draws_RQ)[0]
