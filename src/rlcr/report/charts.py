"""Figures as SVG for the page: small, themed by the page's style sheet, every mark with its values.

Colours are classes (``s0`` … ``s5``, ``neutral``), so that light, dark and print are a matter of style. A
mark carries its text in ``data-tip``; the page's script shows it on hover, on touch and by the arrow keys.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from rlcr.report.shapes import MARKERS, PALETTE, Axis, Band, Bars, Figure, Layer, Line, Panel, Stems, tip_of

_WIDTH, _HEIGHT, _SQUARE = 380.0, 270.0, 380.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 54.0, 14.0, 12.0, 46.0
# A small panel has no names at its axes and every other tick: its figure says what they are.
_SMALL_WIDTH, _SMALL_HEIGHT, _SMALL_LEFT, _SMALL_RIGHT, _SMALL_BOTTOM = 230.0, 170.0, 27.0, 8.0, 22.0


class _Frame:
    """From values to places in the picture."""

    def __init__(self, panel: Panel, small: bool) -> None:
        self.x_axis, self.y_axis, self.small = panel.x, panel.y, small
        if small:
            self.width, self.left, self.bottom = _SMALL_WIDTH, _SMALL_LEFT, _SMALL_BOTTOM
            self.right, self.height = self.width - _SMALL_RIGHT, _SMALL_HEIGHT
            if panel.square:
                self.height = self.right - self.left + _TOP + self.bottom
            else:
                self.left = 10.0 + 6.4 * max((len(name) for _, name in panel.y.ticks), default=0)
            self.low = self.height - self.bottom
            return
        self.width = _WIDTH
        self.bottom = _BOTTOM if panel.x.grid else _name_room(panel.x)
        self.height = _SQUARE if panel.square else _HEIGHT + (self.bottom - _BOTTOM)
        self.right, self.low = _WIDTH - _RIGHT, self.height - self.bottom
        # Long numbers at the axis push it to the right, so that they do not run into its name.
        self.left = max(_LEFT, 26.0 + 7.7 * max((len(name) for _, name in panel.y.ticks), default=0))

    def x(self, value: float) -> float:
        return self.left + self.x_axis.place(value) * (self.right - self.left)

    def y(self, value: float) -> float:
        return self.low - self.y_axis.place(value) * (self.low - _TOP)


def _name_room(axis: Axis) -> float:
    """Names at the axis are slanted where they would run into each other."""
    if not _slanted(axis):
        return _BOTTOM
    return min(120.0, 34.0 + 4.6 * max(len(_short(name)) for _, name in axis.ticks))


def _slanted(axis: Axis) -> bool:
    room = (_WIDTH - _LEFT - _RIGHT) / max(1, len(axis.ticks))
    return any(len(_short(name)) * 6.4 > room for _, name in axis.ticks)


def _short(name: str, most: int = 22) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def colour_class(series: int | None) -> str:
    """The class of a series' colour."""
    return "neutral" if series is None else f"s{series % len(PALETTE)}"


def panel_svg(panel: Panel, figure: Figure, *, small: bool = False) -> str:
    """One panel as an SVG element."""
    frame = _Frame(panel, small)
    name = " – ".join(part for part in (figure.title, panel.title, panel.subtitle) if part)
    described = escape(
        f"{name}. {panel.y.label} against {panel.x.label}. The numbers are in the table below."
    )
    body = "".join(
        [*_axes(panel, frame), *(piece for layer in panel.layers for piece in _draw(layer, panel, frame))]
    )
    return (
        f'<svg class="chart" viewBox="0 0 {frame.width:g} {frame.height:g}" role="img" tabindex="0"'
        f' aria-label="{described}">{body}</svg>'
    )


def swatch(series: int | None) -> str:
    """A mark for the legend."""
    shape = _mark(8, 8, 4.2, series, "")
    return f'<svg class="swatch" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">{shape}</svg>'


def _axes(panel: Panel, frame: _Frame) -> Iterator[str]:
    left, right, low = frame.left, frame.right, frame.low
    slant = not panel.x.grid and _slanted(panel.x)
    x_named, y_named = (_fewer(axis.ticks) if frame.small else axis.ticks for axis in (panel.x, panel.y))
    for value, label in panel.y.ticks:
        y = frame.y(value)
        yield f'<line class="grid" x1="{left:g}" y1="{y:.1f}" x2="{right:g}" y2="{y:.1f}"/>'
        if (value, label) in y_named:
            place = f'x="{left - 8:g}" y="{y + 4:.1f}" text-anchor="end"'
            yield f'<text class="tick" {place}>{escape(label)}</text>'
    for value, label in panel.x.ticks:
        x = frame.x(value)
        text = escape(_short(label))
        if panel.x.grid:
            yield f'<line class="grid" x1="{x:.1f}" y1="{_TOP:g}" x2="{x:.1f}" y2="{low:g}"/>'
        if (value, label) not in x_named:
            continue
        if slant:
            turn = f'transform="translate({x + 4:.1f} {low + 14:.1f}) rotate(-32)"'
            yield f'<text class="tick" {turn} text-anchor="end">{text}</text>'
        else:
            yield f'<text class="tick" x="{x:.1f}" y="{low + 18:.1f}" text-anchor="middle">{text}</text>'
    yield f'<line class="axis" x1="{left:g}" y1="{low:g}" x2="{right:g}" y2="{low:g}"/>'
    if frame.small:
        return
    middle, up = (left + right) / 2, (low + _TOP) / 2
    yield (
        f'<text class="label" x="{middle:g}" y="{frame.height - 8:g}" text-anchor="middle">'
        f"{escape(panel.x.label)}</text>"
    )
    yield (
        f'<text class="label" text-anchor="middle" transform="translate(13 {up:g}) rotate(-90)">'
        f"{escape(panel.y.label)}</text>"
    )


def _fewer(ticks: Sequence[tuple[float, str]]) -> Sequence[tuple[float, str]]:
    """The first, one in the middle if it is that, and the last."""
    if len(ticks) <= 3:
        return ticks
    return [ticks[0], *([ticks[len(ticks) // 2]] if len(ticks) % 2 else []), ticks[-1]]


def _draw(layer: Layer, panel: Panel, frame: _Frame) -> Iterator[str]:
    if isinstance(layer, Line):
        yield from _line(layer, panel, frame)
    elif isinstance(layer, Bars):
        yield from _bars(layer, panel, frame)
    elif isinstance(layer, Band):
        yield _band(layer, frame)
    else:
        yield from _stems(layer, frame)


def _line(line: Line, panel: Panel, frame: _Frame) -> Iterator[str]:
    colour = colour_class(line.series)
    places = [(frame.x(x), frame.y(y)) for x, y in zip(line.x, line.y, strict=True)]
    known = [index for index, (x, y) in enumerate(places) if math.isfinite(x) and math.isfinite(y)]
    if line.joined and len(known) > 1:
        path = "M" + "L".join(f"{places[i][0]:.1f} {places[i][1]:.1f}" for i in known)
        yield f'<path class="line {colour}{" dashed" if line.dashed else ""}" d="{path}"/>'
    if not line.label:
        return
    for index in known:
        x, y = places[index]
        tip = f' data-tip="{escape(tip_of(line, panel, index))}"'
        if line.marks:
            radius = 3.4 if not line.joined else 4.0
            if line.sizes:
                radius = 3.2 + 9.0 * math.sqrt(line.sizes[index])
            yield _mark(x, y, radius, line.series, tip, faint=bool(line.sizes) or not line.joined)
        else:
            yield f'<circle class="spot {colour}" cx="{x:.1f}" cy="{y:.1f}" r="5"{tip}/>'


def _mark(x: float, y: float, r: float, series: int | None, attributes: str, faint: bool = False) -> str:
    """A mark: series differ in shape as well as in colour."""
    kind = f'class="mark {colour_class(series)}{" faint" if faint else ""}"{attributes}'
    shape = "circle" if series is None else MARKERS[series % len(MARKERS)]
    if shape == "square":
        half, side = r * 0.88, f"{r * 1.76:.1f}"
        return f'<rect {kind} x="{x - half:.1f}" y="{y - half:.1f}" width="{side}" height="{side}"/>'
    corners: Sequence[tuple[float, float]] = {
        "triangle": ((0, -1.2), (1.1, 0.8), (-1.1, 0.8)),
        "diamond": ((0, -1.25), (1.1, 0), (0, 1.25), (-1.1, 0)),
        "cross": tuple(
            (a * 0.85, b * 0.85)
            for a, b in (
                (-1.2, -0.6), (-0.6, -1.2), (0, -0.6), (0.6, -1.2), (1.2, -0.6), (0.6, 0),
                (1.2, 0.6), (0.6, 1.2), (0, 0.6), (-0.6, 1.2), (-1.2, 0.6), (-0.6, 0),
            )
        ),
    }.get(shape, ())  # fmt: skip
    if corners:
        points = " ".join(f"{x + dx * r:.1f},{y + dy * r:.1f}" for dx, dy in corners)
        return f'<polygon {kind} points="{points}"/>'
    return f'<circle {kind} cx="{x:.1f}" cy="{y:.1f}" r="{r:.1f}"/>'


def _bars(bars: Bars, panel: Panel, frame: _Frame) -> Iterator[str]:
    kind = "ground" if bars.faint else f"bar {colour_class(bars.series)}"
    base = frame.y(max(0.0, panel.y.low))
    for index, (left, right, height) in enumerate(zip(bars.left, bars.right, bars.height, strict=True)):
        x, top = frame.x(left), frame.y(height)
        start, end = min(base, top), max(base, top)
        tip = f' data-tip="{escape(tip_of(bars, panel, index))}"' if bars.label else ""
        yield (
            f'<rect class="{kind}" x="{x + 0.5:.1f}" y="{start:.1f}"'
            f' width="{max(0.5, frame.x(right) - x - 1):.1f}" height="{max(0.5, end - start):.1f}"{tip}/>'
        )
        if len(bars.low) and math.isfinite(bars.low[index]):
            at = (frame.x(left) + frame.x(right)) / 2
            low, high = frame.y(bars.low[index]), frame.y(bars.high[index])
            yield f'<line class="whisker" x1="{at:.1f}" y1="{low:.1f}" x2="{at:.1f}" y2="{high:.1f}"/>'


def _band(band: Band, frame: _Frame) -> str:
    rows = [row for row in zip(band.x, band.low, band.high, strict=True) if all(map(math.isfinite, row))]
    if not rows:
        return ""
    if len(rows) == 1:
        x, low, high = rows[0]
        ends = f'y1="{frame.y(low):.1f}" x2="{frame.x(x):.1f}" y2="{frame.y(high):.1f}"'
        return f'<line class="whisker" x1="{frame.x(x):.1f}" {ends}/>'
    there = [f"{frame.x(x):.1f} {frame.y(high):.1f}" for x, _, high in rows]
    back = [f"{frame.x(x):.1f} {frame.y(low):.1f}" for x, low, _ in reversed(rows)]
    return f'<path class="band {colour_class(band.series)}" d="M{"L".join(there + back)}Z"/>'


def _stems(stems: Stems, frame: _Frame) -> Iterator[str]:
    for x, start, end in zip(stems.x, stems.start, stems.end, strict=True):
        yield (
            f'<line class="stem {colour_class(stems.series)}" x1="{frame.x(x):.1f}" y1="{frame.y(start):.1f}"'
            f' x2="{frame.x(x):.1f}" y2="{frame.y(end):.1f}"/>'
        )
