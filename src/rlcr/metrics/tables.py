"""The one way to write a table: cells in; Markdown, LaTeX, CSV or aligned text out.

Names of tasks, runs and models come from data, so nothing in a cell may become markup, end its row, or be run
by a spreadsheet: each way of writing escapes what is special to it. Numbers have three decimals, and an
interval is ``0.250 [0.200, 0.310]`` or, where room is short, as the paper writes it: ``.250 ±.055``.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rlcr.metrics.bootstrap import Estimate
from rlcr.terminal import visible

Better = Literal["", "up", "down"]
#: What a table says of a number or of a run: the word that is shown.
Mark = Literal["", "best", "better", "worse", "gave up", "never right"]
_ARROW: dict[Better, str] = {"": "", "up": " ↑", "down": " ↓"}


@dataclass(frozen=True)
class Heading:
    """The head of a column: its text, which way is better, and whether numbers stand below it."""

    text: str
    better: Better = ""
    numeric: bool = True
    interval: bool = False
    """Whether its cells have intervals: they are columns of their own in CSV."""
    key: bool = False
    """Whether it stays where there is room for a few columns only."""
    identifies: bool = False
    """Whether it tells rows of the same name apart, as columns of text do."""

    @property
    def title(self) -> str:
        """The text with an arrow."""
        return self.text + _ARROW[self.better]


def text_headings(*texts: str) -> tuple[Heading, ...]:
    """The heads of columns of text."""
    return tuple(Heading(text, numeric=False) for text in texts)


@dataclass(frozen=True)
class Cell:
    """What is shown, and behind it the number with its interval."""

    text: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    mark: Mark = ""
    note: str = ""
    series: int | None = None
    """The colour of the run that the cell names."""
    sign: bool = False
    below: tuple[str, ...] = ()
    """Further numbers of the same thing, smaller, under it."""

    @property
    def interval(self) -> str:
        """The ends of the interval, if there is one."""
        if self.low is None or self.high is None:
            return ""
        return f"{_three_decimals(self.low, self.sign)} to {_three_decimals(self.high, self.sign)}"


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns. ``name`` is that of its files; ``missing`` says why there are no rows."""

    name: str
    title: str
    columns: tuple[Heading, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    notes: tuple[str, ...] = ()
    missing: str = ""
    folded: str = ""
    """Where the page shows it only when asked, what it says instead."""

    def surname(self, row: Sequence[Cell]) -> str:
        """What tells a row from others of the same name, where only the key columns have room."""
        further = [(column, cell) for column, cell in zip(self.columns, row, strict=True) if not column.key]
        return " · ".join(
            f"{column.text.lower()} {cell.text}" if column.numeric else cell.text
            for column, cell in further[1:]
            if column.identifies or not column.numeric
        )


def estimate_cell(
    value: float | None,
    low: float | None = None,
    high: float | None = None,
    *,
    sign: bool = False,
    note: str = "",
) -> Cell:
    """A cell of a number with three decimals; n/a for None and NaN."""
    value, low, high = (None if x is None or math.isnan(x) else x for x in (value, low, high))
    if value is None:
        return Cell("n/a", note=note)
    return Cell(_three_decimals(value, sign), value, low, high, sign=sign, note=note)


def difference_cell(
    value: float | None, low: float | None, high: float | None, better: Better, note: str = ""
) -> Cell:
    """A cell of a difference, with its sign; marked if the interval leaves out 0."""
    cell = estimate_cell(value, low, high, sign=True, note=note)
    if cell.low is None or cell.high is None or cell.low <= 0 <= cell.high:
        return cell
    return replace(cell, mark="better" if (cell.low > 0) == (better == "up") else "worse")


def estimate_text(estimate: Estimate) -> str:
    """A value and half the width of its 95% interval, as the paper writes it.

    >>> estimate_text(Estimate(0.25, 0.2, 0.31)), estimate_text(Estimate(None, None, None))
    ('.250 ±.055', 'n/a')
    """
    if estimate.value is None:
        return "n/a"
    width = "" if estimate.half_width is None else f" ±{_no_zero(estimate.half_width)}"
    return _no_zero(estimate.value) + width


def _three_decimals(value: float, sign: bool) -> str:
    text = f"{value:{'+' if sign else ''}.3f}".replace("-", "−")
    return "0.000" if text in ("+0.000", "−0.000") else text  # a sign would say what the digits do not


def _no_zero(value: float) -> str:
    """Three decimals without the leading zero: ten columns must fit a terminal."""
    return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.3f}"


#: Behind a number that does not rest on all answers.
PARTIAL = "*"
PARTIAL_NOTE = f"{PARTIAL} uses only some of the answers; its row says how many."


def of_all(rows: int, every: int) -> str:
    """A number of rows, with that of all where some are missing.

    >>> of_all(36, 36), of_all(1800, 3600)
    ('36', '1,800/3,600')
    """
    return f"{rows:,}" if rows == every else f"{rows:,}/{every:,}"


def resting_on(cell: Cell, rows: int, every: int) -> Cell:
    """The cell of a number that rests on these rows of all, with a mark where some are missing.

    >>> resting_on(Cell("0.250"), 18, 36).text, resting_on(Cell("n/a"), 18, 36).text
    ('0.250*', 'n/a')
    """
    if rows == every or cell.text in ("", "n/a"):
        return cell
    note = f"uses {rows:,} of {every:,} answers"
    return replace(cell, text=cell.text + PARTIAL, note=f"{cell.note}; {note}" if cell.note else note)


def partial_note(rows: Sequence[Sequence[Cell]], note: str = PARTIAL_NOTE) -> tuple[str, ...]:
    """What the mark means, where a table has it."""
    return (note,) if any(cell.text.endswith(PARTIAL) for row in rows for cell in row) else ()


#: Whether the number of one row is decidedly better than that of another, in a column.
Decided = Callable[[int, int, int], bool]


def mark_best(
    columns: Sequence[Heading], rows: Sequence[Sequence[Cell]], decided: Decided
) -> tuple[tuple[Cell, ...], ...]:
    """Mark the best of each column that has a direction, where ``decided(column, best row, next row)``."""
    marked = [list(row) for row in rows]
    for at, column in enumerate(columns):
        known = [(row[at].value, n) for n, row in enumerate(rows) if row[at].value is not None]
        if not column.better or len(known) < 2:
            continue
        (_, best), (_, following), *_ = sorted(known, reverse=column.better == "up")
        if decided(at, best, following):
            marked[best][at] = replace(marked[best][at], mark="best")
    return tuple(map(tuple, marked))


# --- as text ----------------------------------------------------------------------------------------


def _written(cell: Cell) -> str:
    interval = f" [{cell.interval.replace(' to ', ', ')}]" if cell.interval else ""
    return cell.text + interval + "".join(f", {text}" for text in cell.below)


def aligned_text(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of text with their columns aligned; the last is as long as it is.

    >>> aligned_text([("a", "x"), ("long", "")])
    ['a     x', 'long']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def aligned_markdown(table: Table) -> str:
    """The bare table for a terminal, which is Markdown too: names to the left, numbers to the right."""
    rows = [
        [_markdown(column.text) for column in table.columns],
        *([_markdown(cell.text) for cell in row] for row in table.rows),
    ]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    columns = list(zip(table.columns, widths, strict=True))
    lines = [
        [
            cell.rjust(width) if column.numeric else cell.ljust(width)
            for cell, (column, width) in zip(row, columns, strict=True)
        ]
        for row in rows
    ]
    rules = ["-" * (width + 1) + (":" if column.numeric else "-") for column, width in columns]
    return "\n".join([_piped(lines[0]), f"|{'|'.join(rules)}|", *map(_piped, lines[1:])])


def markdown(table: Table) -> str:
    """A Markdown table under its title, if it has one; the best are bold."""
    title = _markdown(table.title, bold=True) if table.title else ""
    if table.missing:
        return f"{title}: {_markdown(table.missing)}\n"
    lines = [
        [_markdown(column.title) for column in table.columns],
        ["---:" if column.numeric else "---" for column in table.columns],
        *([_markdown(_written(cell), bold=cell.mark == "best") for cell in row] for row in table.rows),
    ]
    notes = "".join(f"\n{_markdown(note)}\n" for note in (table.caption, *table.notes) if note)
    return (f"{title}\n\n" if title else "") + "\n".join(map(_piped, lines)) + f"\n{notes}"


def _piped(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown(text: str, bold: bool = False) -> str:
    text = re.sub(r"([\\`*_{}\[\]<>#|~$])", r"\\\1", visible(" ".join(text.split())))
    text = re.sub(r"&(?=#?\w+;)", "&amp;", text)
    # Brackets are those of intervals, unless they make a link.
    text = text if "](" in text else text.replace("\\[", "[").replace("\\]", "]")
    return f"**{text}**" if bold else text


_LATEX = {c: f"\\{c}" for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "→": r"$\to$",
    "−": r"$-$",
    "·": r"$\cdot$",
    "Δ": r"$\Delta$",
}


def latex(table: Table) -> str:
    """A LaTeX table for booktabs; the best are bold."""
    title = f"% {_latex(table.title)}"
    if table.missing:
        return f"{title}: {_latex(table.missing)}\n"
    body = [[_latex(_written(cell), bold=cell.mark == "best") for cell in row] for row in table.rows]
    lines = [
        *([title] if table.title else []),
        r"\begin{tabular}{" + "".join("r" if column.numeric else "l" for column in table.columns) + "}",
        r"\toprule",
        _latex_row([_latex(column.title) for column in table.columns]),
        r"\midrule",
        *map(_latex_row, body),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _latex_row(cells: Sequence[str]) -> str:
    line = " & ".join(cells) + r" \\"
    # After the end of a row LaTeX takes a bracket for an argument, and a star for part of the command.
    return f"{{}}{line}" if line.startswith(("[", "*")) else line


def _latex(text: str, bold: bool = False) -> str:
    text = "".join(_LATEX.get(c, c) for c in visible(" ".join(text.split())))
    return rf"\textbf{{{text}}}" if bold else text


def flat(table: Table) -> tuple[list[str], list[list[str | float | None]]]:
    """Heads and rows of full numbers, None where there is none; an interval is two further columns."""
    head: list[str] = []
    for column in table.columns:
        head += [column.text, *([f"{column.text} low", f"{column.text} high"] if column.interval else [])]
    rows: list[list[str | float | None]] = []
    for row in table.rows:
        cells: list[str | float | None] = []
        for column, cell in zip(table.columns, row, strict=True):
            text = None if cell.text == "n/a" else cell.text
            cells += [text if cell.value is None else cell.value, *((cell.low, cell.high) * column.interval)]
        rows.append(cells)
    return head, rows


def csv_text(table: Table) -> str:
    """CSV: full numbers; an interval is two further columns."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    head, rows = flat(table)
    writer.writerow(map(_plain, head))
    for row in rows:
        writer.writerow(_plain(cell) if isinstance(cell, str) else cell for cell in row)
    return out.getvalue()


def _plain(text: str) -> str:
    # A spreadsheet takes such a cell for a formula, some also behind spaces.
    formula = text.startswith(("\t", "\r", "\n")) or text.lstrip().startswith(("=", "+", "-", "@"))
    return f"'{text}" if formula else text
