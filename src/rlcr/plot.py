"""Figures for notebooks: the drawings of the report, as axes of matplotlib that you can go on with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from rlcr.errors import RlcrError
from rlcr.metrics.inputs import check_correct
from rlcr.report import plots
from rlcr.report.curves import rated_panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def reliability(
    correct: ArrayLike,
    confidence: ArrayLike | Sequence[float | None],
    *,
    title: str = "",
    colour: int = 0,
    axes: Axes | None = None,
) -> Axes:
    """A reliability diagram: accuracy against stated confidence, over the histogram of confidences.

    The bins are those of ECE, the drawing is that of the report. Answers that state no confidence (None, NaN)
    are left out. It is drawn into ``axes``, or into those of a new figure; ``colour`` is the number of the
    run, as in the report.

    >>> reliability([1, 0, 1], [0.9, 0.4, None], title="three answers").get_title("left").splitlines()[0]
    'three answers'
    """
    import matplotlib
    from matplotlib import pyplot

    stated = np.array([np.nan if value is None else value for value in confidence], np.float64)  # pyright: ignore[reportGeneralTypeIssues,reportOptionalIterable]
    right = check_correct(correct)
    if len(right) != len(stated):
        raise RlcrError(f"{len(right):,} verdicts and {len(stated):,} confidences: there must be as many")
    rated = ~np.isnan(stated)
    if not rated.any():
        raise RlcrError("no answer states a confidence, so there is no reliability diagram to draw")
    panel = rated_panel(title, right[rated], stated[rated], colour)
    with matplotlib.rc_context(plots.SETTINGS):
        if axes is None:
            axes = pyplot.subplots(figsize=(4.2, 4.4), layout="constrained")[1]
        plots.draw_panel(axes, panel)
    return axes
