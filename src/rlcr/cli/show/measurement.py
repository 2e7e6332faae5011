"""Results as tables on the terminal."""

from __future__ import annotations

import math
from typing import Any

from rich.markup import escape
from rich.table import Table

from rlcr.cli.show import plain_table
from rlcr.evaluate.score import Scores
from rlcr.metrics import Estimate, MacroAverage, Summary
from rlcr.metrics.measurement import Measurement
from rlcr.metrics.tables import PARTIAL_NOTE, Cell, estimate_text, of_all, resting_on
from rlcr.scoring import Incentives
from rlcr.terminal import console, say

# What a reader should know of each metric; the order is that of the tables.
LABELS: dict[str, tuple[str, str]] = {
    "accuracy": ("accuracy", "↑"),
    "auroc": ("AUROC", "↑"),
    "brier": ("Brier", "↓"),
    "ece": ("ECE (paper's bins)", "↓"),
    "ece_decimal": ("ECE (decimal bins)", "↓"),
    "smooth_ece": ("smooth ECE", "↓"),
    "expected_reward": ("reward (accuracy - Brier)", "↑"),
    "brier_skill": ("Brier skill", "↑"),
    "reliability": ("  reliability", "↓"),
    "resolution": ("  resolution", "↑"),
    "uncertainty": ("  uncertainty", ""),
    "within_bin": ("  within bins", ""),
    "nll": ("NLL", "↓"),
    "aurc": ("AURC", "↓"),
    "mean_confidence": ("mean confidence", ""),
    "confidence_gap": ("confidence gap", "→ 0"),
    "overconfidence": ("overconfidence", "↓"),
    "underconfidence": ("underconfidence", "↓"),
    "coverage": ("coverage", "↑"),
}
_HEADLINE = ("accuracy", "auroc", "brier", "ece")


def print_measurement(measurement: Measurement) -> None:
    """All metrics with intervals; then, if there are groups, the headline metrics of each."""
    out = console()
    overall = measurement.overall
    samples = f"{overall.n:,} samples"
    if overall.questions != overall.n:
        samples += f" of {overall.questions:,} questions"
    every = overall.n + measurement.unscorable + measurement.failed
    headings = "metric", ">value", f">{overall.level:.0%} interval", "better", ">rests on"
    table = plain_table(*headings, title=samples)
    for name, (label, better) in LABELS.items():
        estimate, rows = overall.metrics[name], overall.rows(name)
        value = resting_on(Cell(number(estimate.value)), rows, every).text
        table.add_row(label, value, _interval(estimate), better, of_all(rows, every))
    out.print(table)
    if measurement.macro:
        out.print()
        out.print(_groups(measurement))
    for note in _notes(measurement):
        out.print(escape(note), soft_wrap=True)


def _groups(measurement: Measurement) -> Table:
    headline = (" ".join(LABELS[name]).replace(" (paper's bins)", "") for name in _HEADLINE)
    table = plain_table("group", ">n", ">rated", *(f">{label}" for label in headline))
    table.columns[0].no_wrap = True
    assert measurement.macro is not None
    rows: list[tuple[str, Summary | MacroAverage]] = [
        *measurement.by.items(),
        ("average of groups", measurement.macro),
    ]
    for name, measured in rows:
        texts = {metric: Cell(estimate_text(measured.metrics[metric])) for metric in _HEADLINE}
        cells = [resting_on(cell, measured.rows(metric), measured.n) for metric, cell in texts.items()]
        counts = f"{measured.n:,}", of_all(measured.rated, measured.n)
        table.add_row(escape(name), *counts, *(cell.text for cell in cells))
    return table


def _notes(measurement: Measurement) -> list[str]:
    notes = list(measurement.overall.notes)
    if measurement.overall.rated < measurement.overall.n or measurement.unscorable or measurement.failed:
        notes.append(PARTIAL_NOTE)
    if measurement.unscorable:
        notes.append(f"{measurement.unscorable:,} samples could not be scored and are left out")
    if measurement.failed:
        notes.append(f"{measurement.failed:,} samples were asked for and failed: they are in no number")
    notes += [f"group {name}: nothing of it could be scored" for name in measurement.unscored_groups]
    return [f"note: {note}" for note in notes]


def print_scores(scores: Scores) -> None:
    """The metrics, how the completions read, and with paper grading the strict accuracy beside it."""
    print_measurement(scores.measurement)
    out, tally = console(), scores.tally
    share = tally.well_formed / tally.completions
    out.print(f"\n{tally.completions:,} completions, {share:.1%} well-formed, grading: {scores.grading}")
    for count, what in (
        (tally.no_answer, "without an answer (counted as wrong)"),
        (tally.no_confidence, "without a readable confidence"),
    ):
        if count:
            out.print(f"{count:,} {what}")
    if tally.leniencies:
        leniencies = ", ".join(f"{name} {count:,}" for name, count in tally.leniencies.most_common())
        out.print(f"read leniently: {leniencies}", soft_wrap=True)
    for reason, count in tally.unscorable.most_common():
        out.print(escape(f"unscorable: {count:,} x {reason}"), soft_wrap=True)
    for warning in scores.warnings:
        out.print(escape(f"warning: {warning}"), soft_wrap=True)
    if scores.strict:
        values = scores.strict.overall.metrics
        headline = ", ".join(f"{LABELS[name][0]} {number(values[name].value)}" for name in _HEADLINE)
        out.print(f"the same completions graded strictly: {headline}", soft_wrap=True)


def print_incentives(report: Incentives) -> None:
    """The two halves of the theorem, in words."""
    yes_no = {True: "yes", False: "NO"}
    say(f"R = {report.lam:g} * correct - S(q, correct), S = {report.rule}")
    say(f"honest confidence pays best (S is proper):  {yes_no[report.proper]}")
    if report.dishonest_example:
        p, q = report.dishonest_example
        say(f"    with a chance of {p:.3g} to be right it pays best to say {q:.3g}")
    say(f"a likelier answer is always worth more:     {yes_no[report.correctness]}")
    if report.falling:
        low, high = report.falling
        say(f"    the expected reward falls for chances from {low:.3g} to {high:.3g}")
    say(f"least lambda that is enough:                {report.least_lambda:.6g}")


def incentives_to_dict(report: Incentives) -> dict[str, Any]:
    """As JSON; an infinite least lambda is None, which JSON can say."""
    return {
        "rule": report.rule,
        "lambda": report.lam,
        "proper": report.proper,
        "correctness_incentive": report.correctness,
        "least_lambda": report.least_lambda if math.isfinite(report.least_lambda) else None,
        "falling": report.falling,
    }


def number(value: float | None) -> str:
    """Four digits, or n/a.

    >>> number(0.12345), number(None)
    ('0.1235', 'n/a')
    """
    return "n/a" if value is None else f"{value:.4f}"


def _interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return ""
    return escape(f"[{estimate.low:.4f}, {estimate.high:.4f}]")
