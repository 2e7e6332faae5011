"""From runs to the figures of the report, as numbers: reliability, risk, training, scoring rules.

Each function gives a figure that can be drawn, or one that says what is missing. Runs keep their colour
through the whole report.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlcr import metrics
from rlcr.report.fields import interval_of, number_of
from rlcr.report.reading import EvalRun, Floats, TrainingRun
from rlcr.report.shapes import (
    Axis,
    Band,
    Bars,
    Figure,
    Line,
    Panel,
    Stems,
    axis,
    interval,
    number,
    share_axis,
)
from rlcr.scoring import RULES, Incentives, check_incentives

_RISK_POINTS = 60
_TRAINING_POINTS = 120


@dataclass(frozen=True)
class Scope:
    """Tasks that are looked at together."""

    name: str
    title: str
    tasks: tuple[str, ...]


def scopes(runs: Sequence[EvalRun], trained_on: Sequence[str]) -> list[Scope]:
    """The pool first, then every task by itself. The pool leaves out what is known to be trained on."""
    tasks = tuple(dict.fromkeys(task for run in runs for task in run.tasks))
    return [*pooled(tasks, trained_on), *(Scope(name, task, (task,)) for name, task in _file_names(tasks))]


def _file_names(tasks: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Names of tasks that can be part of a file's: a task may be called anything, and two alike."""
    taken: set[str] = set()
    for place, task in enumerate(tasks, 1):
        name = re.sub(r"[^a-z0-9]+", "-", task.lower()).strip("-")[:40] or f"{place}"
        name = f"{name}-{place}" if name in taken else name
        taken.add(name)
        yield f"task-{name}", task


def pooled(tasks: Sequence[str], trained_on: Sequence[str]) -> list[Scope]:
    """The pool of several tasks; none for one task, which is its own pool."""
    others = tuple(task for task in tasks if task not in trained_on)
    if len(others) < len(tasks):
        if len(others) < 2:
            return []
        known = ", ".join(task for task in trained_on if task in tasks)
        return [Scope("out-of-domain", f"Out of domain (all tasks but {known})", others)]
    return [Scope("all-tasks", "All tasks", tuple(tasks))] if len(tasks) > 1 else []


RELIABILITY = (
    "Is a model right as often as it says? Accuracy against stated confidence, in the ten bins of ECE. On "
    "the dashed diagonal it is; a point below it is overconfident. The area of a point and the grey bar "
    "behind it are the share of answers in the bin."
)


# --- reliability ------------------------------------------------------------------------------------


def reliability(runs: Sequence[EvalRun], scope: Scope) -> Figure:
    """One panel a run: accuracy against stated confidence over the histogram of confidences."""
    having = [(colour, run) for colour, run in enumerate(runs) if set(scope.tasks) & set(run.tasks)]
    panels = tuple(_reliability_panel(run, colour, scope) for colour, run in having)
    without = [run.label for run in runs if not set(scope.tasks) & set(run.tasks)]
    return Figure(
        name=f"reliability-{scope.name}",
        title=scope.title,
        caption="",
        panels=panels,
        notes=(f"Not evaluated on this: {'; '.join(without)}.",) if without else (),
        missing="" if any(not panel.missing for panel in panels) else _all_missing(panels),
        about="run",
    )


def _all_missing(panels: Sequence[Panel]) -> str:
    reasons = dict.fromkeys(f"{panel.title}: {panel.missing}" for panel in panels)
    return "; ".join(reasons) or "no evaluation was given"


def _reliability_panel(run: EvalRun, colour: int, scope: Scope) -> Panel:
    correct, confidence, _ = run.rows.scored(scope.tasks)
    stated = ~np.isnan(confidence)
    if not stated.any():
        x, y = share_axis("stated confidence"), share_axis("accuracy")
        return Panel(run.label, x, y, square=True, missing=_why_nothing(run, scope, len(correct)))
    correct, confidence = correct[stated], confidence[stated]
    auroc = metrics.auroc(correct, confidence)
    subtitle = f"ECE {metrics.ece(correct, confidence):.3f} · AUROC {number_or_na(auroc)}"
    curve = metrics.reliability_curve(correct, confidence)
    return reliability_panel(run.label, curve, f"{subtitle} · n = {len(correct):,}", colour)


def reliability_panel(title: str, curve: metrics.ReliabilityCurve, subtitle: str, colour: int) -> Panel:
    """Accuracy against confidence, bin by bin, over the histogram of confidences.

    The stems from the diagonal to the points are what ECE adds up. The area of a point is its share of the
    answers, so that a bin of five does not look like one of 500.
    """
    share = curve.count / curve.count.sum()
    tips = [
        f"{title}\nconfidence {low:.1f} to {high:.1f}: mean {mean:.3f}\naccuracy {right:.3f}\n"
        f"{count:,} answers ({part:.1%})"
        for low, high, mean, right, count, part in zip(
            curve.lower, curve.upper, curve.confidence, curve.accuracy, curve.count, share, strict=True
        )
    ]
    sizes = share.tolist()
    layers = (
        Bars(curve.lower, curve.upper, share, label="share of answers", tips=tips, faint=True),
        Line((0, 1), (0, 1), dashed=True),
        Stems(curve.confidence, curve.confidence, curve.accuracy, colour),
        Line(curve.confidence, curve.accuracy, colour, "accuracy", tips, marks=True, sizes=sizes),
    )
    x, y = share_axis("stated confidence"), share_axis("accuracy")
    return Panel(title, x, y, layers, subtitle, square=True)


def reliability_of(title: str, curve: metrics.ReliabilityCurve, summary: metrics.Summary) -> Figure:
    """A figure of one reliability curve, with the numbers of its summary."""
    names = {"accuracy": "accuracy", "ece": "ECE", "brier": "Brier", "auroc": "AUROC"}
    values = [f"{label} {number_or_na(summary.metrics[name].value)}" for name, label in names.items()]
    panel = reliability_panel("", curve, " · ".join(values), 0)
    return Figure("reliability", f"{title}, n = {summary.n:,}", "", (panel,))


def number_or_na(value: float | None) -> str:
    """A metric to three places, or n/a where it is not defined."""
    return "n/a" if value is None else f"{value:.3f}"


def _why_nothing(run: EvalRun, scope: Scope, scored: int) -> str:
    if scored:
        return f"none of its {scored:,} scored answers states a confidence"
    lost = int(run.rows.of(scope.tasks).sum())
    if lost:
        return f"none of its {lost:,} answers could be scored"
    return "it has no records" if not len(run.rows) else "it has no records of this task"


# --- risk and coverage ------------------------------------------------------------------------------


def risk_coverage(runs: Sequence[EvalRun], scope_list: Sequence[Scope]) -> Figure:
    """Error rate of the answers that are kept, as less and less confidence is asked for."""
    panels = tuple(_risk_panel(runs, scope) for scope in scope_list)
    return Figure(
        name="risk-coverage",
        title="Error rate of the most confident answers",
        caption=(
            "Keep only the answers with the highest confidence: the share that is kept (coverage) against "
            "the error rate among them (risk). Lower is better. A curve that rises from left to right means "
            "that confidence tells right from wrong; a model with one constant confidence is a single point."
        ),
        panels=panels,
        legend=tuple((colour, run.label) for colour, run in enumerate(runs)),
        missing="" if any(not panel.missing for panel in panels) else "no answer states a confidence",
        about="tasks",
    )


def _risk_panel(runs: Sequence[EvalRun], scope: Scope) -> Panel:
    x = share_axis("coverage")
    layers: list[Line] = []
    for colour, run in enumerate(runs):
        correct, confidence, _ = run.rows.scored(scope.tasks)
        stated = ~np.isnan(confidence)
        if not stated.any():
            continue
        curve = metrics.risk_coverage(correct[stated], confidence[stated])
        at = _thin(curve.coverage)
        tips = [
            f"{run.label}\nconfidence at least {threshold:.3g}\ncoverage {kept:.1%}\nrisk {risk:.3f}"
            for threshold, kept, risk in zip(
                curve.threshold[at], curve.coverage[at], curve.risk[at], strict=True
            )
        ]
        layers.append(Line(curve.coverage[at], curve.risk[at], colour, run.label, tips, marks=len(at) <= 15))
    if not layers:
        return Panel(scope.title, x, share_axis("risk"), missing="no answer states a confidence")
    y = axis("risk (error rate)", [value for line in layers for value in line.y], zero=True)
    return Panel(scope.title, x, y, tuple(layers))


def _thin(coverage: Floats, points: int = _RISK_POINTS) -> Any:
    """Which entries to draw: all if they are few, else those next to even steps of coverage."""
    if len(coverage) <= points:
        return np.arange(len(coverage))
    wanted = np.linspace(coverage[0], 1, points)
    return np.unique(np.minimum(np.searchsorted(coverage, wanted), len(coverage) - 1))


# --- training ---------------------------------------------------------------------------------------

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
            x, y, size = _bucketed(run.update, run.columns[name])
            averaged = max(averaged, size)
            tips = [
                f"{run.label}\nupdate {number(update)}\n{title}: {number(v)}"
                for update, v in zip(x, y, strict=True)
            ]
            layers.append(Line(x, y, run.colour, run.label, tips, marks=len(x) == 1))
        if layers:
            ys = [v for line in layers if isinstance(line, Line) for v in line.y]
            scale = share_axis(label) if name in _SHARES else axis(label, ys)
            panels.append(Panel(title, updates, scale, tuple(layers)))
    note = f"Each point is the mean of up to {averaged} updates." if averaged > 1 else ""
    return Figure(
        name="training",
        title="During training",
        caption=f"What the training logs at every update, over its own samples. {note}".strip(),
        panels=tuple(panels),
        legend=tuple((run.colour, run.label) for run in trainings),
        missing="" if panels else "no update was logged" if trainings else "no training run was given",
        about="quantity",
    )


def _part(name: str) -> tuple[int, str]:
    order = ("parts.format", "parts.correctness", "parts.calibration")
    return (order.index(name) if name in order else len(order), name)


def _bucketed(update: Floats, values: Floats, points: int = _TRAINING_POINTS) -> tuple[Floats, Floats, int]:
    """Means over enough updates to leave few points; undefined ones are left out."""
    known = ~np.isnan(values)
    update, values = update[known], values[known]
    size = math.ceil(len(values) / points)
    if size <= 1:
        return update, values, 1
    starts = np.arange(0, len(values), size)
    counts = np.diff(np.append(starts, len(values)))
    return (np.add.reduceat(update, starts) / counts, np.add.reduceat(values, starts) / counts, size)


_HELD_OUT = (("accuracy", "Accuracy"), ("auroc", "AUROC"), ("brier", "Brier score"), ("ece", "ECE"))


def held_out(trainings: Sequence[TrainingRun]) -> Figure:
    """The evaluations on held-out problems during training, with their intervals."""
    tasks = list(
        dict.fromkeys(task for run in trainings for _, results in run.evals for task in _tasks(results))
    )
    panels = []
    for task in tasks:
        for name, title in _HELD_OUT:
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
        caption="Evaluations on problems that were not trained on; bands are 95% intervals.",
        panels=tuple(panels),
        legend=tuple((run.colour, run.label) for run in trainings),
        missing="" if panels else "no training has finished a held-out evaluation",
        about="quantity",
    )


def _tasks(results: Mapping[str, Any]) -> Mapping[str, Any]:
    tasks = results.get("tasks")
    return tasks if isinstance(tasks, Mapping) else {}


def estimate_of(task: Any, name: str) -> tuple[float | None, float, float]:
    """A metric's value and interval in the results of a task; None where there is none."""
    metrics_of = task.get("metrics") if isinstance(task, Mapping) else None
    stored = metrics_of.get(name) if isinstance(metrics_of, Mapping) else None
    if not isinstance(stored, Mapping):
        return None, math.nan, math.nan
    value, (low, high) = number_of(stored.get("value")), interval_of(stored)
    if math.isnan(value) or math.isnan(low) or math.isnan(high):
        low = high = math.nan
    return (None if math.isnan(value) else value), low, high


# --- scoring rules ----------------------------------------------------------------------------------


def rules() -> Figure:
    """Expected reward of an honest answer against its chance of being right, for each scoring rule."""
    return incentives([check_incentives(name) for name in RULES])


def incentives(reports: Sequence[Incentives]) -> Figure:
    """Expected reward of an honest answer against its chance of being right, one curve a rule."""
    layers: list[Line] = []
    for colour, report in enumerate(reports):
        at = np.flatnonzero(np.isclose(report.p * 50, np.rint(report.p * 50), atol=1e-9))
        falling = report.falling
        verdict = f"earns less from {falling[0]:g} to {falling[1]:g}" if falling else "earns more"
        tips = [
            f"{report.rule}\nchance of being right {p:.2f}\nexpected reward {w:.3f}\n"
            f"a likelier answer {verdict}"
            for p, w in zip(report.p[at], report.expected_reward[at], strict=True)
        ]
        dashed = report.rule == "log-clipped"
        layers.append(
            Line(report.p[at], report.expected_reward[at], colour, report.rule, tips, dashed=dashed)
        )
    x = Axis("chance of being right, p", 0, 1, share_axis("").ticks)
    y = axis("expected reward, W(p)", [value for line in layers for value in line.y])
    shades = [
        Band(report.falling, (y.low, y.low), (y.high, y.high), colour)
        for colour, report in enumerate(reports)
        if report.falling
    ]
    weights = ", ".join(dict.fromkeys(f"{report.lam:g}" for report in reports))
    return Figure(
        name="scoring-rules",
        title="What each scoring rule pays",
        caption=(
            f"Expected reward λ · 1[correct] − S(q, correct), λ = {weights}, of an honest answer (q = p) "
            "against its chance of being right. Where a curve falls (shaded), a model earns more with an "
            "answer that is less likely to be right: log rules do so below p = 0.27, Brier and spherical "
            "never."
        ),
        panels=(Panel("", x, y, (*shades, *layers)),),
        legend=tuple((colour, f"{report.rule}, λ = {report.lam:g}") for colour, report in enumerate(reports)),
        about="",
    )
