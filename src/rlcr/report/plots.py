"""Figures as files: PNG, SVG and PDF. Matplotlib is imported when one is drawn, never before."""

from __future__ import annotations

import math
import textwrap
import warnings
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError
from rlcr.files import new_file
from rlcr.report.shapes import PALETTE, Band, Bars, Figure, Layer, Line, Panel, Stems

KINDS = (".png", ".svg", ".pdf")
# Sharp at the width of a page of text, and light enough for a README.
_DPI = 110
_NEUTRAL, _GRID, _INK = "#8A8A8A", "#E4E4E4", "#333333"
_MARKERS = ("o", "s", "^", "D", "X", "o")
SETTINGS: Any = {
    "text.parse_math": False,  # names come from data: a dollar sign in one is not a formula
    "font.size": 9,
    "axes.edgecolor": _NEUTRAL,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "svg.hashsalt": "rlcr",
    "svg.fonttype": "none",
}


def write_figure(figure: Figure, folder: Path) -> list[Path]:
    """Write a figure as PNG, SVG and PDF. One that is missing has no files."""
    return [] if figure.missing else save(figure, [folder / f"{figure.name}{kind}" for kind in KINDS])


def check_name(path: Path) -> None:
    """Raise unless a figure can be written under this name: before the work, not after it."""
    if path.suffix.lower() not in KINDS or path.is_dir():
        raise RlcrError(f"{path}: cannot write the figure: its name must end in {', '.join(KINDS)}")


def save(figure: Figure, paths: list[Path]) -> list[Path]:
    """Draw a figure into files; the ending of a name says how. What was there before stays if that fails."""
    import matplotlib

    for path in paths:
        check_name(path)
    with matplotlib.rc_context(SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        drawn = draw(figure)
        for path in paths:
            with new_file(path) as out:
                drawn.savefig(out, dpi=_DPI, format=path.suffix[1:].lower())
    return paths


def draw(figure: Figure) -> Any:
    """The figure as matplotlib's."""
    from matplotlib.figure import Figure as Drawing

    drawn = [panel for panel in figure.panels if not panel.missing]
    # Flat curves become a line of words, as the page folds them; where all are flat, they are drawn.
    panels = [panel for panel in drawn if not panel.flat] or drawn
    flat = [panel for panel in drawn if panel not in panels]
    across = min(3, len(panels))
    down = math.ceil(len(panels) / across)
    height = 3.9 if panels[0].square else 2.9
    legend_rows = math.ceil(len(figure.legend) / 3)
    drawing = Drawing(
        figsize=(max(4.6, 3.6 * across), height * down + 0.55 + 0.25 * legend_rows), layout="constrained"
    )
    drawing.suptitle(_clean(figure.title), fontsize=11, fontweight="bold")
    cells = list(drawing.subplots(down, across, squeeze=False).flat)
    for axes, panel in zip(cells, panels, strict=False):
        draw_panel(axes, panel)
    for axes in cells[len(panels) :]:
        axes.set_axis_off()
    above = ""
    if flat:
        said = "; ".join(f"{panel.title} ({panel.flat})" for panel in flat)
        lines = textwrap.wrap(_printable(f"Flat: {said}"), 50 * across)
        above = "\n".join(lines)
    if figure.legend:
        _legend(drawing, figure, above)
    return drawing


def draw_panel(axes: Any, panel: Panel) -> None:
    """Draw a panel into the axes of a figure."""
    for layer in panel.layers:
        _layer(axes, layer)
    if panel.x.log:
        axes.set_xscale("log")
    axes.set_xlim(panel.x.low, panel.x.high)
    axes.set_ylim(panel.y.low, panel.y.high)
    axes.set_xticks([value for value, _ in panel.x.ticks], [_clean(name) for _, name in panel.x.ticks])
    axes.set_xticks([], minor=True)
    axes.set_yticks([value for value, _ in panel.y.ticks], [_clean(name) for _, name in panel.y.ticks])
    if not panel.x.grid and sum(len(name) for _, name in panel.x.ticks) > 30:
        axes.tick_params(axis="x", rotation=25)
        for label in axes.get_xticklabels():
            label.set_horizontalalignment("right")
    axes.set_xlabel(_clean(panel.x.label))
    axes.set_ylabel(_clean(panel.y.label))
    axes.set_axisbelow(True)
    axes.grid(color=_GRID, linewidth=0.7, axis="both" if panel.x.grid else "y")
    axes.tick_params(length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    if panel.square:
        axes.set_aspect("equal")
        # Marks at the very ends are drawn whole.
        axes.set_xlim(-0.02, 1.02)
        axes.set_ylim(-0.02, 1.02)
    heading = "\n".join(_clean(text) for text in (panel.title, panel.subtitle) if text)
    if heading:
        axes.set_title(heading, fontsize=9, loc="left")


def _colour(series: int | None) -> str:
    return _NEUTRAL if series is None else PALETTE[series % len(PALETTE)][0]


def _marker(series: int | None) -> str:
    return "o" if series is None else _MARKERS[series % len(_MARKERS)]


def _layer(axes: Any, layer: Layer) -> None:
    if isinstance(layer, Line):
        _line(axes, layer)
    elif isinstance(layer, Bars):
        _bars(axes, layer)
    elif isinstance(layer, Band):
        axes.fill_between(
            layer.x, layer.low, layer.high, color=_colour(layer.series), alpha=0.15, linewidth=0
        )
    elif isinstance(layer, Stems):
        axes.vlines(layer.x, layer.start, layer.end, color=_colour(layer.series), linewidth=2, alpha=0.35)


def _line(axes: Any, line: Line) -> None:
    colour = _colour(line.series)
    if line.joined:
        width = 1.0 if line.series is None else 1.8
        axes.plot(line.x, line.y, color=colour, linewidth=width, linestyle="--" if line.dashed else "-")
    if line.marks:
        sizes: Any = (
            [24 + 200 * share for share in line.sizes] if line.sizes else 9 if not line.joined else 22
        )
        alpha = 0.75 if line.sizes or not line.joined else 1.0
        axes.scatter(
            line.x,
            line.y,
            s=sizes,
            color=colour,
            marker=_marker(line.series),
            zorder=3,
            alpha=alpha,
            linewidths=0,
        )


def _bars(axes: Any, bars: Bars) -> None:
    widths = [right - left for left, right in zip(bars.left, bars.right, strict=True)]
    style: dict[str, Any] = (
        {"color": _NEUTRAL, "alpha": 0.22} if bars.faint else {"color": _colour(bars.series)}
    )
    axes.bar(bars.left, bars.height, width=widths, align="edge", edgecolor="white", **style)
    if len(bars.low):
        middles = [(left + right) / 2 for left, right in zip(bars.left, bars.right, strict=True)]
        axes.vlines(middles, bars.low, bars.high, color=_INK, linewidth=1.2)


def _legend(drawing: Any, figure: Figure, above: str = "") -> None:
    """The legend below the panels, and ``above`` it a text."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=_colour(series), marker=_marker(series), markersize=5, label=_clean(name))
        for series, name in figure.legend
    ]
    drawing.legend(
        handles=handles,
        loc="outside lower center",
        ncols=min(3, len(handles)),
        frameon=False,
        title=above or None,
        title_fontsize=8,
    )


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


def _clean(text: str) -> str:
    """Without characters that no font can draw, and short enough for a label."""
    text = _printable(text)
    return text if len(text) <= 60 else text[:59] + "…"
