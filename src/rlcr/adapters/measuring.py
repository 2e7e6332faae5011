"""Metrics of samples that another engine keeps: the same numbers as `rlcr metrics` and `rlcr score`."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from typing import NamedTuple

from rlcr.metrics.bootstrap import Estimate
from rlcr.metrics.measurement import GradedSamples

#: What engines report, in this order; rlcr has more.
REPORTED = ("accuracy", "auroc", "brier", "ece")


class Sample(NamedTuple):
    """One graded completion: its question, the verdict (None: unscorable), the confidence (None: none)."""

    question: Hashable
    correct: bool | None
    confidence: float | None


def measured(samples: Iterable[Sample], *, resamples: int = 1000) -> dict[str, Estimate]:
    """The reported metrics with their intervals, and the share of answers that state a confidence.

    Samples of one question are resampled together. Empty where nothing could be scored.
    """
    graded, codes = GradedSamples(), dict[Hashable, int]()
    scored = 0
    for question, correct, confidence in samples:
        graded.add(correct, confidence, question=codes.setdefault(question, len(codes)))
        scored += correct is not None
    if not scored:
        return {}
    metrics = graded.measure(resamples=resamples).overall.metrics
    return {name: metrics[name] for name in (*REPORTED, "coverage")}


def value_of(samples: Iterable[Sample], metric: str) -> float:
    """One metric, NaN where it is undefined: for engines that take nothing but a number."""
    found = measured(samples, resamples=0).get(metric)
    return math.nan if found is None or found.value is None else found.value
