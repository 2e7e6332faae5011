"""What a figure is, apart from how it is drawn: panels with axes and layers of numbers.

The page draws them as SVG (`charts`), files are drawn with matplotlib (`plots`): both show the same numbers,
and so does the table behind each figure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Numbers = Sequence[float] | NDArray[np.float64]

# Okabe and Ito's colours, told apart by colour-blind readers: on light ground, and on dark.
PALETTE: tuple[tuple[str, str], ...] = (
    ("#0072B2", "#56B4E9"),
    ("#D55E00", "#EE7A35"),
    ("#009E73", "#2BC79A"),
    ("#E69F00", "#F0E442"),
    ("#CC79A7", "#DE9CC2"),
    ("#4D4D4D", "#C4C4C4"),
)
MARKERS = ("circle", "square", "triangle", "diamond", "cross", "ring")


@dataclass(frozen=True)
class Axis:
    """An axis: what it measures, from where to where, and its ticks with their labels."""

    label: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    log: bool = False
    grid: bool = True

    def place(self, value: float) -> float:
        """Where a value lies, 0 at the low end and 1 at the high end."""
        if self.log:
            value, low, high = math.log(max(value, 1e-12)), math.log(self.low), math.log(self.high)
        else:
            low, high = self.low, self.high
        return (value - low) / (high - low)


def axis(label: str, values: Sequence[float], *, zero: bool = False, pad: float = 0.05) -> Axis:
    """An axis that holds all the values, with round ticks.

    >>> [text for _, text in axis("x", [0.1, 0.93]).ticks]
    ['0.2', '0.4', '0.6', '0.8']
    """
    known = [value for value in values if math.isfinite(value)]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if zero and low == high:  # nothing but zeros
        high = 1.0
    elif high - low < 1e-9 * max(1.0, abs(high)):
        spread = abs(high) * 0.1 or 0.5
        low, high = low - spread, high + spread
    margin = (high - low) * pad
    bottom = low if zero and low == 0 else low - margin
    top = high if zero and high == 0 else high + margin
    return Axis(label, bottom, top, ticks(bottom, top))


def share_axis(label: str) -> Axis:
    """From 0 to 1, in fifths."""
    return Axis(label, 0.0, 1.0, tuple((n / 5, f"{n / 5:g}") for n in range(6)))


def names_axis(label: str, names: Sequence[str]) -> Axis:
    """Names side by side at 0, 1, 2…"""
    return Axis(label, -0.6, len(names) - 0.4, tuple(enumerate(map(str, names))), grid=False)


def ticks(low: float, high: float, about: int = 5) -> tuple[tuple[float, str], ...]:
    """Round numbers between low and high, about this many."""
    rough = (high - low) / about
    power = 10 ** math.floor(math.log10(rough))
    step = next(s * power for s in (1, 2, 2.5, 5, 10) if s * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9)) + (step / power == 2.5)
    return tuple((n * step, f"{n * step:,.{decimals}f}".replace("-", "−")) for n in range(first, last + 1))


@dataclass(frozen=True)
class Line:
    """Points joined by a line, or only points."""

    x: Numbers
    y: Numbers
    series: int | None = None
    """Number of the colour; None is the neutral grey."""
    label: str = ""
    tips: Sequence[str] = ()
    """What a point says of itself; without them its name, x and y. A line without a label says nothing."""
    marks: bool = False
    joined: bool = True
    dashed: bool = False
    sizes: Numbers = ()
    """Shares from 0 to 1: the areas of the marks."""


@dataclass(frozen=True)
class Bars:
    """Upright bars from ``left`` to ``right``, from 0 to ``height``."""

    left: Numbers
    right: Numbers
    height: Numbers
    series: int | None = None
    label: str = ""
    tips: Sequence[str] = ()
    faint: bool = False
    low: Numbers = ()
    high: Numbers = ()
    """Ends of the intervals, where there are any."""


@dataclass(frozen=True)
class Band:
    """The ground between two curves: an interval."""

    x: Numbers
    low: Numbers
    high: Numbers
    series: int | None = None


@dataclass(frozen=True)
class Stems:
    """Upright strokes: how far two numbers are apart."""

    x: Numbers
    start: Numbers
    end: Numbers
    series: int | None = None


Layer = Line | Bars | Band | Stems


@dataclass(frozen=True)
class Panel:
    """One pair of axes. With ``missing`` there is a sentence instead of a drawing."""

    title: str
    x: Axis
    y: Axis
    layers: tuple[Layer, ...] = ()
    subtitle: str = ""
    square: bool = False
    missing: str = ""
    series: int | None = None
    """The colour of the run that the panel is of."""
    flat: str = ""
    """The values of curves that go nowhere: the page folds such a panel."""


@dataclass(frozen=True)
class Figure:
    """Panels with one title, caption and legend. ``name`` is that of its files."""

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    legend: tuple[tuple[int | None, str], ...] = ()
    missing: str = ""
    about: str = ""
    """The column that tells panels apart in the table behind the figure."""
    notes: tuple[str, ...] = field(default=())
    is_row: bool = False
    """Whether its panels stand in one row, small."""


def tip_of(layer: Line | Bars, panel: Panel, index: int) -> str:
    """What a mark says of itself."""
    if layer.tips:
        return layer.tips[index]
    x, y = values_of(layer, index)
    return f"{layer.label}\n{panel.x.label}: {number(x)}\n{panel.y.label}: {number(y)}"


def values_of(layer: Line | Bars, index: int) -> tuple[float, float]:
    """X and y of a mark; the x of a bar is its middle."""
    if isinstance(layer, Line):
        return float(layer.x[index]), float(layer.y[index])
    return (float(layer.left[index]) + float(layer.right[index])) / 2, float(layer.height[index])


def number(value: float) -> str:
    """Short enough to read, exact enough to use.

    >>> number(0.12345), number(1234.5), number(12.0)
    ('0.123', '1,234', '12')
    """
    if not math.isfinite(value):
        return "n/a"
    if float(value).is_integer() or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 1e-3 else f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"


def interval(low: float, high: float) -> str:
    """An interval behind its value; nothing where it is not known.

    >>> interval(0.25, 0.5), interval(math.nan, 1.0)
    (' [0.250, 0.500]', '')
    """
    return "" if math.isnan(low) or math.isnan(high) else f" [{number(low)}, {number(high)}]"


def data_of(figure: Figure) -> tuple[list[str], Iterator[list[str]]]:
    """The table behind a figure: headings and rows. Layers without a label are decoration."""
    drawn = [panel for panel in figure.panels if not panel.missing]
    x_labels, y_labels = {panel.x.label for panel in drawn}, {panel.y.label for panel in drawn}
    heads = [
        figure.about or "panel",
        "series",
        x_labels.pop() if len(x_labels) == 1 else "x",
        y_labels.pop() if len(y_labels) == 1 else "y",
    ]

    def rows() -> Iterator[list[str]]:
        for panel in drawn:
            names = {} if panel.x.grid else dict(panel.x.ticks)
            for layer in panel.layers:
                if not isinstance(layer, Line | Bars) or not layer.label:
                    continue
                for index in range(len(layer.y if isinstance(layer, Line) else layer.height)):
                    x, y = values_of(layer, index)
                    if math.isfinite(y):
                        at = names.get(round(x), number(x)) if names else number(x)
                        yield [panel.title, layer.label, at, number(y)]

    return heads, rows()
