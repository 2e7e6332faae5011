"""Recalibration: another column, mapped to the accuracy that it has meant.

The maps are those of :mod:`rlcr.metrics.recalibration`, learned across folds of the questions or from another
run: no row is calibrated by itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlcr.confidence.learning import Learned, learn
from rlcr.confidence.rows import Rows
from rlcr.errors import RlcrError, nearest
from rlcr.metrics.recalibration import RECALIBRATIONS, fit_recalibration


def recalibrated(rows: Rows, column: str, method: str, train: Rows | None) -> Learned:
    """A column of the run, recalibrated by one of RECALIBRATIONS."""
    if method not in RECALIBRATIONS:
        raise RlcrError(f"unknown recalibration {method!r}: {nearest(method, list(RECALIBRATIONS))}")

    def features(some: Rows) -> NDArray[np.float64]:
        values = some.column(column)
        if np.isnan(values).all():
            raise RlcrError(f"{some.run.folder}: column {column} gives no confidence to recalibrate")
        return values[:, None]

    return learn(features, lambda q_N1, c_N, _: fit_recalibration(method, q_N1[:, 0], c_N), rows, train)
