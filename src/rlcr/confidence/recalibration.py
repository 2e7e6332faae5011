"""Recalibration: another column, mapped to the accuracy that it has meant.

The maps are those of :mod:`rlcr.metrics.recalibration`, learned across folds of the questions or from another
run: no row is calibrated by itself. For answers that are still to come (`rlcr ask`) the map learned from all
rows is stored with the column.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rlcr.confidence.learning import Learned, learn
from rlcr.confidence.rows import Rows
from rlcr.errors import RlcrError, nearest
from rlcr.metrics.recalibration import RECALIBRATIONS, fit_recalibration

#: Under which name the map is in the file that says how a column was made.
MAP = "map"


def recalibrated(rows: Rows, column: str, method: str, train: Rows | None) -> Learned:
    """A column of the run, recalibrated by one of RECALIBRATIONS."""
    if method not in RECALIBRATIONS:
        raise RlcrError(f"unknown recalibration {method!r}: {nearest(method, list(RECALIBRATIONS))}")

    def features(some: Rows) -> NDArray[np.float64]:
        values = some.column(column)
        if np.isnan(values).all():
            raise RlcrError(f"{some.run.folder}: column {column} gives no confidence to recalibrate")
        return values[:, None]

    learned = learn(features, lambda q_N1, c_N, _: fit_recalibration(method, q_N1[:, 0], c_N), rows, train)
    source = train or rows
    values = source.column(column)
    known = ~np.isnan(values) & source.scored
    fitted = fit_recalibration(method, values[known], source.verdict[known])
    return replace(learned, details=learned.details | {MAP: fitted.to_dict()})
