"""Figures and tables from files that other commands leave in a run folder.

Their shapes are in docs/report.md. A file of another shape is left out, and the page says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlcr.metrics.tables import Table
from rlcr.report import coherence, scaling
from rlcr.report.checking import ShapeError, estimate, items, mapping
from rlcr.report.curves import METRIC_NAMES
from rlcr.report.reading import EvalRun
from rlcr.report.scaling import Having
from rlcr.report.shapes import Bars, Figure, Layer, Panel, axis, interval, names_axis, number


@dataclass
class Artefacts:
    """What is drawn of the files that are there, by file, and notes on those that could not be read."""

    figures: dict[str, list[Figure]] = field(default_factory=dict)
    tables: dict[str, list[Table]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def figures_of(self, *files: str) -> tuple[Figure, ...]:
        """The figures of some files."""
        return tuple(figure for file in files for figure in self.figures.get(file, []))

    def tables_of(self, *files: str) -> tuple[Table, ...]:
        """The tables of some files."""
        return tuple(table for file in files for table in self.tables.get(file, []))


def read_artefacts(runs: Sequence[EvalRun]) -> Artefacts:
    """Everything that can be drawn of the files of all runs."""
    artefacts = Artefacts()
    for file in (*_FIGURES, *(file for file in _TABLES if file not in _FIGURES)):
        figures, table = _FIGURES.get(file, lambda _: []), _TABLES.get(file, lambda _: None)
        having: list[tuple[int, EvalRun, dict[str, Any]]] = []
        for colour, run in enumerate(runs):
            if file not in run.artefacts:
                continue
            try:
                tasks = mapping(run.artefacts[file].get("tasks"), '"tasks"')
                figures([(colour, run, tasks)])
                table([(colour, run, tasks)])
            except ShapeError as error:
                artefacts.notes.append(f"{run.label}: {file} is not of the documented shape: {error}")
                continue
            having.append((colour, run, tasks))
        if having:
            artefacts.figures[file] = figures(having)
            artefacts.tables[file] = [drawn] if (drawn := table(having)) else []
    return artefacts


def _sizes(having: Having) -> list[Figure]:
    """Metrics of classifiers of several sizes, as bars."""
    panels = []
    runs: dict[str, int] = {run.label: colour for colour, run, _ in having}
    estimates: dict[tuple[str, str], dict[str, dict[str, tuple[float, float, float]]]] = {}
    for _, run, tasks in having:
        for task, rows in tasks.items():
            for row in items(rows, task):
                row = mapping(row, task)
                size = str(row.get("name", "?"))
                for metric, value in mapping(row.get("metrics"), f"{task}, metrics").items():
                    by_run = estimates.setdefault((task, str(metric)), {}).setdefault(size, {})
                    by_run[run.label] = estimate(value, f"{task}, {metric}")
    width = 0.8 / max(1, len(runs))
    for (task, metric), by_size in estimates.items():
        layers: list[Layer] = []
        heights = [0.0]
        for slot, (label, colour) in enumerate(runs.items()):
            at = [(n, by_size[size][label], size) for n, size in enumerate(by_size) if label in by_size[size]]
            if not at:
                continue
            left = [n - 0.4 + slot * width for n, _, _ in at]
            tips = [
                f"{label}\n{size}\n{metric}: {number(value)}{interval(low, high)}"
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
        named = METRIC_NAMES.get(metric, metric)
        heading = f"{task}: {named}" if len({t for t, _ in estimates}) > 1 else named
        panels.append(
            Panel(
                heading,
                names_axis("classifier", list(by_size)),
                axis(named, heights, zero=True),
                tuple(layers),
            )
        )
    return [
        Figure(
            name="classifier-sizes",
            title="Classifiers of several sizes",
            caption="How well a separate classifier tells right from wrong answers; lines are 95% intervals.",
            panels=tuple(panels),
            legend=tuple((colour, label) for label, colour in runs.items()),
            missing="" if panels else "the file holds no classifier",
            about="metric",
        )
    ]


_FIGURES: dict[str, Callable[[Having], list[Figure]]] = {
    "voting.json": scaling.voting,
    "analyses.json": scaling.analyses,
    "coherence.json": coherence.coherence,
    "classifier_sizes.json": _sizes,
}
_TABLES: dict[str, Callable[[Having], Table | None]] = {
    "voting.json": scaling.differences,
    "selective.json": scaling.selection,
    "adaptive.json": scaling.adaptive_runs,
}
