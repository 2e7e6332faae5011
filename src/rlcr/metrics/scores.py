"""One number (or one curve) from right/wrong and confidence: the kernel with all weights one.

All take `correct` (0, 1, True, False) and `confidence` (0 to 1), one per row, and raise RlcrError on anything
else. In the formulas c is correct, q is confidence, n the number of rows. An arrow says which way is better.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rlcr.metrics.inputs import Floats, Ints, check_confidence, check_correct, check_inside
from rlcr.metrics.kernel import METRICS, NLL_EPS, Binning, SortedRows, Weighted, check_binning, log_losses


def accuracy(correct: ArrayLike) -> float:
    """↑ Share of right answers: mean(c).

    >>> accuracy([1, 0, 1, 1])
    0.75
    """
    return float(check_correct(correct).mean())


def auroc(correct: ArrayLike, confidence: ArrayLike) -> float | None:
    """↑ Chance that a right answer is more confident than a wrong one; ties count half. None with one class.

    >>> auroc([1, 0, 1, 0], [0.9, 0.4, 0.6, 0.6])
    0.875
    >>> auroc([1, 1], [0.9, 0.4]) is None
    True
    """
    return _number(METRICS["auroc"], _weigh(correct, confidence))


def brier(correct: ArrayLike, confidence: ArrayLike) -> float:
    """↓ Mean squared error of confidence: mean((q - c)^2).

    >>> brier([1, 0], [0.5, 0.5])
    0.25
    """
    return _defined(METRICS["brier"], _weigh(correct, confidence))


def expected_reward(correct: ArrayLike, confidence: ArrayLike) -> float:
    """↑ Mean of c - (q - c)^2, which is accuracy - Brier: what RLCR with Brier's score pays on average.

    >>> expected_reward([1, 0], [1.0, 0.0]), expected_reward([0, 0], [0.0, 0.0])
    (0.5, 0.0)
    """
    return _defined(METRICS["expected_reward"], _weigh(correct, confidence))


def brier_skill(correct: ArrayLike, confidence: ArrayLike) -> float | None:
    """↑ Gain over always saying the base rate a = mean(c): 1 - Brier / (a (1 - a)). None with one class.

    Zero is no better than that constant, negative is worse.

    >>> brier_skill([1, 0], [0.5, 0.5])
    0.0
    """
    return _number(METRICS["brier_skill"], _weigh(correct, confidence))


def ece(correct: ArrayLike, confidence: ArrayLike, *, binning: Binning = "paper", bins: int = 10) -> float:
    """↓ Expected calibration error: sum over bins of (rows in bin / n) |mean q - mean c|.

    The default reproduces the published numbers. `binning` is one of

    - "paper": float edges np.linspace(0, 1, bins + 1), closed on the left, 1.0 in the last bin. 0.3, 0.6 and
      0.7 fall in the bin below.
    - "decimal": the same edges as decimals: 0.3, 0.6 and 0.7 start their bins. Confidence is read to six
      decimals.
    - "equal-mass": about n / bins rows in each. Equal confidences stay together, in the bin of their middle.
    - "distinct": every distinct confidence is a bin (`bins` is not used).

    >>> round(ece([1, 0, 1], [0.65, 0.7, 0.65]), 6)
    0.0
    >>> round(ece([1, 0, 1], [0.65, 0.7, 0.65], binning="decimal"), 6)
    0.466667
    """
    return _defined(METRICS["ece"], _weigh(correct, confidence, binning, bins))


def overconfidence(
    correct: ArrayLike, confidence: ArrayLike, *, binning: Binning = "paper", bins: int = 10
) -> float:
    """↓ The part of ECE from bins with mean q above mean c.

    Over + under = ECE, over - under = confidence gap.

    >>> overconfidence([1, 0], [1.0, 0.75])
    0.375
    """
    return _defined(METRICS["overconfidence"], _weigh(correct, confidence, binning, bins))


def underconfidence(
    correct: ArrayLike, confidence: ArrayLike, *, binning: Binning = "paper", bins: int = 10
) -> float:
    """↓ The part of ECE from bins with mean q below mean c.

    Over + under = ECE, over - under = confidence gap.

    >>> underconfidence([1, 1], [1.0, 0.75])
    0.125
    """
    return _defined(METRICS["underconfidence"], _weigh(correct, confidence, binning, bins))


def confidence_gap(correct: ArrayLike, confidence: ArrayLike) -> float:
    """→ 0. Signed: mean(q) - mean(c). Positive is overconfident on the whole, negative underconfident.

    >>> confidence_gap([1, 0], [1.0, 0.5])
    0.25
    """
    return _defined(METRICS["confidence_gap"], _weigh(correct, confidence))


def mean_confidence(confidence: ArrayLike) -> float:
    """→ accuracy. Mean confidence: mean(q). Neither direction is better by itself.

    >>> mean_confidence([1.0, 0.5])
    0.75
    """
    return float(check_confidence(confidence).mean())


def smooth_ece(correct: ArrayLike, confidence: ArrayLike) -> float:
    """↓ Smooth ECE (Błasiok and Nakkiran, 2023): calibration error without bins.

    Residuals q - c, smoothed by a Gaussian of width s reflected at 0 and 1, integrated in absolute value,
    are g(s); the result is where g(s) = s. relplot.smECE agrees to 2e-3, unless confidences lie
    exactly on 0 or 1, to which it gives half their weight.

    >>> round(smooth_ece([1, 0, 1, 0], [0.5, 0.5, 0.5, 0.5]), 6)
    0.0
    >>> round(smooth_ece([0, 0, 1, 0], [0.75, 0.75, 0.75, 0.75]), 6)
    0.5
    """
    return _defined(METRICS["smooth_ece"], _weigh(correct, confidence))


def nll(correct: ArrayLike, confidence: ArrayLike, *, eps: float = NLL_EPS) -> float:
    """↓ Negative log-likelihood: -mean(c log q + (1 - c) log(1 - q)), q clipped to [eps, 1 - eps].

    The clip decides what "surely, and wrong" costs: 6.9 at the default of 0.001.

    >>> round(nll([1, 0], [0.5, 0.5]), 4)
    0.6931
    """
    check_inside(eps, 0, 0.5, "eps")
    weighted = _weigh(correct, confidence)
    return float(weighted.mean_loss(*log_losses(weighted.scale.values_V, eps))[0])


def aurc(correct: ArrayLike, confidence: ArrayLike) -> float:
    """↓ Area under the risk-coverage curve: mean over k of the error rate of the k most confident rows.

    Rows of equal confidence count in expectation over their orders, so row order does not matter.

    >>> aurc([1, 0], [0.9, 0.1])
    0.25
    >>> aurc([1, 0], [0.5, 0.5])
    0.5
    """
    return _defined(METRICS["aurc"], _weigh(correct, confidence))


@dataclass(frozen=True)
class Murphy:
    """Brier = reliability - resolution + uncertainty + within_bin."""

    reliability: float  # ↓ how far bins are from their own accuracy: sum w_b (mean q - mean c)^2
    resolution: float  # ↑ how far bins are from each other: sum w_b (mean c in bin - a)^2
    uncertainty: float  # a (1 - a), a property of the questions and the answers, not of the confidence
    within_bin: float  # spread of q inside bins less twice its covariance with c; 0 with binning="distinct"


def murphy(
    correct: ArrayLike, confidence: ArrayLike, *, binning: Binning = "paper", bins: int = 10
) -> Murphy:
    """Murphy's decomposition of the Brier score over bins (those of `ece`).

    With binning="distinct" it is the textbook one, without remainder; sensible when confidences repeat. With
    all confidences different that would give each row a bin, so bins are the default.

    >>> murphy([1, 0, 1, 1], [0.5, 0.5, 1.0, 1.0])
    Murphy(reliability=0.0, resolution=0.0625, uncertainty=0.1875, within_bin=0.0)
    """
    weighted = _weigh(correct, confidence, binning, bins)
    parts = ("reliability", "resolution", "uncertainty", "within_bin")
    return Murphy(**{part: _defined(METRICS[part], weighted) for part in parts})


@dataclass(frozen=True)
class ReliabilityCurve:
    """One entry per bin that has rows, in order of confidence."""

    lower: Floats  # edges; for "equal-mass" and "distinct" the least and greatest confidence in the bin
    upper: Floats
    count: Ints
    confidence: Floats  # mean in the bin
    accuracy: Floats


def reliability_curve(
    correct: ArrayLike, confidence: ArrayLike, *, binning: Binning = "paper", bins: int = 10
) -> ReliabilityCurve:
    """What a reliability diagram shows: accuracy against mean confidence, bin by bin (those of `ece`).

    >>> curve = reliability_curve([1, 0, 1], [0.92, 0.55, 0.98])
    >>> curve.count.tolist(), curve.confidence.round(2).tolist(), curve.accuracy.tolist()
    ([1, 2], [0.55, 0.95], [0.0, 1.0])
    """
    weighted = _weigh(correct, confidence, binning, bins)
    binned = weighted.chosen_bins
    used_B = binned.both_RB[0] > 0
    count_B = binned.both_RB[0, used_B]
    if binning in ("paper", "decimal"):
        edges = np.arange(bins + 1) / bins
        lower_B, upper_B = edges[:-1][used_B], edges[1:][used_B]
    else:
        last_B = np.searchsorted(weighted.cum_both_RC[0, 1:], np.cumsum(count_B))
        values_V = weighted.scale.values_V
        lower_B, upper_B = values_V[np.append(0, last_B[:-1] + 1)], values_V[last_B]
    return ReliabilityCurve(
        lower=lower_B,
        upper=upper_B,
        count=count_B,
        confidence=binned.confidence_RB[0, used_B] / count_B,
        accuracy=binned.right_RB[0, used_B] / count_B,
    )


@dataclass(frozen=True)
class RiskCoverage:
    """One entry per distinct confidence, from the highest down."""

    threshold: Floats  # answer when at least this confident
    coverage: Floats  # ↑ share of rows answered
    risk: Floats  # ↓ error rate among them


def risk_coverage(correct: ArrayLike, confidence: ArrayLike) -> RiskCoverage:
    """Error rate among the answers that are kept, as the confidence that is asked for falls.

    >>> curve = risk_coverage([1, 0, 1, 0], [0.9, 0.5, 0.9, 0.1])
    >>> curve.coverage.tolist(), curve.risk.tolist()
    ([0.5, 0.75, 1.0], [0.0, 0.3333333333333333, 0.5])
    """
    weighted = _weigh(correct, confidence)
    kept_V = np.cumsum(weighted.both_RV[0, ::-1])
    right_V = np.cumsum(weighted.right_RV[0, ::-1])
    threshold_V = weighted.scale.values_V[::-1].copy()
    return RiskCoverage(threshold_V, kept_V / kept_V[-1], (kept_V - right_V) / kept_V)


def _weigh(correct: ArrayLike, confidence: ArrayLike, binning: str = "paper", bins: int = 10) -> Weighted:
    check_binning(binning, bins)
    correct_N = check_correct(correct)
    rows = SortedRows.sort(correct_N, check_confidence(confidence, len(correct_N)), None, binning, bins)
    return rows.weigh(np.ones((1, len(correct_N)), np.int64))


def _number(metric: Callable[[Weighted], Floats], weighted: Weighted) -> float | None:
    value = float(metric(weighted)[0])
    return None if np.isnan(value) else value


def _defined(metric: Callable[[Weighted], Floats], weighted: Weighted) -> float:
    return float(metric(weighted)[0])
