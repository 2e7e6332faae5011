"""The one bootstrap: how questions are drawn, and how an interval is read off the draws.

A resample draws as many questions as there are, with replacement. It is a row of whole numbers, how often
each question was drawn, so that any statistic made of sums over questions is a product with these weights.
An interval lies between percentiles of what the resamples give; those in which a statistic is undefined are
left out, and counted in a note.

Axes: R resamples, U units that are drawn, Q questions, N any number of statistics at once. Undefined is NaN
in here and None in an Estimate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlcr.metrics.inputs import Floats, Ints

LEVEL = 0.95
# Draws that differ by less than this are the same number, rounded differently.
_ALIKE = 1e-12
# Resamples are worked through in chunks of about this many weights, which bounds memory and stays in cache.
CHUNK_WEIGHTS = 1 << 17


@dataclass(frozen=True)
class Estimate:
    """A value and its interval. `value` is None where the metric is undefined; `note` says why."""

    value: float | None
    low: float | None
    high: float | None
    note: str = ""

    @property
    def half_width(self) -> float | None:
        """Half the width of the interval: (p97.5 - p2.5) / 2 at level 0.95, the paper's +- number."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    def to_dict(self, level: float = LEVEL) -> dict[str, Any]:
        """As JSON: None where undefined, never NaN."""
        interval = None if self.low is None else [self.low, self.high]
        note = {"note": self.note} if self.note else {}
        return {"value": self.value, f"ci{100 * level:g}": interval} | note


@dataclass(frozen=True)
class Difference(Estimate):
    """Second system minus first, with a two-sided bootstrap p-value of "no difference"."""

    p_value: float | None = None

    def to_dict(self, level: float = LEVEL) -> dict[str, Any]:
        """As JSON: None where undefined, never NaN."""
        return super().to_dict(level) | {"p_value": self.p_value}


@dataclass(frozen=True)
class Resampled:
    """A statistic, and what it comes to in each resample; NaN where it is undefined."""

    value: float
    draws_R: Floats

    @property
    def defined_R(self) -> Floats:
        """The draws of the resamples in which it is defined."""
        return self.draws_R[np.isfinite(self.draws_R)]

    @property
    def alike(self) -> bool:
        """Whether all resamples agree, so that they say nothing about the uncertainty."""
        defined_R = self.defined_R
        return len(defined_R) > 0 and bool(np.ptp(defined_R) < _ALIKE)

    def estimate(self, undefined: str = "nothing could be scored", level: float = LEVEL) -> Estimate:
        """The value with its percentile interval; `undefined` is the note of a value that is not defined.

        >>> Resampled(0.5, np.array([0.4, np.nan])).estimate()
        Estimate(value=0.5, low=0.4, high=0.4, note='undefined in 1 of 2 resamples, which are left out')
        """
        if not math.isfinite(self.value):
            return Estimate(None, None, None, undefined)
        defined_R = self.defined_R
        dropped = len(self.draws_R) - len(defined_R)
        note = (
            f"undefined in {dropped} of {len(self.draws_R)} resamples, which are left out" if dropped else ""
        )
        if not len(defined_R):
            return Estimate(float(self.value), None, None, note)
        low, high = np.quantile(defined_R, [(1 - level) / 2, (1 + level) / 2])
        return Estimate(float(self.value), float(low), float(high), note)

    def minus(
        self, other: Resampled, undefined: str = "nothing could be scored", level: float = LEVEL
    ) -> Difference:
        """This minus another statistic of the same resamples, so that what both share cancels."""
        return Resampled(self.value - other.value, self.draws_R - other.draws_R).difference(undefined, level)

    def difference(self, undefined: str = "nothing could be scored", level: float = LEVEL) -> Difference:
        """What is already a difference, with its p-value.

        That is twice the smaller share of resamples on either side of zero, with one added.
        """
        estimate, defined_R = self.estimate(undefined, level), self.defined_R
        p_value = None
        if estimate.low is not None:
            smaller = int(min((defined_R <= 0).sum(), (defined_R >= 0).sum()))
            p_value = min(1.0, 2 * (smaller + 1) / (len(defined_R) + 1))
        return Difference(estimate.value, estimate.low, estimate.high, estimate.note, p_value)


def unit_weights(copies_U: Ints, resamples: int, seed: int, at_once: int) -> Iterator[Ints]:
    """How often each unit is drawn, in chunks of resamples; unit u stands for `copies_U[u]` equal ones.

    The random numbers do not depend on the size of the chunks.
    """
    rng = np.random.default_rng(seed)
    units, total = len(copies_U), int(copies_U.sum())
    for start in range(0, resamples, at_once):
        size = min(at_once, resamples - start)
        if units < total:
            yield rng.multinomial(total, copies_U / total, size=size)
        else:
            drawn_RU = rng.integers(units, size=(size, units))
            yield np.stack([np.bincount(drawn_U, minlength=units) for drawn_U in drawn_RU])


def question_weights(questions: int, resamples: int, seed: int = 0) -> Floats:
    """How often each question is drawn in each resample, all at once (resamples x questions).

    >>> question_weights(5, 3).sum(axis=1).tolist()
    [5.0, 5.0, 5.0]
    """
    weights_RQ = np.empty((resamples, questions))
    chunk, done = max(1, CHUNK_WEIGHTS // max(1, questions)), 0
    for weights in unit_weights(np.ones(questions, np.int64), resamples, seed, chunk):
        weights_RQ[done : done + len(weights)] = weights
        done += len(weights)
    return weights_RQ


def ratios(above_QN: Floats, below_QN: Floats, weights_RQ: Floats) -> list[Resampled]:
    """Sum of `above` over questions / sum of `below`, for each column.

    A mean over questions is such a ratio with `below` all ones; a mean over samples has their numbers there.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        values_N = above_QN.sum(axis=0) / below_QN.sum(axis=0)
        draws_RN = (weights_RQ @ above_QN) / (weights_RQ @ below_QN)
    return [Resampled(float(value), draws_R) for value, draws_R in zip(values_N, draws_RN.T, strict=True)]


def ratio(above_Q: Floats, below_Q: Floats, weights_RQ: Floats) -> Resampled:
    """:func:`ratios` of one column.

    >>> ratio(np.array([1.0, 0.0]), np.array([2.0, 2.0]), np.array([[2.0, 0.0], [0.0, 2.0]])).draws_R.tolist()
    [0.5, 0.0]
    """
    return ratios(above_Q[:, None], below_Q[:, None], weights_RQ)[0]


def wilson(share: float, n: int) -> tuple[float, float]:
    """Wilson's 95% interval of a share of n: for shares of 0 or 1, where all resamples are alike.

    >>> [round(end, 3) for end in wilson(1.0, 1)], [round(end, 3) for end in wilson(0.5, 100)]
    ([0.207, 1.0], [0.404, 0.596])
    """
    z2 = 1.959964**2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = math.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    return max(0.0, middle - half), min(1.0, middle + half)
