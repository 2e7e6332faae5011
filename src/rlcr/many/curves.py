"""Accuracy against the number of samples, for every way to choose among them, with bands over questions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlcr.errors import RlcrError
from rlcr.many import exact
from rlcr.many.pool import UNSCORABLE, Floats, Pool
from rlcr.many.subsets import How, enough, weighted
from rlcr.metrics import Difference, Estimate
from rlcr.metrics.bootstrap import question_weights, ratio, ratios
from rlcr.metrics.within import NO_PAIRS, within_question

#: Way of choosing -> what it does. The oracle is what any way of choosing could reach at best.
WAYS_TO_CHOOSE: dict[str, str] = {
    "majority": "the most frequent answer",
    "max-confidence": "the answer of the most confident sample",
    "confidence-weighted": "the answer with the most confidence in sum",
    "softmax-weighted": "the same with weights exp(confidence / T), as in CISC",
    "max-likelihood": "the answer of the likeliest sample, by its length",
    "likelihood-weighted": "the answer with the most likelihood in sum",
    "pass@N": "oracle: any sample is right",
}
ORACLE = "pass@N"
#: Compared with a plain majority, each at the largest N.
RIVALS = tuple(name for name in WAYS_TO_CHOOSE if name not in ("majority", ORACLE))
#: CISC's temperature; at 0.2 a confidence of 0.9 weighs seven times as much as one of 0.5.
TEMPERATURE = 0.2
#: Weights are read to nine decimals: at this temperature a confidence of 0 still weighs more than any error
#: of reading beside one of 1, below it hesitant samples would weigh nothing.
COLDEST = 0.06


@dataclass(frozen=True)
class Curve:
    """Accuracy at N = 1, 2, …; ``how`` says which of these are exact."""

    name: str
    estimates: Sequence[Estimate]
    how: Sequence[How]

    def to_dict(self) -> dict[str, Any]:
        """As JSON, in the shape that the report draws."""
        sizes = range(1, len(self.estimates) + 1)
        return curve_to_dict(self.name, "accuracy", sizes, self.estimates, self.how)


def curve_to_dict(
    name: str, metric: str, n: Iterable[float], estimates: Sequence[Estimate], how: Iterable[str]
) -> dict[str, Any]:
    """A curve as JSON, in the shape that the report draws."""
    return {
        "name": name,
        "metric": metric,
        "n": list(n),
        "value": [e.value for e in estimates],
        "low": [e.low for e in estimates],
        "high": [e.high for e in estimates],
        "how": list(how),
    }


@dataclass(frozen=True)
class Scaling:
    """The curves of one task, and how the weighted ways differ from a plain majority at the largest N."""

    curves: Mapping[str, Curve]
    differences: Mapping[str, Difference]
    most: int
    subsets: int
    counts: Mapping[str, int]
    unscorable: Mapping[str, float]
    """The share of draws at the largest N whose choice could not be scored, by way of choosing."""
    within_question_by_answer: Estimate
    """The chance that of a sample with a right and one with a wrong answer the first is more confident."""

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
    weights_RQ = question_weights(len(pool), resamples, seed)
    curves = {
        name: Curve(name, [drawn.estimate() for drawn in ratios(right, scorable, weights_RQ)], how)
        for name, (right, scorable, how) in chosen.items()
    }
    last = {
        name: ratio(right[:, -1], scorable[:, -1], weights_RQ)
        for name, (right, scorable, _) in chosen.items()
    }
    differences = {name: last[name].minus(last["majority"]) for name in RIVALS if name in chosen and most > 1}
    counts = pool.counts() | {"questions with fewer samples": every - len(pool)}
    lost = {name: float(1 - scorable[:, -1].mean()) for name, (_, scorable, _) in chosen.items()}
    return Scaling(curves, differences, most, subsets, counts, lost, _within_question(pool, weights_RQ))


Chosen = tuple[Floats, Floats, Sequence[How]]


def choices(pool: Pool, most: int, subsets: int, seed: int, temperature: float) -> dict[str, Chosen]:
    """For every way of choosing the chances, by question and N, that the choice is right and can be scored.

    Ways for which a pool has no confidence or likelihood are left out.
    """
    if pool.size_Q.max() > exact.LARGEST:
        raise RlcrError(f"{pool.size_Q.max():,} samples of one question: at most {exact.LARGEST:,} can vote")
    closed: list[How] = ["closed"] * most
    chosen: dict[str, Chosen] = {}
    if pool.size_Q.max() <= exact.LARGEST_MAJORITY:
        chosen["majority"] = (*exact.majority(pool, most), closed)
    else:
        (right, scorable), how = weighted(pool, np.ones(pool.group_QM.shape), most, subsets, seed)
        chosen["majority"] = right, scorable, how
    for kind, score in (("confidence", pool.confidence_QM), ("likelihood", pool.likelihood_QM)):
        if np.isnan(score).all():
            continue
        weights = {f"{kind}-weighted": score}
        if kind == "confidence":
            weights["softmax-weighted"] = softmax(score, temperature)
        chosen[f"max-{kind}"] = (*exact.highest(pool, score, most), closed)
        for name, weight in weights.items():
            (right, scorable), how = weighted(pool, weight, most, subsets, seed)
            chosen[name] = right, scorable, how
    chosen[ORACLE] = (*exact.pass_at(pool, most), closed)
    return {name: chosen[name] for name in WAYS_TO_CHOOSE if name in chosen}


def softmax(confidence_QM: Floats, temperature: float) -> Floats:
    """CISC's weights without their common factor: exp((q - largest q) / T).

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


def _verdict(name: str, difference: Estimate, most: int) -> str:
    if difference.value is None:
        return f"{name} against majority at N = {most}: nothing could be scored."
    line = f"{name} minus majority at N = {most}: {difference.value:+.3f}"
    if difference.low is None or difference.high is None:
        return f"{line}."
    side = "better" if difference.low > 0 else "worse" if difference.high < 0 else "no clear difference"
    return f"{line} [{difference.low:+.3f}, {difference.high:+.3f}], {side}."


def _within_question(pool: Pool, weights_RQ: Floats) -> Estimate:
    """Each sample by the verdict of its answer, which is what a vote is scored by.

    It is this, not calibration over all questions, that decides whether confidence helps a vote.
    """
    outcome_QM, confidence_QM = pool.sample_outcome_QM, pool.confidence_QM
    kept_QM = pool.real_QM & ~np.isnan(confidence_QM) & (outcome_QM != UNSCORABLE)
    rows = outcome_QM[kept_QM], confidence_QM[kept_QM], np.nonzero(kept_QM)[0]
    return within_question(*rows, weights_RQ).estimate(NO_PAIRS)
