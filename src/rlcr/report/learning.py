"""What a training did: its curves, its held-out evaluations, and how long it was meant to be."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rlcr.metrics.tables import Cell, Heading, Table, estimate_cell, of_all, partial_note, text_headings
from rlcr.report.curves import METRIC_NAMES, estimate_of
from rlcr.report.naming import joined, short_model
from rlcr.report.numbers import HEADLINE, METRICS, stored_basis, without_columns
from rlcr.report.reading import TrainingRun
from rlcr.report.rows import Floats
from rlcr.report.shapes import Band, Figure, Line, Panel, axis, interval, number, share_axis
from rlcr.report.trainings import taught_updates

_POINTS = 120
# A curve that moves by less than this part of its own size goes nowhere; one of shares, by less than this.
_FLAT, _FLAT_SHARE = 0.01, 0.02
# What never comes to this is 0 but for rounding, as of a sampler and a trainer that add up in another order.
_NOTHING = 1e-4
_KEY_CURVES = ("Reward", "Accuracy", "ECE", "Confidence: mean")


# column, title, axis label
#: Shares, drawn from 0 to 1 always: a change of a thousandth should look like none.
_SHARES = ("parts.format", "truncated", "well_formed", "mismatch_far")
_CURVES = (
    ("reward", "Reward", "mean reward"),
    ("accuracy", "Accuracy", "accuracy"),
    ("brier", "Brier score", "Brier score"),
    ("ece", "ECE", "ECE"),
    ("auroc", "AUROC", "AUROC"),
    ("confidence_mean", "Confidence: mean", "mean confidence"),
    ("confidence_std", "Confidence: spread", "standard deviation"),
    ("distinct_confidences", "Confidence: distinct values", "distinct values"),
    ("tokens_mean", "Completion length", "tokens"),
    ("truncated", "Cut off", "share cut off"),
    ("well_formed", "Well formed", "share well formed"),
    ("entropy", "Entropy", "nats per token"),
    ("mismatch_mean", "Sampler and trainer apart: mean", "nats per token"),
    ("mismatch_max", "Sampler and trainer apart: most", "nats"),
    ("mismatch_far", "Sampler and trainer apart: far", "share of tokens above 0.1 nats"),
)


def training(trainings: Sequence[TrainingRun]) -> Figure:
    """Every number that the trainings log, one panel each, one curve a training."""
    parts = sorted(
        {name for run in trainings for name in run.columns if name.startswith("parts.")}, key=_part
    )
    wanted = [
        _CURVES[0],
        *((part, f"Reward: {part[6:]}", "mean, before weights") for part in parts),
        *_CURVES[1:],
    ]
    panels = []
    averaged = 1
    updates = axis(
        "update", [0.0, *(float(run.update[-1]) for run in trainings if len(run.update))], zero=True
    )
    for name, title, label in wanted:
        layers: list[Line | Band] = []
        for run in trainings:
            if name not in run.columns:
                continue
            x, y, size = bucketed(run.update, run.columns[name])
            averaged = max(averaged, size)
            tips = [
                f"{run.label}\nupdate {number(update)}\n{title}: {number(v)}"
                for update, v in zip(x, y, strict=True)
            ]
            layers.append(Line(x, y, run.colour, run.label, tips, marks=len(x) == 1))
        if layers:
            ys = [v for line in layers if isinstance(line, Line) for v in line.y]
            is_share = name in _SHARES
            scale = share_axis(label) if is_share else axis(label, ys)
            panels.append(Panel(title, updates, scale, tuple(layers), flat=_flat(layers, is_share)))
    note = f"Each point is the mean of up to {averaged} updates." if averaged > 1 else ""
    return Figure(
        name="training",
        title="During training",
        caption=f"Logged at every update, over the training's own samples. {note}".strip(),
        panels=tuple(panels),
        legend=tuple((run.colour, run.label) for run in trainings),
        missing="" if panels else "no update was logged" if trainings else "no training run was given",
        about="quantity",
    )


def _flat(layers: Sequence[Line | Band], is_share: bool) -> str:
    """The values of curves of which none goes anywhere; empty where one does, or is too short to tell."""
    lines = [layer for layer in layers if isinstance(layer, Line)]
    for line in lines:
        y = np.asarray(line.y)
        most = np.abs(y).max(initial=0.0)
        if len(y) < 3 or np.ptp(y) > max(_NOTHING, _FLAT_SHARE if is_share else _FLAT * most):
            return ""
    values = {line.label: number(float(np.mean(line.y))) for line in lines}
    if len(set(values.values())) == 1:
        return next(iter(values.values()))
    return ", ".join(f"{label} {value}" for label, value in values.items())


_FIRST = (
    "The sentence above compares the mean of the first tenth of the updates with that of the last tenth. "
    "Rewards made of different parts cannot be compared."
)


def key_curves(trainings: Sequence[TrainingRun]) -> Figure:
    """What is worth seeing first of trainings that nobody has evaluated yet."""
    every = training(trainings)
    panels = tuple(replace(panel, flat="") for panel in every.panels if panel.title in _KEY_CURVES)
    missing = every.missing or ("" if panels else "none of these was logged")
    return replace(every, name="training-first", panels=panels, caption=_FIRST, missing=missing, is_row=True)


def _part(name: str) -> tuple[int, str]:
    order = ("parts.format", "parts.correctness", "parts.calibration")
    return (order.index(name) if name in order else len(order), name)


def bucketed(update: Floats, values: Floats, points: int = _POINTS) -> tuple[Floats, Floats, int]:
    """Means over enough updates to leave few points; undefined ones are left out."""
    known = ~np.isnan(values)
    update, values = update[known], values[known]
    size = math.ceil(len(values) / points)
    if size <= 1:
        return update, values, 1
    starts = np.arange(0, len(values), size)
    counts = np.diff(np.append(starts, len(values)))
    return (np.add.reduceat(update, starts) / counts, np.add.reduceat(values, starts) / counts, size)


def held_out(trainings: Sequence[TrainingRun]) -> Figure:
    """The evaluations on held-out problems during training, with their intervals."""
    tasks = list(
        dict.fromkeys(task for run in trainings for _, results in run.evals for task in _tasks(results))
    )
    panels = []
    for task in tasks:
        for name, title in METRIC_NAMES.items():
            layers: list[Line | Band] = []
            for run in trainings:
                points = [
                    (update, *estimate)
                    for update, results in run.evals
                    if (estimate := estimate_of(_tasks(results).get(task), name))[0] is not None
                ]
                if not points:
                    continue
                x, y, low, high = (np.array(column, np.float64) for column in zip(*points, strict=True))
                layers.append(Band(x, low, high, run.colour))
                tips = [
                    f"{run.label}\nupdate {number(u)}\n{title}: {number(v)}{interval(lo, hi)}"
                    for u, v, lo, hi in zip(x, y, low, high, strict=True)
                ]
                layers.append(Line(x, y, run.colour, run.label, tips, marks=True))
            if layers:
                lines = [layer for layer in layers if isinstance(layer, Line)]
                xs = [v for line in lines for v in line.x]
                ys = [v for line in lines for v in line.y]
                ys += [v for band in layers if isinstance(band, Band) for v in (*band.low, *band.high)]
                heading = title if len(tasks) == 1 else f"{task}: {title}"
                panels.append(Panel(heading, axis("update", xs, pad=0.04), axis(title, ys), tuple(layers)))
    where = f" on {tasks[0]}" if len(tasks) == 1 else ""
    return Figure(
        name="held-out",
        title=f"Held-out evaluations{where}",
        caption="Evaluated on problems that are not trained on; bands are 95% intervals.",
        panels=tuple(panels),
        legend=tuple((run.colour, run.label) for run in trainings),
        missing="" if panels else "no training has finished a held-out evaluation",
        about="quantity",
    )


def _tasks(results: Mapping[str, Any]) -> Mapping[str, Any]:
    tasks = results.get("tasks")
    return tasks if isinstance(tasks, Mapping) else {}


# --- tables -----------------------------------------------------------------------------------------


def trainings_table(trainings: Sequence[TrainingRun]) -> Table:
    """What was trained, how far it has come, and how many of the updates taught anything."""
    columns = (*text_headings("Training", "Model", "Task"), Heading("Updates"), Heading("Taught anything"))
    rows = []
    for run in trainings:
        model, made = short_model(str(run.settings.get("model") or "")), len(run.update)
        found = taught_updates(run.columns)
        share = Cell("unknown") if found is None else Cell(of_all(*found), found[0])
        names = Cell(run.label, series=run.colour), Cell(model), Cell(run.task or "unknown")
        rows.append((*names, Cell(f"{made:,}{_planned(run)}", made), share))
    idle = [] if any(row[-1].value is not None for row in rows) else ["Taught anything"]
    columns, shown = without_columns(columns, rows, idle)
    return Table("trainings", "Trainings", columns, shown)


def _planned(run: TrainingRun) -> str:
    return f" of {run.planned:,.0f}" if run.is_unfinished else ""


def lengths(trainings: Sequence[TrainingRun]) -> str:
    """Why trainings are not equally long; empty where they are."""
    if len({len(run.update) for run in trainings}) < 2:
        return ""
    under_way = [
        f"{run.label} is at update {len(run.update):,}{_planned(run)}"
        for run in trainings
        if run.is_unfinished
    ]
    planned: dict[float, list[str]] = {}
    for run in trainings:
        planned.setdefault(run.planned, []).append(run.label)
    said = [
        f"{updates:,.0f} updates for {joined(names)}"
        for updates, names in sorted(planned.items())
        if not math.isnan(updates)
    ]
    texts = [f"Not finished: {'; '.join(under_way)}."] if under_way else []
    if len(said) > 1:
        texts.append(f"The trainings differ in length because their recipes do: {'; '.join(said[::-1])}.")
    return " ".join(texts) or "The trainings differ in length."


def held_out_table(trainings: Sequence[TrainingRun]) -> Table | None:
    """The held-out evaluations of the trainings, update by update; None where there are none."""
    columns = (
        *text_headings("Training"),
        Heading("Update", identifies=True),
        *text_headings("Task"),
        *HEADLINE,
        Heading("Rated"),
    )
    rows = []
    for run in trainings:
        for update, results in run.evals:
            for task, stored in (results.get("tasks") or {}).items():
                basis = stored_basis(results, task)
                cells = [basis.under(name, estimate_cell(*estimate_of(stored, name))) for name in METRICS]
                when = Cell(f"{update:,}", update)
                rows.append((Cell(run.label, series=run.colour), when, Cell(task), *cells, basis.cell()))
    if not rows:
        return None
    return Table("held-out", "Held-out evaluations", columns, tuple(rows), notes=partial_note(rows))
