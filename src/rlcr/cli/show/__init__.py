"""What commands print: tables and lines for a terminal, or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol, TypeVar


class HasDict(Protocol):
    """A result that can be written as JSON."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        ...


Result = TypeVar("Result", bound=HasDict)


def show(result: Result, as_json: bool, print_table: Callable[[Result], None]) -> None:
    """Print a result as one JSON object, or as its table."""
    if as_json:
        print(json.dumps(result.to_dict()))
    else:
        print_table(result)
