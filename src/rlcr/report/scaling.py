"""Figures and tables of what several samples are worth: votes, adaptive sampling, analyses, selection.

From voting.json, analyses.json and selective.json, as `rlcr vote`, `rlcr analyses` and `rlcr select` write
them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rlcr.metrics.tables import Cell, Heading, Table, difference_cell, estimate_cell, text_headings
from rlcr.report.checking import ShapeError, estimate, items, mapping, maybe_numbers, numbers
from rlcr.report.reading import EvalRun
from rlcr.report.shapes import Axis, Band, Figure, Layer, Line, Panel, axis, interval, number

Having = Sequence[tuple[int, EvalRun, Mapping[str, Any]]]

# Ways of choosing keep their colour; the oracle is grey and dashed.
_COLOURS = {
    "majority": 0,
    "max-confidence": 1,
    "confidence-weighted": 2,
    "softmax-weighted": 3,
    "max-likelihood": 4,
    "likelihood-weighted": 5,
}
_ORACLE, _ADAPTIVE, _ACCURACY = "pass@N", "adaptive", "accuracy"
#: Seven bands over each other hide every curve: these two are what the question is about.
_BANDED = ("majority", "confidence-weighted")


# --- votes ------------------------------------------------------------------------------------------


class _Curve:
    """A curve of a file, checked."""

    def __init__(self, value: Any, task: str) -> None:
        curve = mapping(value, task)
        self.name, self.metric = str(curve.get("name", "votes")), str(curve.get("metric", _ACCURACY))
        self.n, self.value = (
            numbers(curve.get("n"), f"{task}, n"),
            maybe_numbers(curve.get("value"), f"{task}, value"),
        )
        if len(self.n) != len(self.value) or min(self.n, default=1) < 1:
            raise ShapeError(f"{task}: n and value must be equally long, n at least 1")
        ends = [
            maybe_numbers(curve[end], f"{task}, {end}")
            if curve.get(end) is not None
            else [math.nan] * len(self.n)
            for end in ("low", "high")
        ]
        if any(len(end) != len(self.n) for end in ends):
            raise ShapeError(f"{task}: low and high must be as long as n")
        self.low, self.high = ends

    def layers(self, colour: int | None, label: str, *, band: bool, every: bool = False) -> list[Layer]:
        """The curve at powers of two and at its end, which is where marks can be told apart."""
        last = len(self.n) - 1
        at = [i for i, n in enumerate(self.n) if every or i == last or math.log2(n).is_integer()]
        x, y, low, high = ([column[i] for i in at] for column in (self.n, self.value, self.low, self.high))
        tips = [
            f"{label}\n{f'{number(n)} on average' if every else f'N = {number(n)}'}\n"
            f"{self.metric}: {number(v)}{interval(lo, hi)}"
            for n, v, lo, hi in zip(x, y, low, high, strict=True)
        ]
        line = Line(x, y, colour, label, tips, marks=True, dashed=colour is None)
        return [Band(x, low, high, colour), line] if band else [line]


def voting(having: Having) -> list[Figure]:
    """Accuracy by way of choosing, adaptive sampling, and the confidence of the voted answer, against N."""
    panels: dict[str, list[Panel]] = {"voting": [], "adaptive": [], "voted-confidence": []}
    names: dict[str, dict[str, int | None]] = {name: {} for name in panels}
    for _, run, tasks in having:
        for task, stored in tasks.items():
            curves = [_Curve(value, task) for value in items(stored, task)]
            title = f"{task} · {run.label}" if len(having) > 1 else task
            by_metric: dict[str, list[_Curve]] = {}
            for curve in curves:
                by_metric.setdefault(curve.metric, []).append(curve)
            for metric, some in by_metric.items():
                figure = "voting" if metric == _ACCURACY else "voted-confidence"
                plain = [curve for curve in some if curve.name != _ADAPTIVE]
                heading = title if metric == _ACCURACY else f"{title}: {metric}"
                panels[figure].append(_panel(heading, metric, plain, names[figure]))
            adaptive = [c for c in by_metric.get(_ACCURACY, []) if c.name in (_ADAPTIVE, *_BANDED)]
            if any(curve.name == _ADAPTIVE for curve in adaptive):
                panels["adaptive"].append(_adaptive_panel(title, adaptive, names["adaptive"]))
    captions = {
        "voting": (
            "Accuracy by number of samples",
            "Accuracy of the answer that is chosen among N samples of a question. Bands are 95% intervals "
            "over questions, of the plain and of the confidence-weighted majority; those of the others are "
            "in their marks. pass@N is what the best way of choosing could reach.",
        ),
        "adaptive": (
            "Adaptive sampling",
            "Accuracy against the samples that a question took on average. Adaptive: sampled until the "
            "leading answer is safe, from little safety (left) to certainty (right), with the same budget "
            "for every question. The band is the 95% interval of the confidence-weighted vote.",
        ),
        "voted-confidence": (
            "Confidence of the voted answer",
            "How calibrated it is to take the share of votes, the share of confidence, or the mean "
            "confidence of those who agree, for the confidence in a voted answer.",
        ),
    }
    return [
        Figure(
            name=name,
            title=title,
            caption=caption,
            panels=tuple(panels[name]),
            legend=tuple((colour, label) for label, colour in names[name].items()),
            missing="" if panels[name] else "the file holds no curve",
            about="task",
        )
        for name, (title, caption) in captions.items()
        if panels[name] or name == "voting"
    ]


def _panel(title: str, metric: str, curves: Sequence[_Curve], names: dict[str, int | None]) -> Panel:
    layers: list[Layer] = []
    # The oracle first, so that the others lie over it.
    for curve in sorted(curves, key=lambda curve: curve.name != _ORACLE):
        colour = _colour(curve.name, names)
        layers += curve.layers(colour, curve.name, band=metric == _ACCURACY and curve.name in _BANDED)
    return Panel(title, _samples_axis("samples (N)", layers), axis(metric, heights(layers)), tuple(layers))


def _adaptive_panel(title: str, curves: Sequence[_Curve], names: dict[str, int | None]) -> Panel:
    layers: list[Layer] = []
    for curve in curves:
        colour = 1 if curve.name == _ADAPTIVE else _COLOURS[curve.name]
        label = curve.name if curve.name == _ADAPTIVE else f"{curve.name}, fixed N"
        names[label] = colour
        # With a band, so that differences within the noise look as small as they are.
        band = curve.name == "confidence-weighted"
        layers += curve.layers(colour, label, band=band, every=curve.name == _ADAPTIVE)
    x = _samples_axis("samples of a question, on average", layers)
    return Panel(title, x, axis(_ACCURACY, heights(layers)), tuple(layers))


def _colour(name: str, names: dict[str, int | None]) -> int | None:
    if name not in names:
        free = len([n for n in names if n != _ORACLE])
        names[name] = None if name == _ORACLE else _COLOURS.get(name, free)
    return names[name]


def heights(layers: Sequence[Layer]) -> list[float]:
    """Every height that an axis must hold."""
    values: list[float] = []
    for layer in layers:
        if isinstance(layer, Line):
            values += list(layer.y)
        elif isinstance(layer, Band):
            values += [*layer.low, *layer.high]
    return values


def _samples_axis(label: str, layers: Sequence[Layer]) -> Axis:
    """Powers of two, from 1 to the largest number."""
    most = max((max(layer.x) for layer in layers if isinstance(layer, Line) and len(layer.x)), default=2.0)
    powers = [2**k for k in range(int(math.log2(max(most, 2))) + 1)]
    return Axis(label, 1 / 1.15, max(2.0, most) * 1.15, tuple((p, f"{p:g}") for p in powers), log=True)


def analyses(having: Having) -> list[Figure]:
    """Brier score and ECE of the mean confidence of k analyses of the same answer."""
    layers_of: dict[tuple[str, str], list[Layer]] = {}
    for colour, run, tasks in having:
        for task, stored in tasks.items():
            for curve in (_Curve(value, task) for value in items(stored, task)):
                layers = layers_of.setdefault((task, curve.metric), [])
                layers += curve.layers(colour, run.label, band=True)
    panels = tuple(
        Panel(
            f"{task}: {metric}",
            _samples_axis("analyses (K)", layers),
            axis(metric, heights(layers)),
            tuple(layers),
        )
        for (task, metric), layers in layers_of.items()
    )
    return [
        Figure(
            name="analysis-ensembling",
            title="Several analyses of one answer",
            caption="Is the mean confidence of K analyses of the same answer worth more than one?",
            panels=panels,
            legend=tuple((colour, run.label) for colour, run, _ in having),
            missing="" if panels else "no analysis states a confidence",
            about="task",
        )
    ]


def differences(having: Having) -> Table | None:
    """How every way of choosing differs from a plain majority, at the largest N."""
    rows = []
    for colour, run, _ in having:
        details = run.artefacts["voting.json"].get("details")
        for task, stored in (details if isinstance(details, Mapping) else {}).items():
            stored = mapping(stored, f"details, {task}")
            for name, value in mapping(stored.get("minus_majority", {}), f"{task}, minus_majority").items():
                if isinstance(value, Mapping) and value.get("value") is None:
                    continue
                rows.append(
                    (
                        Cell(run.label, series=colour),
                        Cell(str(task)),
                        Cell(str(name)),
                        Cell(str(stored.get("most", "?"))),
                        difference_cell(*estimate(value, f"{task}, {name}"), "up"),
                    )
                )
    if not rows:
        return None
    columns = (
        *text_headings("Run", "Task", "Choose by"),
        Heading("N", key=True),
        Heading("Δ Accuracy", "up", interval=True, key=True),
    )
    caption = "On the same resamples of the questions. Marked where the interval excludes 0."
    return Table("votes-minus-majority", "Against a plain majority", columns, tuple(rows), caption)


def _stored_cell(stored: Mapping[str, Any], name: str, task: str) -> Cell:
    value = mapping(stored.get(name), f"{task}, {name}")
    if value.get("value") is None:
        return Cell("n/a", note=str(value.get("note", "")))
    return estimate_cell(*estimate(value, f"{task}, {name}"))


def adaptive_runs(having: Having) -> Table | None:
    """What `rlcr eval --adaptive` spent and came to, beside the vote of the first round alone."""
    rows = []
    for colour, run, tasks in having:
        rule = mapping(run.artefacts["adaptive.json"].get("rule"), "rule")
        for task, stored in tasks.items():
            stored = mapping(stored, task)
            cells = [_stored_cell(stored, name, task) for name in ("samples", "accuracy", "first_round")]
            rows.append(
                (
                    Cell(run.label, series=colour),
                    Cell(str(task)),
                    Cell(str(rule.get("safety", "?"))),
                    Cell(str(rule.get("budget", "?"))),
                    *cells,
                )
            )
    if not rows:
        return None
    columns = (
        *text_headings("Run", "Task"),
        Heading("Safety", identifies=True),
        Heading("Budget", identifies=True),
        Heading("Samples used", "down", interval=True, key=True),
        Heading("Voted accuracy", "up", interval=True, key=True),
        Heading("Fixed N, first round", "up", interval=True, key=True),
    )
    caption = (
        "Confidence-weighted votes of as many samples as each question took, and of the first round alone, "
        "which every question has. All other numbers of such a run are of its first round."
    )
    return Table("adaptive-runs", "Sampled until safe", columns, tuple(rows), caption)


def selection(having: Having) -> Table | None:
    """The thresholds of `rlcr select`: chosen on one half of the questions, checked on the other."""
    rows = []
    for colour, run, tasks in having:
        wanted = run.artefacts["selective.json"].get("precision")
        for task, stored in tasks.items():
            for check in items(mapping(stored, task).get("checks"), f"{task}, checks"):
                check = mapping(check, task)
                cells = [_stored_cell(check, name, task) for name in ("threshold", "precision", "coverage")]
                answers = check.get("answers")
                cells.append(Cell("n/a" if answers is None else str(answers)))
                rows.append((Cell(run.label, series=colour), Cell(str(task)), Cell(str(wanted)), *cells))
    if not rows:
        return None
    columns = (
        *text_headings("Run", "Task"),
        Heading("Wanted", identifies=True),
        Heading("Threshold", interval=True, key=True),
        Heading("Precision", interval=True, key=True),
        Heading("Coverage", interval=True, key=True),
        Heading("Answers"),
    )
    caption = (
        "The lowest confidence at which answers are right in the wanted share, chosen on one half of the "
        "questions; precision, coverage and answers are those on the other half. Each half chooses once."
    )
    return Table("selective", "Answering only when sure", columns, tuple(rows), caption)
