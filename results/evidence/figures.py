"""The two figures of the evidence, drawn from the outcomes that are kept.

evidence-reliability   accuracy against stated confidence: the start, RLVR and RLCR, on what was trained
evidence-training      accuracy, Brier score, confidence and AUROC of what was sampled, update by update
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from results.evidence.collect import Outcome, answers, finished, read_outcome
from results.evidence.plan import MAIN, TRAINED

from rlcr import metrics
from rlcr.report.curves import number_or_na, reliability_panel
from rlcr.report.plots import save
from rlcr.report.shapes import Band, Figure, Line, Panel, axis, share_axis

IMAGES = Path("docs/images")
NAMES = {"start": "start", "rlvr": "RLVR", "rlcr": "RLCR"}
_COLOURS = {"start": 3, "rlvr": 1, "rlcr": 0}
_CURVES = (("accuracy", "Accuracy"), ("brier", "Brier score"), ("confidence_mean", "Mean confidence"))
#: Updates that a point of a curve is the mean of: a single one has few answers.
_WINDOW = 5


def draw() -> list[Path]:
    """Write the figures for which there is anything; their paths."""
    start = read_outcome("start")
    made: list[Path] = []
    panels = [
        _reliability(family, name, outcomes)
        for family in TRAINED
        if any(finished(family, variant) for variant in MAIN)
        for name, outcomes in {
            "start": [start] if start else [],
            **{variant: list(finished(family, variant).values()) for variant in MAIN},
        }.items()
        if outcomes
    ]
    if panels:
        title = "SmolLM2-135M: what confidence is worth, on test problems"
        figure = Figure("evidence-reliability", title, "", tuple(panels))
        made += save(figure, [IMAGES / "evidence-reliability.png"])
    for family in TRAINED:
        curves = _training(family)
        if curves.panels:
            made += save(curves, [IMAGES / f"{curves.name}.png"])
    return made


def _reliability(family: str, name: str, outcomes: Sequence[Outcome]) -> Panel:
    correct, confidence, _ = answers(outcomes, family)
    stated = [(c, q) for c, q in zip(correct, confidence, strict=True) if q is not None]
    right, sure = np.array([c for c, _ in stated]), np.array([q for _, q in stated])
    seeds = f" · {len(outcomes)} seeds" if len(outcomes) > 1 else ""
    subtitle = f"ECE {metrics.ece(right, sure):.3f} · AUROC {number_or_na(metrics.auroc(right, sure))}{seeds}"
    curve = metrics.reliability_curve(right, sure)
    return reliability_panel(f"{family}: {NAMES[name]}", curve, subtitle, _COLOURS[name])


def _training(family: str) -> Figure:
    """Means over seeds, with the range of the seeds."""
    found = {variant: list(finished(family, variant).values()) for variant in MAIN}
    panels = []
    for name, title in _CURVES:
        layers: list[Line | Band] = []
        for variant, outcomes in found.items():
            if not outcomes:
                continue
            runs_SU = np.array([_smoothed(one["training"]["curves"][name]) for one in outcomes])
            update = np.arange(_WINDOW, _WINDOW + runs_SU.shape[1])
            layers.append(Band(update, runs_SU.min(axis=0), runs_SU.max(axis=0), _COLOURS[variant]))
            layers.append(Line(update, runs_SU.mean(axis=0), _COLOURS[variant], NAMES[variant]))
        if layers:
            last = max(float(layer.x[-1]) for layer in layers)
            panels.append(Panel(title, axis("update", [0, last], zero=True), share_axis(""), tuple(layers)))
    legend = tuple((_COLOURS[variant], NAMES[variant]) for variant in MAIN if found[variant])
    title = f"SmolLM2-135M trained on {family}, means of {_WINDOW} updates"
    return Figure(f"evidence-training-{family}", title, "", tuple(panels), legend)


def _smoothed(values: Sequence[float | None]) -> np.ndarray:
    """Means of so many updates up to each."""
    known = np.array([np.nan if value is None else value for value in values], dtype=float)
    return np.convolve(known, np.full(_WINDOW, 1 / _WINDOW), mode="valid")
