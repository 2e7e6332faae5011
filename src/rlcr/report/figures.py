"""Figures. Matplotlib is imported when one is drawn, never before."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rlcr.errors import RlcrError
from rlcr.files import new_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from rlcr.metrics import ReliabilityCurve, Summary
    from rlcr.scoring import Incentives

# Okabe and Ito's colours: told apart by colour-blind readers and in grey print.
BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#8A8A8A"
_KINDS = (".png", ".svg", ".pdf")
_SERIES = (BLUE, ORANGE, GREEN, RED)


def _figure(width: float, height: float) -> Figure:
    # The object interface, not pyplot: no global state, no display needed, safe in threads.
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def check_name(path: Path) -> None:
    """Raise unless a figure can be written under this name: before the work, not after it."""
    if path.suffix.lower() not in _KINDS or path.is_dir():
        raise RlcrError(f"{path}: cannot write the figure: its name must end in {', '.join(_KINDS)}")


def save(figure: Figure, path: Path) -> None:
    """Write a figure; the ending of the name says how. What was there before stays if that fails."""
    check_name(path)
    with new_file(path) as out:
        figure.savefig(out, dpi=160, format=path.suffix[1:].lower())


def reliability_diagram(curve: ReliabilityCurve, summary: Summary, title: str) -> Figure:
    """Accuracy against stated confidence, bin by bin, over the histogram of confidences.

    On the diagonal a model is as often right as it says. The bars from it to the points are what ECE adds up.
    """
    figure = _figure(5.2, 5.9)
    axes = figure.subplots()
    share = curve.count / curve.count.sum()
    axes.bar(
        curve.lower,
        share,
        width=curve.upper - curve.lower,
        align="edge",
        color=GREY,
        alpha=0.25,
        edgecolor="white",
        label="share of answers",
    )
    axes.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1, label="perfectly calibrated")
    confidence, accuracy = curve.confidence, curve.accuracy
    axes.vlines(confidence, confidence, accuracy, color=RED, linewidth=2, alpha=0.6, label="calibration gap")
    axes.plot(confidence, accuracy, color=BLUE, linewidth=1.5)
    # The area of a point is its share of the answers, so that a bin of five does not look like one of 500.
    axes.scatter(confidence, accuracy, s=15 + 250 * share, color=BLUE, zorder=3, label="accuracy")
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xlabel="stated confidence", ylabel="accuracy")
    axes.set_aspect("equal")
    axes.grid(alpha=0.2)
    # Words stay outside the square: points may lie anywhere in it.
    headline = "   ".join(f"{label} {_short(summary, name)}" for name, label in _HEADLINE)
    axes.set_title(f"{headline}   n = {summary.n:,}", fontsize="small")
    figure.suptitle(title, parse_math=False)  # a file's name is not a formula
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize="small")
    return figure


_HEADLINE = (("accuracy", "accuracy"), ("auroc", "AUROC"), ("brier", "Brier"), ("ece", "ECE"))


def _short(summary: Summary, name: str) -> str:
    value = summary.metrics[name].value
    return "n/a" if value is None else f"{value:.3f}"


def expected_reward(reports: Sequence[Incentives]) -> Figure:
    """Expected reward of an honest answer against its chance of being right, one curve a rule.

    Where the curve falls (shaded), a model earns more with an answer that is less likely to be right.
    """
    figure = _figure(5.6, 4.4)
    axes = figure.subplots()
    for report, colour in zip(reports, _SERIES, strict=False):
        label = f"{report.rule}, λ = {report.lam:g}"
        axes.plot(report.p, report.expected_reward, color=colour, linewidth=2, label=label)
        if report.falling:
            shade = f"{report.rule}: a likelier answer earns less"
            axes.axvspan(*report.falling, color=colour, alpha=0.12, linewidth=0, label=shade)
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set(xlim=(0, 1), xlabel="chance of being right, p", ylabel="expected reward, W(p)")
    axes.grid(alpha=0.2)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize="small")
    return figure
