"""Figures for notebooks: the report's drawing, on axes of the caller's."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

import rlcr
from rlcr.errors import RlcrError
from rlcr.report.curves import rated_panel
from rlcr.report.shapes import Line

CORRECT, CONFIDENCE = [1, 0, 1, 1, 0, 1], [0.95, 0.35, 0.85, None, 0.75, 0.55]


def test_reliability_draws_what_the_report_draws(tmp_path: Path) -> None:
    mpl.use("agg")
    from matplotlib import pyplot

    _, given = pyplot.subplots()
    axes = rlcr.plot.reliability(CORRECT, CONFIDENCE, title="$x$ of mine", axes=given)
    assert axes is given
    rated = [(c, q) for c, q in zip(CORRECT, CONFIDENCE, strict=True) if q is not None]
    panel = rated_panel("", [c for c, _ in rated], [q for _, q in rated])
    (line,) = [layer for layer in panel.layers if isinstance(layer, Line) and layer.marks]
    (points,) = axes.collections[1:]
    assert np.allclose(points.get_offsets(), np.column_stack((line.x, line.y)))
    assert axes.get_title("left").startswith("$x$ of mine\nECE ")
    assert axes.get_xlabel() == panel.x.label
    axes.figure.savefig(tmp_path / "plot.png")
    own = rlcr.plot.reliability([True, False], [0.9, 0.2])
    assert own.figure is not given.figure
    pyplot.close("all")


def test_what_cannot_be_drawn() -> None:
    with pytest.raises(RlcrError, match="no answer states a confidence"):
        rlcr.plot.reliability([1, 0], [None, None])
    with pytest.raises(RlcrError, match="2 verdicts and 1 confidences"):
        rlcr.plot.reliability([1, 0], [0.5])
    with pytest.raises(RlcrError):
        rlcr.plot.reliability([1, 0], [0.5, 1.5])
