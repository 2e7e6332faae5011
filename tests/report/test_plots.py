"""Figures as files."""

from rlcr.report.plots import draw
from rlcr.report.shapes import Figure, Line, Panel, share_axis


def test_no_axis_is_left_empty():
    panel = Panel("one", share_axis("x"), share_axis("y"), (Line([0.1, 0.9], [0.2, 0.8], 0, "line"),))
    for count in (1, 2, 3, 4, 5, 6):
        drawn = draw(Figure("f", "Title", "", (panel,) * count))
        assert sum(axes.axison for axes in drawn.axes) == count


def test_flat_curves_are_said_not_drawn():
    moving = Panel("moving", share_axis("x"), share_axis("y"), (Line([0.1, 0.9], [0.2, 0.8], 0, "line"),))
    flat = Panel(
        "still", share_axis("x"), share_axis("y"), (Line([0.1, 0.9], [0.5, 0.5], 0, "line"),), flat="0.5"
    )
    drawn = draw(Figure("f", "Title", "", (moving, flat), legend=((0, "line"),)))
    assert [axes.get_title(loc="left") for axes in drawn.axes] == ["moving"]
    assert drawn.legends[0].get_title().get_text() == "Flat: still (0.5)"
    only = draw(Figure("f", "Title", "", (flat,), legend=((0, "line"),)))
    assert [axes.get_title(loc="left") for axes in only.axes] == ["still"]
