"""Figures from files that other commands leave in a run folder: voting, spread, sums, classifier sizes.

Their shapes are in docs/report.md. A file of another shape is left out, and the page says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rlcr.report.reading import EvalRun, number_of
from rlcr.report.shapes import Bars, Figure, Layer, Line, Panel, axis, log_axis, names_axis, number

_MOST_DOTS = 300
_BINS = 20


class _ShapeError(ValueError):
    """The file is not of the documented shape; the text says where."""


def artefact_figures(runs: Sequence[EvalRun]) -> tuple[list[Figure], list[str]]:
    """The figures of all files that are there, and notes on those that could not be read."""
    figures: list[Figure] = []
    notes: list[str] = []
    for file, make in _MAKERS.items():
        having: list[tuple[int, EvalRun, dict[str, Any]]] = []
        for colour, run in enumerate(runs):
            if file not in run.artefacts:
                continue
            try:
                tasks = _map(run.artefacts[file].get("tasks"), '"tasks"')
                make([(colour, run, tasks)])
            except _ShapeError as error:
                notes.append(f"{run.label}: {file} is not of the documented shape: {error}")
                continue
            having.append((colour, run, tasks))
        if having:
            figures.append(make(having))
    return figures, notes


_Having = Sequence[tuple[int, EvalRun, Mapping[str, Any]]]


def _voting(having: _Having) -> Figure:
    """Accuracy (or another metric) against the number of samples that vote."""
    metrics: dict[tuple[str, str], list[Line]] = {}
    names: dict[str, int] = {}
    several = len(having) > 1
    for _, run, tasks in having:
        for task, curves in tasks.items():
            for curve in _list(curves, task):
                curve = _map(curve, task)
                name = str(curve.get("name", "votes"))
                label = f"{run.label}: {name}" if several else name
                sizes, values = (
                    _numbers(curve.get("n"), f"{task}, n"),
                    _numbers(curve.get("value"), f"{task}, value"),
                )
                if len(sizes) != len(values) or min(sizes, default=1) < 1:
                    raise _ShapeError(f"{task}: n and value must be equally long, n at least 1")
                colour = names.setdefault(label, len(names))
                metric = str(curve.get("metric", "accuracy"))
                metrics.setdefault((task, metric), []).append(Line(sizes, values, colour, label, marks=True))
    panels = tuple(
        Panel(
            task,
            log_axis("samples", [x for line in lines for x in line.x]),
            axis(metric, [y for line in lines for y in line.y]),
            tuple(lines),
        )
        for (task, metric), lines in metrics.items()
    )
    return Figure(
        name="voting",
        title="Test-time scaling",
        caption="What more samples of the same question are worth, by the way in which they vote.",
        panels=panels,
        legend=tuple((colour, name) for name, colour in names.items()),
        missing="" if panels else "the file holds no curve",
        about="task",
    )


def _spread(having: _Having) -> Figure:
    """How far confidences in the same answer differ."""
    found: dict[str, list[tuple[int, str, np.ndarray]]] = {}
    for colour, run, tasks in having:
        for task, values in tasks.items():
            spread = np.array(_numbers(_map(values, task).get("spread"), f"{task}, spread"))
            if len(spread) and spread.min() < 0:
                raise _ShapeError(f"{task}, spread must not be negative")
            if len(spread):
                found.setdefault(task, []).append((colour, run.label, spread))
    panels = []
    for task, rows in found.items():
        top = max(float(spread.max()) for _, _, spread in rows) or 1.0
        edges = np.linspace(0, top, _BINS + 1)
        layers: list[Layer] = []
        for colour, label, spread in rows:
            share = np.histogram(spread, edges)[0] / len(spread)
            tips = [
                f"{label}\nspread {low:.3f} to {high:.3f}\n{part:.1%} of answers"
                for low, high, part in zip(edges[:-1], edges[1:], share, strict=True)
            ]
            # Steps, so that several runs can lie over each other.
            layers.append(Line((edges[:-1] + edges[1:]) / 2, share, colour, label, tips, marks=True))
        heights = [y for line in layers if isinstance(line, Line) for y in line.y]
        x = axis("standard deviation of confidence", list(edges), zero=True)
        panels.append(Panel(task, x, axis("share of answers", heights, zero=True), tuple(layers)))
    return Figure(
        name="confidence-spread",
        title="Spread of confidence",
        caption="How far the confidences differ that a model states for one and the same answer.",
        panels=tuple(panels),
        legend=tuple((colour, run.label) for colour, run, _ in having),
        missing="" if panels else "the file holds no spread",
        about="task",
    )


def _sums(having: _Having) -> Figure:
    """Sums of the confidences in all the different answers to a question: a coherent model's are 1."""
    found: dict[str, list[tuple[int, str, list[float]]]] = {}
    for colour, run, tasks in having:
        for task, values in tasks.items():
            sums = _numbers(_map(values, task).get("sums"), f"{task}, sums")
            if min(sums, default=0) < 0:
                raise _ShapeError(f"{task}, sums must not be negative")
            if sums:
                found.setdefault(task, []).append((colour, run.label, sums))
    panels, thinned = [], False
    for task, rows in found.items():
        layers: list[Layer] = [Line((-0.6, len(rows) - 0.4), (1, 1), dashed=True)]
        drawn: list[float] = [0, 1]
        for place, (colour, label, sums) in enumerate(rows):
            thinned |= len(sums) > _MOST_DOTS
            kept = _thin(sorted(sums))
            top = max(max(kept), 1.0)
            tips = [f"{label}\nsum of confidences {value:.3f}" for value in kept]
            layers.append(Line(_swarm(kept, place, top), kept, colour, label, tips, marks=True, joined=False))
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
            "For each question, the sum of the confidences in all the different answers of a model. Only one "
            f"of them can be right, so that a coherent model stays at or below 1 (dashed).{note}"
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


def _sizes(having: _Having) -> Figure:
    """Metrics of classifiers of several sizes, as bars."""
    panels = []
    runs: dict[str, int] = {run.label: colour for colour, run, _ in having}
    found: dict[tuple[str, str], dict[str, dict[str, tuple[float, float, float]]]] = {}
    for _, run, tasks in having:
        for task, rows in tasks.items():
            for row in _list(rows, task):
                row = _map(row, task)
                for metric, value in _map(row.get("metrics"), f"{task}, metrics").items():
                    size = found.setdefault((task, str(metric)), {}).setdefault(str(row.get("name", "?")), {})
                    size[run.label] = _estimate(value, f"{task}, {metric}")
    width = 0.8 / max(1, len(runs))
    for (task, metric), by_size in found.items():
        layers: list[Layer] = []
        heights = [0.0]
        for slot, (label, colour) in enumerate(runs.items()):
            at = [(n, by_size[size][label], size) for n, size in enumerate(by_size) if label in by_size[size]]
            if not at:
                continue
            left = [n - 0.4 + slot * width for n, _, _ in at]
            tips = [
                f"{label}\n{size}\n{metric}: {number(value)}"
                + ("" if math.isnan(low) else f" [{number(low)}, {number(high)}]")
                for _, (value, low, high), size in at
            ]
            layers.append(
                Bars(
                    left,
                    [x + width * 0.92 for x in left],
                    [value for _, (value, _, _), _ in at],
                    colour,
                    label,
                    tips,
                    low=[low for _, (_, low, _), _ in at],
                    high=[high for _, (_, _, high), _ in at],
                )
            )
            heights += [v for _, triple, _ in at for v in triple]
        heading = f"{task}: {metric}" if len({t for t, _ in found}) > 1 else metric
        panels.append(
            Panel(
                heading,
                names_axis("classifier", list(by_size)),
                axis(metric, heights, zero=True),
                tuple(layers),
            )
        )
    return Figure(
        name="classifier-sizes",
        title="Classifiers of several sizes",
        caption="How well a separate classifier tells right from wrong answers; lines are 95% intervals.",
        panels=tuple(panels),
        legend=tuple((colour, label) for label, colour in runs.items()),
        missing="" if panels else "the file holds no classifier",
        about="metric",
    )


_MAKERS: dict[str, Callable[[_Having], Figure]] = {
    "voting.json": _voting,
    "confidence.json": _spread,
    "coherence.json": _sums,
    "classifier_sizes.json": _sizes,
}


# --- checking ---------------------------------------------------------------------------------------


def _map(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _ShapeError(f"{where} must be an object")
    return dict(value)


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise _ShapeError(f"{where} must be a list")
    return value


def _numbers(value: Any, where: str) -> list[float]:
    return [_finite(item, where) for item in _list(value, where)]


def _finite(value: Any, where: str) -> float:
    number = number_of(value)
    if math.isnan(number):
        raise _ShapeError(f"{where} must hold finite numbers")
    return number


def _estimate(value: Any, where: str) -> tuple[float, float, float]:
    if not isinstance(value, Mapping):
        return _finite(value, where), math.nan, math.nan
    ends = value.get("ci95")
    low, high = map(number_of, ends) if isinstance(ends, list) and len(ends) == 2 else (math.nan, math.nan)
    return _finite(value.get("value"), where), low, high
