"""Maps from a confidence to what it has meant: fitted to rows with verdicts, by scikit-learn.

    temperature   σ(logit(q) / T): one number, the order of confidences stays
    platt         σ(a logit(q) + b): two numbers
    isotonic      the best non-decreasing step function; needs more data than the others

Logits are of q clipped to [0.001, 0.999], so that "certain" is a number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

RECALIBRATIONS = ("temperature", "platt", "isotonic")

_CLIP = 1e-3
# As good as none; what little there is keeps separable data from running away.
_NO_PENALTY = 1e6


@dataclass(frozen=True)
class Recalibration:
    """A fitted map from confidences to chances, as a classifier over one feature."""

    chance: Callable[[NDArray[Any]], NDArray[np.float64]]

    def predict_proba(self, features_N1: NDArray[Any]) -> NDArray[np.float64]:
        """The chances of being wrong and of being right."""
        chance_N = self.chance(features_N1[:, 0])
        return np.column_stack([1 - chance_N, chance_N])


def fit_recalibration(method: str, confidence_N: NDArray[Any], correct_N: NDArray[Any]) -> Recalibration:
    """The map by one of the methods above."""
    if method == "isotonic":
        from sklearn.isotonic import IsotonicRegression

        steps = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(confidence_N, correct_N)
        return Recalibration(steps.predict)
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=_NO_PENALTY, fit_intercept=method == "platt")
    model.fit(_logit(confidence_N)[:, None], correct_N)
    slope, intercept = float(model.coef_[0, 0]), float(np.ravel(model.intercept_)[0])
    if method == "temperature":
        # A temperature is positive: it never reverses the order, however wrong the confidences are.
        slope = max(slope, 0.0)
    return Recalibration(lambda q_N: 1 / (1 + np.exp(-(slope * _logit(q_N) + intercept))))


def _logit(confidence_N: NDArray[Any]) -> NDArray[np.float64]:
    clipped_N = np.clip(confidence_N, _CLIP, 1 - _CLIP)
    return np.log(clipped_N / (1 - clipped_N))
