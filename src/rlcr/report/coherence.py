"""Figures of coherence: how far confidences spread, and whether those of different answers add up.

From coherence.json, as `rlcr coherence` writes it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlcr.report.checking import ShapeError, mapping, numbers
from rlcr.report.scaling import Having, heights
from rlcr.report.shapes import Figure, Layer, Line, Panel, axis, names_axis

_MOST_DOTS = 300
_BINS = 20
_SPREADS = (("spread_of_analyses", "analyses of one answer"), ("spread", "responses to one question"))


def coherence(having: Having) -> list[Figure]:
    """The spread of confidences, and the sums of confidences in different answers."""
    return [_spread(having), _sums(having)]


def _spread(having: Having) -> Figure:
    spreads: dict[str, list[tuple[int, str, np.ndarray]]] = {}
    for key, what in _SPREADS:
        for colour, run, tasks in having:
            for task, values in tasks.items():
                spread = np.array(numbers(mapping(values, task).get(key, []), f"{task}, {key}"))
                if len(spread) and spread.min() < 0:
                    raise ShapeError(f"{task}, {key} must not be negative")
                if len(spread):
                    spreads.setdefault(f"{task}: {what}", []).append((colour, run.label, spread))
    panels = []
    for title, rows in spreads.items():
        top = max(float(spread.max()) for _, _, spread in rows) or 1.0
        edges = np.linspace(0, top, _BINS + 1)
        layers: list[Layer] = []
        for colour, label, spread in rows:
            share = np.histogram(spread, edges)[0] / len(spread)
            tips = [
                f"{label}\nspread {low:.3f} to {high:.3f}\n{part:.1%}"
                for low, high, part in zip(edges[:-1], edges[1:], share, strict=True)
            ]
            # Lines, so that several runs can lie over each other.
            layers.append(Line((edges[:-1] + edges[1:]) / 2, share, colour, label, tips, marks=True))
        x = axis("standard deviation of confidence", list(edges), zero=True)
        panels.append(Panel(title, x, axis("share", heights(layers), zero=True), tuple(layers)))
    return Figure(
        name="confidence-spread",
        title="Spread of confidence",
        caption=(
            "How far the confidences differ that a model states for one and the same answer, analysed "
            "several times, and over all its responses to one question, whatever they answer."
        ),
        panels=tuple(panels),
        legend=tuple((colour, run.label) for colour, run, _ in having),
        missing="" if panels else "the file holds no spread",
        about="task",
    )


def _sums(having: Having) -> Figure:
    """Sums of the confidences in all the different answers to a question, at most 1 if coherent."""
    sums_of: dict[str, list[tuple[int, str, list[float]]]] = {}
    for colour, run, tasks in having:
        for task, values in tasks.items():
            sums = numbers(mapping(values, task).get("sums"), f"{task}, sums")
            if min(sums, default=0) < 0:
                raise ShapeError(f"{task}, sums must not be negative")
            if sums:
                sums_of.setdefault(task, []).append((colour, run.label, sums))
    panels, thinned = [], False
    for task, rows in sums_of.items():
        layers: list[Layer] = [Line((-0.6, len(rows) - 0.4), (1, 1), dashed=True)]
        drawn: list[float] = [0, 1]
        for place, (colour, label, sums) in enumerate(rows):
            thinned |= len(sums) > _MOST_DOTS
            kept = _thin(sorted(sums))
            tips = [f"{label}\nsum of confidences {value:.3f}" for value in kept]
            x = _swarm(kept, place, max(max(kept), 1.0))
            layers.append(Line(x, kept, colour, label, tips, marks=True, joined=False))
            drawn += kept
        names = [label for _, label, _ in rows]
        panels.append(
            Panel(task, names_axis("run", names), axis("sum of confidences", drawn, zero=True), tuple(layers))
        )
    note = f" Of more than {_MOST_DOTS} questions, {_MOST_DOTS} are drawn, even in rank." if thinned else ""
    return Figure(
        name="confidence-sums",
        title="Do confidences add up?",
        caption=(
            "For each question, the sum of the mean confidences in all the different answers of a model. "
            f"Only one of them can be right: a coherent model stays at or below 1 (dashed).{note}"
        ),
        panels=tuple(panels),
        legend=tuple((colour, run.label) for colour, run, _ in having),
        missing="" if panels else "the file holds no sum",
        about="task",
    )


def _thin(ordered: list[float]) -> list[float]:
    if len(ordered) <= _MOST_DOTS:
        return ordered
    return [ordered[i] for i in np.linspace(0, len(ordered) - 1, _MOST_DOTS).round().astype(int)]


def _swarm(values: Sequence[float], place: float, top: float) -> list[float]:
    """Where dots of nearly equal height lie beside each other."""
    rows: dict[int, int] = {}
    counts: dict[int, int] = {}
    height = top / 45
    for value in values:
        counts[int(value / height)] = counts.get(int(value / height), 0) + 1
    step = min(0.045, 0.8 / max(counts.values(), default=1))
    xs = []
    for value in values:
        row = int(value / height)
        rank = rows[row] = rows.get(row, 0) + 1
        side = 1 if rank % 2 else -1
        xs.append(place + side * (rank // 2) * step)
    return xs
