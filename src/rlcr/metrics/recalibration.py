"""Maps from a confidence to what it has meant: fitted to rows with verdicts, by scikit-learn.

    temperature   σ(logit(q) / T): one number, the order of confidences stays
    platt         σ(a logit(q) + b): two numbers
    isotonic      the best non-decreasing step function; needs more data than the others

Logits are of q clipped to [0.001, 0.999], so that "certain" is a number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

RECALIBRATIONS = ("temperature", "platt", "isotonic")

_CLIP = 1e-3
# As good as none; what little there is keeps separable data from running away.
_NO_PENALTY = 1e6


def fit_recalibration(method: str, confidence_N: NDArray[Any], correct_N: NDArray[Any]) -> Any:
    """The map by one of the methods above, as a classifier over one feature."""
    return (_Isotonic if method == "isotonic" else _Logistic)(method, confidence_N, correct_N)


def _logit(confidence_N: NDArray[Any]) -> NDArray[np.float64]:
    clipped_N = np.clip(confidence_N, _CLIP, 1 - _CLIP)
    return np.log(clipped_N / (1 - clipped_N))


class _Logistic:
    def __init__(self, method: str, confidence_N: NDArray[Any], correct_N: NDArray[Any]) -> None:
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(C=_NO_PENALTY, fit_intercept=method == "platt")
        model.fit(_logit(confidence_N)[:, None], correct_N)
        self.slope, self.intercept = float(model.coef_[0, 0]), float(np.ravel(model.intercept_)[0])
        if method == "temperature":
            # A temperature is positive: it never turns the order round, however wrong the confidences are.
            self.slope = max(self.slope, 0.0)

    def predict_proba(self, features_N1: NDArray[Any]) -> NDArray[np.float64]:
        chance_N = 1 / (1 + np.exp(-(self.slope * _logit(features_N1[:, 0]) + self.intercept)))
        return np.column_stack([1 - chance_N, chance_N])


class _Isotonic:
    def __init__(self, _: str, confidence_N: NDArray[Any], correct_N: NDArray[Any]) -> None:
        from sklearn.isotonic import IsotonicRegression

        self._steps = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(confidence_N, correct_N)

    def predict_proba(self, features_N1: NDArray[Any]) -> NDArray[np.float64]:
        chance_N = self._steps.predict(features_N1[:, 0])
        return np.column_stack([1 - chance_N, chance_N])
