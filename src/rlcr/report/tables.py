"""Tables as plain cells, and as Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Better = Literal["", "up", "down"]
_ARROW: dict[Better, str] = {"": "", "up": " ↑", "down": " ↓"}


@dataclass(frozen=True)
class Column:
    """A column: its heading, which way is better, and whether it holds numbers."""

    heading: str
    better: Better = ""
    numeric: bool = True
    interval: bool = False
    """Whether its cells have intervals: they are columns of their own in CSV."""

    @property
    def title(self) -> str:
        """The heading with an arrow."""
        return self.heading + _ARROW[self.better]


@dataclass(frozen=True)
class Cell:
    """What is shown, and behind it the number with its interval."""

    text: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    mark: Literal["", "best", "better", "worse"] = ""
    note: str = ""
    series: int | None = None
    """The colour of the run that the cell names."""
    sign: bool = False

    @property
    def interval(self) -> str:
        """The ends of the interval, if there is one."""
        if self.low is None or self.high is None:
            return ""
        return f"{self._number(self.low)} to {self._number(self.high)}"

    def _number(self, value: float) -> str:
        return f"{value:{'+' if self.sign else ''}.3f}".replace("-", "−")


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns. ``name`` is that of its files; ``missing`` says why there are no rows."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    notes: tuple[str, ...] = ()
    missing: str = ""
    folded: bool = False
    """Whether the page shows it only when asked."""


def estimate_cell(
    value: float | None,
    low: float | None = None,
    high: float | None = None,
    *,
    sign: bool = False,
    note: str = "",
) -> Cell:
    """A cell of a number with three decimals, and n/a where there is none."""
    if value is None:
        return Cell("n/a", note=note)
    text = f"{value:{'+' if sign else ''}.3f}".replace("-", "−")
    return Cell(text, value, low, high, sign=sign, note=note)


def mark_best(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> tuple[tuple[Cell, ...], ...]:
    """Mark the best of each column that has a direction: all rows that show that number."""
    marked = [list(row) for row in rows]
    for at, column in enumerate(columns):
        values = [row[at].value for row in rows]
        known = [round(value, 3) for value in values if value is not None]
        if not column.better or len(known) < 2 or len(set(known)) < 2:
            continue
        best = max(known) if column.better == "up" else min(known)
        for row, value in zip(marked, values, strict=True):
            if value is not None and round(value, 3) == best:
                cell = row[at]
                row[at] = Cell(cell.text, cell.value, cell.low, cell.high, "best", cell.note, sign=cell.sign)
    return tuple(map(tuple, marked))


# --- as text ----------------------------------------------------------------------------------------


def _written(cell: Cell) -> str:
    return f"{cell.text} [{cell.interval.replace(' to ', ', ')}]" if cell.interval else cell.text


def markdown(table: Table) -> str:
    """A Markdown table under its title; the best are bold."""
    if table.missing:
        return f"**{table.title}**: {table.missing}\n"
    lines = [
        [_markdown(column.title) for column in table.columns],
        ["---:" if column.numeric else "---" for column in table.columns],
        *([_markdown(_written(cell), bold=bool(cell.mark == "best")) for cell in row] for row in table.rows),
    ]
    body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    notes = "".join(f"\n{_markdown(note)}\n" for note in (table.caption, *table.notes) if note)
    return f"**{_markdown(table.title)}**\n\n{body}\n{notes}"


def _markdown(text: str, bold: bool = False) -> str:
    # Names come from data: nothing in them may become markup.
    text = re.sub(r"([\\`*_{}\[\]<>#|~$])", r"\\\1", " ".join(text.split()))
    text = text.replace("\\[", "[").replace("\\]", "]") if "](" not in text else text
    return f"**{text}**" if bold else text


_LATEX = {c: f"\\{c}" for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "−": r"$-$",
    "·": r"$\cdot$",
}


def latex(table: Table) -> str:
    """A LaTeX table for booktabs; the best are bold."""
    if table.missing:
        return f"% {_latex(table.title)}: {_latex(table.missing)}\n"

    def row(cells: Sequence[str]) -> str:
        return " & ".join(cells) + r" \\"

    lines = [
        f"% {_latex(table.title)}",
        r"\begin{tabular}{" + "".join("r" if column.numeric else "l" for column in table.columns) + "}",
        r"\toprule",
        row([_latex(column.title) for column in table.columns]),
        r"\midrule",
        *(
            row(
                [
                    rf"\textbf{{{_latex(_written(c))}}}" if c.mark == "best" else _latex(_written(c))
                    for c in cells
                ]
            )
            for cells in table.rows
        ),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _latex(text: str) -> str:
    return "".join(_LATEX.get(c, c) for c in " ".join(text.split()))


def csv_text(table: Table) -> str:
    """CSV: full numbers; an interval is two further columns."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    head: list[str] = []
    for column in table.columns:
        head.append(column.heading)
        if column.interval:
            head += [f"{column.heading} low", f"{column.heading} high"]
    writer.writerow(head)
    for row in table.rows:
        cells: list[object] = []
        for column, cell in zip(table.columns, row, strict=True):
            cells.append(_plain(cell.text) if cell.value is None else cell.value)
            if column.interval:
                cells += ["" if end is None else end for end in (cell.low, cell.high)]
        writer.writerow(cells)
    return out.getvalue()


def _plain(text: str) -> str:
    # A spreadsheet takes such a cell for a formula.
    return f"'{text}" if text[:1] in ("=", "+", "@", "\t", "\r") else "" if text == "n/a" else text
