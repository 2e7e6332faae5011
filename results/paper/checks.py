"""What must hold between printed numbers, whatever the models did.

Printed numbers are rounded, so a number stands for an interval, and a check fails only where no numbers in
the intervals could pass it. Not checked: intervals of AUROC and Brier, which need outputs (`recompute`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from results.paper.tables import Cell, Paper, Place

#: With 1,000 resamples the half-widths of a bootstrap have a standard deviation of 3% around the exact one.
BOOTSTRAP_SCATTER = 0.08


@dataclass(frozen=True)
class Finding:
    """A cell that cannot be right as printed, or not together with others."""

    place: Place
    says: str
    expected: str


@dataclass(frozen=True)
class Outcome:
    """How many cells (or columns, or quotes) a check looked at, and what it found."""

    checked: int
    findings: list[Finding]


_Verdicts = Iterator[Finding | None]


def run_checks(paper: Paper) -> dict[str, Outcome]:
    """Every check over all tables."""
    outcomes = {}
    for name, check in CHECKS.items():
        verdicts = list(check(paper))
        outcomes[name] = Outcome(len(verdicts), [verdict for verdict in verdicts if verdict])
    return outcomes


def averages(paper: Paper) -> _Verdicts:
    """An average is the mean of its data sets, as far as rounding allows."""
    for cell in _numbers(paper):
        parts = average_parts(paper, cell)
        if not parts:
            continue
        low = sum(part.share[0] for part in parts) / len(parts)
        high = sum(part.share[1] for part in parts) / len(parts)
        mean = (low + high) / 2 * cell.scale
        holds = cell.number.may_be(low * cell.scale, high * cell.scale)
        yield None if holds else _finding(cell, f"{mean:.{3 if cell.scale == 1 else 2}f}")


def average_parts(paper: Paper, cell: Cell) -> list[Cell]:
    """The cells that an average is the mean of; none if it is no average, or a part is not printed."""
    measured = cell.measured
    trained_on = "" if measured.method == "Base" else measured.trained_on
    names = paper.averages.get(measured.trained_on, {}).get(measured.data, [])
    parts = [paper.of(measured._replace(trained_on=trained_on, data=name)) for name in names]
    return [part[0] for part in parts] if all(parts) else []


def bold(paper: Paper) -> _Verdicts:
    """The best number of a column, and every other that prints alike, is bold; nothing else is."""
    for column in _columns(paper).values():
        numbered = [cell for cell in column if not cell.spanned]
        best = (max if column[0].better == "up" else min)(cell.number.value for cell in numbered)
        winners = [cell for cell in numbered if cell.number.value == best]
        for cell in numbered:
            if cell.bold and cell not in winners:
                yield _finding(cell, f"not bold: {winners[0].place.row} has {winners[0].number.printed}")
            elif cell in winners and not cell.bold:
                rivals = [winner for winner in winners if winner.bold]
                yield _finding(cell, f"bold{': so is ' + rivals[0].place.row if rivals else ''}")
            else:
                yield None


def repeats(paper: Paper) -> _Verdicts:
    """What is printed twice is printed alike."""
    seen: dict[object, Cell] = {}
    for cell in _numbers(paper):
        first = seen.setdefault(cell.measured, cell)
        if first is not cell:
            low, high = (bound * cell.scale for bound in first.share)
            holds = cell.number.may_be(low, high)
            yield None if holds else _finding(cell, f"{first.number.printed}, as in {first.place.table}")


def quotes(paper: Paper) -> _Verdicts:
    """The running text and the captions repeat what the tables say."""
    for quote in paper.quotes:
        number = paper.cells[quote.place].number
        holds = quote.says.printed == number.printed
        yield None if holds else Finding(quote.place, f"{quote.says.printed} ({quote.where})", number.printed)


def whole_questions(paper: Paper) -> _Verdicts:
    """An accuracy is a number of questions over their number."""
    for cell in _numbers(paper, "accuracy"):
        if questions := paper.questions.get(cell.measured.data):
            low, high = cell.share
            right = math.floor(high * questions + 1e-9)
            yield None if right >= low * questions - 1e-9 else _finding(cell, f"{right} of {questions}")


def half_widths(paper: Paper) -> _Verdicts:
    """The interval of an accuracy is that of a binomial share, within the scatter of a bootstrap."""
    for cell in _numbers(paper, "accuracy"):
        questions = paper.questions.get(cell.measured.data)
        if cell.half_width and questions:
            share = cell.number.value / 100
            exact = 1.96 * math.sqrt(share * (1 - share) / questions) * 100
            spread = BOOTSTRAP_SCATTER * exact
            holds = cell.half_width.may_be(exact - spread, exact + spread)
            yield None if holds else _finding(cell, f"±{exact:.2f}", says=f"±{cell.half_width.printed}")


def ranges(paper: Paper) -> _Verdicts:
    """Shares and scores lie between 0 and 1."""
    for cell in _numbers(paper):
        if cell.place.column != "tokens":
            holds = cell.number.value <= cell.scale
            yield None if holds else _finding(cell, f"at most {cell.scale:g}")


def brier_bounds(paper: Paper) -> _Verdicts:
    """Accuracy and ECE leave the Brier score a range; it is convex, so averages over data sets keep to it."""
    for group in _groups(paper):
        if brier := group.get("brier"):
            low, high = _range_of_brier(group["accuracy"], group["ece"])
            yield None if brier.number.may_be(low, high) else _finding(brier, f"{low:.3f} to {high:.3f}")


def brier_range(accuracy: float, ece: float, width: float = 0.1) -> tuple[float, float]:
    """The least and the largest Brier score with this accuracy and ECE over bins of this width.

    Least: E(q - c)² ≥ (Σ share·|mean q - mean c|)², by Jensen. Largest: a bin with accuracy a and gap d has
    d² + Var(q - c), where Var(c) = a(1 - a) and q adds a standard deviation of at most half a width. That is
    convex in d, so at its largest a share `ece` of the answers is in bins that are quite wrong (d = 1), and
    the others are in bins without a gap, their accuracy as near to one half as the overall one allows.
    """
    rest = 1 - ece
    if rest <= 0:
        return ece * ece, 1.0
    a = min(max(0.5, (accuracy - ece) / rest), accuracy / rest)
    a = min(max(a, 0.0), 1.0)
    return ece * ece, min(1.0, ece + rest * (math.sqrt(a * (1 - a)) + width / 2) ** 2)


def constant_confidence(paper: Paper) -> _Verdicts:
    """Where AUROC is 0.50 ± 0.00 (all confidences alike) Brier is a(1 - a) + ECE²."""
    for group in _groups(paper):
        auroc = group.get("auroc")
        if auroc and auroc.half_width and (auroc.number.value, auroc.half_width.value) == (0.5, 0.0):
            # The largest and the least value over the rounding intervals of accuracy and ECE, and a hundredth
            # for the few confidences that may differ without moving AUROC by a digit.
            scores = [
                a * (1 - a) + ece * ece
                for a in (*group["accuracy"].share, *_inside(group["accuracy"].share, 0.5))
                for ece in group["ece"].share
            ]
            low, high = min(scores) - 0.01, max(scores) + 0.01
            holds = group["brier"].number.may_be(low, high)
            yield None if holds else _finding(group["brier"], f"{low:.3f} to {high:.3f}")


def overconfidence(paper: Paper) -> _Verdicts:
    """Of RLVR, which is sure of everything, ECE is at most the share of wrong answers.

    Σ share·(confidence - accuracy) over the bins is at most 1 - accuracy, and equals ECE when no bin is less
    sure than it is right. A larger ECE needs right answers of low confidence, and RLVR hardly has any.
    """
    for group in _groups(paper):
        ece, accuracy = group["ece"], group["accuracy"]
        if ece.measured.method == "RLVR":
            most = 1 - accuracy.share[0]
            holds = ece.number.may_be(0.0, most)
            yield (
                None if holds else _finding(ece, f"at most {most:.3f}, with {accuracy.number.printed}% right")
            )


CHECKS: Mapping[str, Callable[[Paper], _Verdicts]] = {
    "averages": averages,
    "bold": bold,
    "repeats": repeats,
    "quotes": quotes,
    "whole questions": whole_questions,
    "half-widths": half_widths,
    "ranges": ranges,
    "brier bounds": brier_bounds,
    "constant confidence": constant_confidence,
    "overconfidence": overconfidence,
}


def _finding(cell: Cell, expected: str, *, says: str = "") -> Finding:
    return Finding(cell.place, says or cell.number.printed, expected)


def _numbers(paper: Paper, column: str = "") -> Iterator[Cell]:
    """The printed numbers, once each: not the rows that an accuracy spans."""
    for cell in paper.cells.values():
        if not cell.spanned and column in ("", cell.place.column):
            yield cell


def _columns(paper: Paper) -> dict[tuple[str, str, str], list[Cell]]:
    columns: dict[tuple[str, str, str], list[Cell]] = defaultdict(list)
    for place, cell in paper.cells.items():
        columns[place.table, place.group, place.column].append(cell)
    return columns


def _groups(paper: Paper) -> Iterator[dict[str, Cell]]:
    """The cells of one method on one data set, by column."""
    groups: dict[tuple[str, str, str], dict[str, Cell]] = defaultdict(dict)
    for place, cell in paper.cells.items():
        groups[place.table, place.row, place.group][place.column] = cell
    yield from groups.values()


def _range_of_brier(accuracy: Cell, ece: Cell) -> tuple[float, float]:
    """Over the rounding intervals of both: the largest score is concave in them, so ends and middle do."""
    ranges = [brier_range(a, e) for a in (*accuracy.share, *_inside(accuracy.share, 0.5)) for e in ece.share]
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _inside(interval: tuple[float, float], value: float) -> list[float]:
    return [value] if interval[0] < value < interval[1] else []
