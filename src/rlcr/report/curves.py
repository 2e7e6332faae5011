"""From runs to the figures of the report, as numbers: reliability, risk, scoring rules.

Each function gives a figure that can be drawn, or one that says what is missing. Runs keep their colour
through the whole report.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rlcr import metrics
from rlcr.report.fields import interval_of, number_of
from rlcr.report.reading import EvalRun
from rlcr.report.rows import Floats
from rlcr.report.shapes import (
    Axis,
    Band,
    Bars,
    Figure,
    Line,
    Panel,
    Stems,
    axis,
    share_axis,
)
from rlcr.scoring import RULES, Incentives, check_incentives

_RISK_POINTS = 60
#: What a figure calls a metric.
METRIC_NAMES = {"accuracy": "Accuracy", "auroc": "AUROC", "brier": "Brier score", "ece": "ECE"}


@dataclass(frozen=True)
class Scope:
    """Tasks that are looked at together."""

    name: str
    title: str
    tasks: tuple[str, ...]


def scopes(runs: Sequence[EvalRun], trained_on: Sequence[str]) -> list[Scope]:
    """The pool first, then every task by itself. The pool leaves out what is known to be trained on.

    There is no pool where runs have some of its tasks and not others: their averages would be of different
    things.
    """
    tasks = tuple(dict.fromkeys(task for run in runs for task in run.tasks))
    pool = [
        scope
        for scope in pooled(tasks, trained_on)
        if all(len(set(scope.tasks) & set(run.tasks)) in (0, len(scope.tasks)) for run in runs)
    ]
    return [*pool, *(Scope(name, task, (task,)) for name, task in _file_names(tasks))]


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
    "the dashed diagonal it is; points below it are overconfident. The size of a point and the grey bar "
    "behind it show the share of answers in the bin."
)
_SHORTLY = (
    "Accuracy (vertical) against stated confidence (horizontal). On the dashed diagonal a model is right as "
    "often as it says; below it, it is overconfident. Grey bars: the share of answers at each confidence."
)
_POOLED = (
    "The curves pool the answers of all tasks: overconfidence on one task and underconfidence on another "
    "cancel out there, but not in the ECE, which is the mean of the tasks' ECEs."
)


# --- reliability ------------------------------------------------------------------------------------


def reliability(
    runs: Sequence[EvalRun],
    scope: Scope,
    *,
    is_row: bool = False,
    eces: Mapping[str, float | None] | None = None,
) -> Figure:
    """One panel a run: accuracy against stated confidence over the histogram of confidences.

    ``eces`` are the ECEs of the runs in the table beside it, where those are not of the points: exact ones,
    or averages of tasks.
    """
    having = [(colour, run) for colour, run in enumerate(runs) if set(scope.tasks) & set(run.tasks)]
    panels = tuple(
        _reliability_panel(run, colour, scope, run.label, (eces or {}).get(run.label), is_row)
        for colour, run in having
    )
    without = [run.label for run in runs if not set(scope.tasks) & set(run.tasks)]
    figure = _reliability_figure(
        f"reliability-{'first' if is_row else scope.name}", scope.title, panels, is_row
    )
    notes = [f"Not evaluated on this task: {'; '.join(without)}."] if without and not is_row else []
    if is_row and len(scope.tasks) > 1:
        notes.append(_POOLED)
    return replace(figure, notes=tuple(notes))


def reliability_row(runs: Sequence[EvalRun], scope_list: Sequence[Scope], most: int) -> Figure:
    """One panel for each run and task, where runs were asked different ones; ``most`` of them at most."""
    every = [
        (colour, run, scope)
        for scope in scope_list
        for colour, run in enumerate(runs)
        if set(scope.tasks) & set(run.tasks)
    ]
    panels = tuple(
        _reliability_panel(run, colour, scope, f"{run.label} · {scope.title}", None, True)
        for colour, run, scope in every[:most]
    )
    figure = _reliability_figure("reliability-first", "Each run and task", panels, True)
    left = len(every) - len(panels)
    more = "1 more is" if left == 1 else f"{left} more are"
    return replace(figure, notes=(f"{more} below, task by task.",) if left else ())


def _reliability_figure(name: str, title: str, panels: tuple[Panel, ...], is_row: bool) -> Figure:
    return Figure(
        name=name,
        title=title,
        caption=_SHORTLY if is_row else "",
        panels=panels,
        missing="" if any(not panel.missing for panel in panels) else _all_missing(panels),
        about="run",
        is_row=is_row,
    )


def _all_missing(panels: Sequence[Panel]) -> str:
    reasons = dict.fromkeys(f"{panel.title}: {panel.missing}" for panel in panels)
    return "; ".join(reasons) or "no evaluation was given"


def _reliability_panel(
    run: EvalRun, colour: int, scope: Scope, title: str, ece: float | None, is_row: bool
) -> Panel:
    correct, confidence, _ = run.rows.scored(scope.tasks)
    stated = ~np.isnan(confidence)
    if not stated.any():
        x, y = share_axis("stated confidence"), share_axis("accuracy")
        missing = _why_nothing(run, scope, len(correct))
        return Panel(title, x, y, square=True, missing=missing, series=colour)
    pooled = ece is not None and len(scope.tasks) > 1
    return rated_panel(title, correct[stated], confidence[stated], colour, ece, is_row=is_row, pooled=pooled)


def rated_panel(
    title: str,
    correct: ArrayLike,
    confidence: ArrayLike,
    colour: int = 0,
    ece: float | None = None,
    *,
    is_row: bool = False,
    pooled: bool = False,
) -> Panel:
    """The reliability of answers that all state a confidence, with its numbers.

    Where answers of several tasks are ``pooled``, the points have another ECE than the tasks on average.
    """
    drawn = metrics.ece(correct, confidence)
    subtitle = f"ECE {drawn if ece is None else ece:.3f}"
    if pooled:
        subtitle += f" · pooled\N{NO-BREAK SPACE}{drawn:.3f}"
    if not is_row:
        subtitle += f" · AUROC {number_or_na(metrics.auroc(correct, confidence))}"
    subtitle += f" · n\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{np.size(correct):,}"
    return reliability_panel(title, metrics.reliability_curve(correct, confidence), subtitle, colour)


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
    return Panel(title, x, y, layers, subtitle, square=True, series=colour)


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
            "Keep only the most confident answers: the share kept (coverage) against the error rate among "
            "them (risk). Lower is better. A curve that rises from left to right means that confidence tells "
            "right from wrong; a model that always states the same confidence is a single point."
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
