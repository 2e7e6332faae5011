"""Maps from a confidence to what it has meant: fitted to rows with verdicts, by scikit-learn.

    temperature   σ(logit(q) / T): one number, the order of confidences stays
    platt         σ(a logit(q) + b): two numbers
    isotonic      the best non-decreasing step function; needs more data than the others

Logits are of q clipped to [0.001, 0.999], so that "certain" is a number.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    """A fitted map from confidences to chances: a classifier over one feature, and a few numbers in a file.

    ``numbers`` are ``slope`` and ``intercept`` of a logit; of ``isotonic`` the corners of its steps, ``q``
    and ``chance``.
    """

    method: str
    numbers: Mapping[str, Any]

    def chance(self, confidence_N: NDArray[Any]) -> NDArray[np.float64]:
        """The chances of being right."""
        if self.method == "isotonic":
            return np.interp(confidence_N, self.numbers["q"], self.numbers["chance"])
        logit_N = self.numbers["slope"] * _logit(confidence_N) + self.numbers["intercept"]
        return 1 / (1 + np.exp(-logit_N))

    def predict_proba(self, features_N1: NDArray[Any]) -> NDArray[np.float64]:
        """The chances of being wrong and of being right."""
        chance_N = self.chance(features_N1[:, 0])
        return np.column_stack([1 - chance_N, chance_N])

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {"method": self.method, **self.numbers}

    @classmethod
    def from_dict(cls, stored: object) -> Recalibration:
        """What :meth:`to_dict` wrote; ValueError for anything else.

        >>> stored = {"method": "platt", "slope": 1.0, "intercept": 0.0}
        >>> Recalibration.from_dict(stored).chance(np.array([0.25]))
        array([0.25])
        """
        method = stored.get("method") if isinstance(stored, Mapping) else None
        if not isinstance(stored, Mapping) or method not in RECALIBRATIONS:
            raise ValueError(f"expected a map with a method, one of {', '.join(RECALIBRATIONS)}")
        names = ("q", "chance") if method == "isotonic" else ("slope", "intercept")
        try:
            numbers = {name: np.asarray(stored[name], np.float64) for name in names}
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"expected {' and '.join(names)} of a map by {method}") from None
        first, second = (values.ravel() for values in numbers.values())
        if not (len(first) == len(second) > 0 and np.isfinite([first, second]).all()):
            raise ValueError(f"the numbers of the map by {method} are not all there")
        return cls(method, {name: values.tolist() for name, values in numbers.items()})


def fit_recalibration(method: str, confidence_N: NDArray[Any], correct_N: NDArray[Any]) -> Recalibration:
    """The map by one of the methods above."""
    if method == "isotonic":
        from sklearn.isotonic import IsotonicRegression

        steps = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(confidence_N, correct_N)
        corners = {"q": steps.X_thresholds_.tolist(), "chance": steps.y_thresholds_.tolist()}
        return Recalibration(method, corners)
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=_NO_PENALTY, fit_intercept=method == "platt")
    model.fit(_logit(confidence_N)[:, None], correct_N)
    slope, intercept = float(model.coef_[0, 0]), float(np.ravel(model.intercept_)[0])
    if method == "temperature":
        # A temperature is positive: it never reverses the order, however wrong the confidences are.
        slope = max(slope, 0.0)
    return Recalibration(method, {"slope": slope, "intercept": intercept})


def _logit(confidence_N: NDArray[Any]) -> NDArray[np.float64]:
    clipped_N = np.clip(confidence_N, _CLIP, 1 - _CLIP)
    return np.log(clipped_N / (1 - clipped_N))
