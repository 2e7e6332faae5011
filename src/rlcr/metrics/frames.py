"""Results in a notebook: a table to look at, and a pandas data frame to work with.

Whatever has a ``table`` has both. The HTML is escaped, since names of tasks and runs come from data; the
frame has full numbers, and the ends of an interval as columns of their own. Pandas is imported when a frame
is asked for, and not needed otherwise.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from rlcr.errors import need
from rlcr.metrics.bootstrap import Difference, Estimate
from rlcr.metrics.tables import Cell, Heading, Table, estimate_cell, flat, text_headings

if TYPE_CHECKING:
    import pandas

_ALIGN = {True: "right", False: "left"}


class Tabular:
    """Something that is shown as a table."""

    @abstractmethod
    def table(self) -> Table:
        """The table of its numbers."""

    def _repr_html_(self) -> str:
        return html(self.table())

    def to_frame(self) -> pandas.DataFrame:
        """A pandas data frame of the same numbers; an interval is two further columns."""
        return frame(self.table())


def html(table: Table) -> str:
    """A plain HTML table under its title, for a notebook; everything in it is escaped."""

    def cell(tag: str, heading: Heading, text: str, small: str = "") -> str:
        aside = f'<br><small style="white-space: nowrap">{escape(small)}</small>' if small else ""
        return f'<{tag} style="text-align: {_ALIGN[heading.numeric]}">{escape(text)}{aside}</{tag}>'

    head = "".join(cell("th", column, column.title) for column in table.columns)
    body = "".join(
        "<tr>"
        + "".join(
            cell("td", column, c.text, c.interval) for column, c in zip(table.columns, row, strict=True)
        )
        + "</tr>\n"
        for row in table.rows
    )
    notes = "".join(
        f"<p><small>{escape(note)}</small></p>"
        for note in (table.caption, table.missing, *table.notes)
        if note
    )
    title = f"<caption>{escape(table.title)}</caption>" if table.title else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>{notes}"


def frame(table: Table) -> pandas.DataFrame:
    """The numbers of a table as a data frame."""
    need("a data frame", "pandas", install="pip install pandas")
    import pandas

    head, rows = flat(table)
    return pandas.DataFrame(rows, columns=pandas.Index(head))


def estimates_table(
    title: str, metrics: Mapping[str, Estimate], rows: Callable[[str], int | tuple[int, int]]
) -> Table:
    """A line for each metric: its value with the interval, and how many answers it rests on."""
    differences = any(isinstance(estimate, Difference) for estimate in metrics.values())
    columns = (
        *text_headings("metric"),
        Heading("difference" if differences else "value", interval=True),
        *((Heading("p"),) if differences else ()),
        Heading("answers"),
    )
    lines: list[tuple[Cell, ...]] = []
    for name, e in metrics.items():
        p = (
            (Cell("n/a") if e.p_value is None else Cell(f"{e.p_value:.3f}", e.p_value),)
            if isinstance(e, Difference)
            else ()
        )
        counts = rows(name)
        resting = sum(counts) if isinstance(counts, tuple) else counts
        value = estimate_cell(e.value, e.low, e.high, sign=differences, note=e.note)
        lines.append((Cell(name), value, *p, Cell(f"{resting:,}", resting)))
    return Table("metrics", title, columns, tuple(lines))


def estimate_cells(
    metrics: Mapping[str, Estimate], names: Sequence[str], *, sign: bool = False
) -> list[Cell]:
    """The cells of some metrics, for a table with a line for each task."""
    return [
        estimate_cell(e.value, e.low, e.high, sign=sign, note=e.note) for e in map(metrics.__getitem__, names)
    ]


def headings(names: Mapping[str, Any]) -> tuple[Heading, ...]:
    """The heads of metrics in such a table: what each is called, and which way is better."""
    return tuple(Heading(text, better, interval=True) for text, better in names.values())
