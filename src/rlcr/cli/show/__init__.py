"""What commands print: tables and lines for a terminal, or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from rich.table import Table

from rlcr.terminal import say


class HasDict(Protocol):
    """A result that can be written as JSON."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        ...


Result = TypeVar("Result", bound=HasDict)


def plain_table(*headings: str, title: str | None = None) -> Table:
    """A table for a terminal, without lines. A heading after ``>`` is that of numbers, to the right."""
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for heading in headings:
        numeric = heading.startswith(">")
        table.add_column(heading.removeprefix(">"), justify="right" if numeric else "left")
    return table


def show(result: Result, as_json: bool, print_table: Callable[[Result], None]) -> None:
    """Print a result as one JSON object, or as its table."""
    if as_json:
        say(json.dumps(result.to_dict()))
    else:
        print_table(result)
