"""Figures as files."""

from rlcr.report.plots import draw
from rlcr.report.shapes import Figure, Line, Panel, share_axis


def test_no_axis_is_left_empty():
    panel = Panel("one", share_axis("x"), share_axis("y"), (Line([0.1, 0.9], [0.2, 0.8], 0, "line"),))
    for count in (1, 2, 3, 4, 5, 6):
        drawn = draw(Figure("f", "Title", "", (panel,) * count))
        assert sum(axes.axison for axes in drawn.axes) == count
