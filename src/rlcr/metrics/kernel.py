"""The one way every metric is computed: on weighted rows, for many weightings at once.

Rows are sorted by confidence and merged into distinct values once. A resample is then only a row of integer
weights, and every metric a few passes over cumulative sums: a bin, whatever its edges, is a difference of two
of their entries. A plain metric is the same code with all weights one.

Axes: R resamples, E rows in sorted order, U units that are drawn (questions, or rows), V distinct
confidences, C = V + 1 positions between them, B bins. Undefined is NaN in here and None outside.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, get_args

import numpy as np

from rlcr.errors import RlcrError, nearest
from rlcr.metrics import smooth
from rlcr.metrics.inputs import Floats, Ints, check_at_least

Binning = Literal["paper", "decimal", "equal-mass", "distinct"]
BINNINGS: tuple[str, ...] = get_args(Binning)

# The negative log-likelihood of "surely" is infinite when wrong, so confidence is clipped to [EPS, 1 - EPS].
# The same clip makes the log scoring rule usable as a reward.
NLL_EPS = 1e-3


def check_binning(binning: str, bins: int) -> None:
    """Raise on an unknown binning or on no bins."""
    if binning not in BINNINGS:
        raise RlcrError(f"unknown binning {binning!r}: {nearest(str(binning), list(BINNINGS))}")
    check_at_least(bins, 1, "bins")


def fixed_bins(values_V: Floats, binning: str, bins: int) -> Ints:
    """The bin of each confidence for the binnings that do not depend on weights.

    "paper": edges np.linspace(0, 1, bins + 1), each bin closed on the left, 1.0 in the last one. The float
    edge near 0.3 is 0.30000000000000004, so 0.3 lies below it; likewise 0.6 and 0.7.

    "decimal": a confidence is read to six decimals, as a whole number of millionths, and its bin is found in
    whole numbers: 0.3 starts its bin, also when it arrives as 1 - 0.7 or as a 32-bit float.

    >>> fixed_bins(np.array([0, 0.3, 0.6, 0.7, 1.0]), "paper", 10).tolist()
    [0, 2, 5, 6, 9]
    >>> fixed_bins(np.array([0, 0.3, 0.6, 0.7, 1.0]), "decimal", 10).tolist()
    [0, 3, 6, 7, 9]
    """
    if binning == "distinct":
        return np.arange(len(values_V))
    if binning == "paper":
        bins_V = np.digitize(values_V, np.linspace(0, 1, bins + 1)) - 1
    else:
        bins_V = np.rint(values_V * 1_000_000).astype(np.int64) * bins // 1_000_000
    return np.minimum(bins_V, bins - 1)


def log_losses(values_V: Floats, eps: float) -> tuple[Floats, Floats]:
    """Negative log-likelihood of each confidence if right and if wrong, clipped to [eps, 1 - eps]."""
    clipped_V = np.clip(values_V, eps, 1 - eps)
    return -np.log(clipped_V), -np.log1p(-clipped_V)


@dataclass(frozen=True)
class Scale:
    """Distinct confidences, ascending, and what depends on nothing else: found once for all resamples."""

    values_V: Floats
    binning: str
    bins: int

    @cached_property
    def cuts_B(self) -> Ints:
        """Where the bins of the chosen binning begin, and the end. Not for "equal-mass"."""
        return self._cuts(self.binning)

    @cached_property
    def decimal_cuts_B(self) -> Ints:
        """Where the decimal bins begin, and the end."""
        return self._cuts("decimal")

    @cached_property
    def node_cuts_S(self) -> Ints:
        """Where the values nearest to each node of the smooth ECE begin, and the end."""
        return np.searchsorted(np.rint(self.values_V * smooth.NODES), np.arange(smooth.NODES + 2))

    @cached_property
    def squared_losses(self) -> tuple[Floats, Floats]:
        """Brier score of each confidence if right and if wrong."""
        return (1 - self.values_V) ** 2, self.values_V**2

    @cached_property
    def log_losses(self) -> tuple[Floats, Floats]:
        """Negative log-likelihood of each confidence if right and if wrong."""
        return log_losses(self.values_V, NLL_EPS)

    def _cuts(self, binning: str) -> Ints:
        count = len(self.values_V) if binning == "distinct" else self.bins
        return np.searchsorted(fixed_bins(self.values_V, binning, self.bins), np.arange(count + 1))


@dataclass(frozen=True)
class SortedRows:
    """One system's rows, sorted by confidence; rows without a confidence (NaN) come last."""

    scale: Scale
    starts_V: Ints  # where each distinct confidence begins among the sorted rows
    correct_E: Ints
    unit_E: Ints | None  # which unit each sorted row belongs to; None: row e is unit e
    rated: int  # rows with a confidence

    @classmethod
    def sort(
        cls, correct_E: Ints, confidence_E: Floats, unit_E: Ints | None, binning: str, bins: int
    ) -> "SortedRows":
        """Sort once, for all resamples. Without units, the sorted rows are the units."""
        order_E = np.lexsort((correct_E, confidence_E))  # the second key keeps results free of row order
        correct_E, confidence_E = correct_E[order_E], confidence_E[order_E]
        rated = len(confidence_E) - int(np.isnan(confidence_E).sum())
        is_new_E = np.diff(confidence_E[:rated], prepend=-1.0) > 0
        starts_V = np.flatnonzero(is_new_E)
        unit_E = None if unit_E is None else unit_E[order_E]
        return cls(Scale(confidence_E[starts_V], binning, bins), starts_V, correct_E, unit_E, rated)

    def weigh(self, units_RU: Ints) -> "Weighted":
        """Give every row its unit's weight and merge rows of equal confidence."""
        weights_RE = units_RU if self.unit_E is None else np.take(units_RU, self.unit_E, axis=1)
        correct_RE = weights_RE * self.correct_E
        rated = slice(0, self.rated)
        both_RV, right_RV = weights_RE[:, rated], correct_RE[:, rated]
        if len(self.starts_V) < self.rated:
            both_RV = np.add.reduceat(both_RV, self.starts_V, axis=1)
            right_RV = np.add.reduceat(right_RV, self.starts_V, axis=1)
        everything_R, everything_right_R = weights_RE.sum(axis=1), correct_RE.sum(axis=1)
        return Weighted(self.scale, both_RV, right_RV, everything_R, everything_right_R)


@dataclass(frozen=True)
class Bins:
    """Weight, summed confidence and right weight of every bin. Empty bins stay, with weight 0."""

    both_RB: Ints
    confidence_RB: Floats
    right_RB: Ints

    @property
    def gap_RB(self) -> Floats:
        """Summed confidence minus right weight: positive where the bin is overconfident."""
        return self.confidence_RB - self.right_RB


@dataclass(frozen=True)
class Weighted:
    """Distinct confidences and, per resample, the weight at each: what every metric is a function of."""

    scale: Scale
    both_RV: Ints  # right and wrong
    right_RV: Ints
    everything_R: Ints  # also the rows without a confidence
    everything_right_R: Ints

    # Counts are summed as integers, several times faster than floats, and multiplied as floats, for numpy
    # converts slowly when it meets both in one expression.

    @cached_property
    def wrong_RV(self) -> Ints:
        """Wrong weight at each confidence."""
        return self.both_RV - self.right_RV

    @cached_property
    def cum_both_RC(self) -> Ints:
        """Weight below each position."""
        return _cumulative(self.both_RV)

    @cached_property
    def cum_wrong_RC(self) -> Ints:
        """Wrong weight below each position."""
        return _cumulative(self.wrong_RV)

    @cached_property
    def cum_confidence_RC(self) -> Floats:
        """Summed confidence below each position."""
        return _cumulative(self.float_both_RV * self.scale.values_V)

    @cached_property
    def float_both_RV(self) -> Floats:
        """`both_RV`, to multiply with."""
        return self.both_RV.astype(np.float64)

    @cached_property
    def float_wrong_RV(self) -> Floats:
        """`wrong_RV`, to multiply with."""
        return self.wrong_RV.astype(np.float64)

    @cached_property
    def total_R(self) -> Floats:
        """Weight of rows with a confidence; NaN when there is none, which makes every metric NaN."""
        return _nan_if_zero(self.cum_both_RC[:, -1])

    @cached_property
    def wrong_R(self) -> Ints:
        """Wrong weight, of rows with a confidence."""
        return self.cum_wrong_RC[:, -1]

    @cached_property
    def right_R(self) -> Ints:
        """Right weight, of rows with a confidence."""
        return self.cum_both_RC[:, -1] - self.wrong_R

    @cached_property
    def spread_R(self) -> Floats:
        """Variance of correctness, a (1 - a): Murphy's uncertainty."""
        return (self.right_R / self.total_R) * (self.wrong_R / self.total_R)

    @cached_property
    def brier_R(self) -> Floats:
        """Mean squared residual: used by three metrics."""
        return self.mean_loss(*self.scale.squared_losses)

    def mean_loss(self, if_right_V: Floats, if_wrong_V: Floats) -> Floats:
        """Mean of a loss that depends on the confidence and on being right."""
        # einsum, not @: products this small are slower on a busy machine when BLAS spreads them over threads.
        if_right_R = np.einsum("rv,v->r", self.float_both_RV, if_right_V)
        return (
            if_right_R + np.einsum("rv,v->r", self.float_wrong_RV, if_wrong_V - if_right_V)
        ) / self.total_R

    @cached_property
    def chosen_bins(self) -> Bins:
        """Bins of the chosen binning."""
        return self.between(
            self._equal_mass_cuts_RB() if self.scale.binning == "equal-mass" else self.scale.cuts_B
        )

    def between(self, cuts: Ints) -> Bins:
        """Bins from cut to cut; the cuts are the same for all resamples (B) or one row for each (R x B)."""
        both_RB, wrong_RB = _differences(self.cum_both_RC, cuts), _differences(self.cum_wrong_RC, cuts)
        return Bins(both_RB, _differences(self.cum_confidence_RC, cuts), both_RB - wrong_RB)

    def _equal_mass_cuts_RB(self) -> Ints:
        """Where bins of equal weight begin. A value goes, whole, to the bin in which its middle row falls."""
        middles_RV = self.cum_both_RC[:, 1:] + self.cum_both_RC[:, :-1]  # twice the rank of the middle
        steps_B = np.arange(self.scale.bins + 1)
        cuts = [
            np.searchsorted(middle_V * self.scale.bins, 2 * cum_C[-1] * steps_B)
            for middle_V, cum_C in zip(middles_RV, self.cum_both_RC, strict=True)
        ]
        cuts_RB = np.array(cuts, dtype=np.int64)
        cuts_RB[:, 0], cuts_RB[:, -1] = 0, len(self.scale.values_V)
        return cuts_RB


def _accuracy(w: Weighted) -> Floats:
    return w.everything_right_R / w.everything_R


def _auroc(w: Weighted) -> Floats:
    # Each right answer beats the wrong weight below its value and half of that at its value.
    beaten_RV = w.cum_wrong_RC[:, 1:] + w.cum_wrong_RC[:, :-1]
    pairs_R = _nan_if_zero(2 * w.right_R * w.wrong_R)
    return np.einsum("rv,rv->r", w.right_RV, beaten_RV) / pairs_R


def _brier(w: Weighted) -> Floats:
    return w.brier_R


def _expected_reward(w: Weighted) -> Floats:
    return w.right_R / w.total_R - w.brier_R


def _brier_skill(w: Weighted) -> Floats:
    return 1 - w.brier_R / _nan_if_zero(w.spread_R)


def _ece(w: Weighted) -> Floats:
    return np.abs(w.chosen_bins.gap_RB).sum(axis=1) / w.total_R


def _ece_decimal(w: Weighted) -> Floats:
    return np.abs(w.between(w.scale.decimal_cuts_B).gap_RB).sum(axis=1) / w.total_R


def _smooth_ece(w: Weighted) -> Floats:
    at_nodes = w.between(w.scale.node_cuts_S)
    undefined_R = np.isnan(w.total_R)
    residuals_RS = at_nodes.gap_RB / np.where(undefined_R, 1, w.total_R)[:, None]
    return np.where(undefined_R, np.nan, smooth.smooth_ece(residuals_RS))


def _nll(w: Weighted) -> Floats:
    return w.mean_loss(*w.scale.log_losses)


def _aurc(w: Weighted) -> Floats:
    # Rows are kept from the most confident down. With `above` rows kept, `errors` of them wrong, the next
    # value adds t rows, of which the share s is wrong, in an unknown order; the expected risk after k rows is
    # (errors + s (k - above)) / k. Summed over those k, with H the harmonic numbers:
    # s t + (errors - s above) (H[above + t] - H[above]).
    above_RC = w.cum_both_RC[:, -1:] - w.cum_both_RC
    harmonic_RC = np.take(_harmonic(1 << int(above_RC.max()).bit_length()), above_RC)
    errors_RV = w.cum_wrong_RC[:, -1:] - w.cum_wrong_RC[:, 1:]
    wrong_share_RV = w.float_wrong_RV / np.maximum(w.float_both_RV, 1)
    offsets_RV = errors_RV.astype(np.float64) - wrong_share_RV * above_RC[:, 1:].astype(np.float64)
    steps_RV = harmonic_RC[:, :-1] - harmonic_RC[:, 1:]
    return (w.wrong_R + np.einsum("rv,rv->r", offsets_RV, steps_RV)) / w.total_R


def _mean_confidence(w: Weighted) -> Floats:
    return w.cum_confidence_RC[:, -1] / w.total_R


def _confidence_gap(w: Weighted) -> Floats:
    return (w.cum_confidence_RC[:, -1] - w.right_R) / w.total_R


def _overconfidence(w: Weighted) -> Floats:
    return np.maximum(w.chosen_bins.gap_RB, 0).sum(axis=1) / w.total_R


def _underconfidence(w: Weighted) -> Floats:
    return np.maximum(-w.chosen_bins.gap_RB, 0).sum(axis=1) / w.total_R


def _reliability(w: Weighted) -> Floats:
    bins = w.chosen_bins
    return (bins.gap_RB**2 / np.maximum(bins.both_RB, 1)).sum(axis=1) / w.total_R


def _resolution(w: Weighted) -> Floats:
    bins = w.chosen_bins
    surplus_RB = bins.right_RB - bins.both_RB * (w.right_R / w.total_R)[:, None]
    return (surplus_RB**2 / np.maximum(bins.both_RB, 1)).sum(axis=1) / w.total_R


def _uncertainty(w: Weighted) -> Floats:
    return w.spread_R


def _within_bin(w: Weighted) -> Floats:
    return w.brier_R - _reliability(w) + _resolution(w) - w.spread_R


def _coverage(w: Weighted) -> Floats:
    return w.cum_both_RC[:, -1] / w.everything_R


# Every number of a summary, in the order in which it is shown.
METRICS: Mapping[str, Callable[[Weighted], Floats]] = {
    "accuracy": _accuracy,
    "auroc": _auroc,
    "brier": _brier,
    "ece": _ece,
    "ece_decimal": _ece_decimal,
    "smooth_ece": _smooth_ece,
    "expected_reward": _expected_reward,
    "brier_skill": _brier_skill,
    "reliability": _reliability,
    "resolution": _resolution,
    "uncertainty": _uncertainty,
    "within_bin": _within_bin,
    "nll": _nll,
    "aurc": _aurc,
    "mean_confidence": _mean_confidence,
    "confidence_gap": _confidence_gap,
    "overconfidence": _overconfidence,
    "underconfidence": _underconfidence,
    "coverage": _coverage,
}


def _cumulative(values_RV: np.ndarray) -> np.ndarray:
    sums_RC = np.zeros((len(values_RV), values_RV.shape[1] + 1), values_RV.dtype)
    np.cumsum(values_RV, axis=1, out=sums_RC[:, 1:])
    return sums_RC


def _differences(sums_RC: np.ndarray, cuts: Ints) -> np.ndarray:
    at_cuts = np.take(sums_RC, cuts, axis=1) if cuts.ndim == 1 else np.take_along_axis(sums_RC, cuts, axis=1)
    return np.diff(at_cuts, axis=1)


def _nan_if_zero(values_R: np.ndarray) -> Floats:
    return np.where(values_R == 0, np.nan, values_R)


@lru_cache(maxsize=1)
def _harmonic(terms: int) -> Floats:
    """0, 1, 1 + 1/2, ...; kept, because every chunk of resamples asks for it again."""
    return np.concatenate([[0.0], np.cumsum(1 / np.arange(1, terms + 1))])


#: Metrics of all rows; every other is of those that state a confidence.
OF_ALL_ROWS = ("accuracy", "coverage")
