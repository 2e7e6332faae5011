"""Columns of a user's table that the task itself does not need: kept, to split metrics by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, time
from decimal import Decimal
from typing import Any

from rlcr.tasks.plumbing.tables import Row

#: Extras that have a meaning of their own. A column of that name is kept only where a setting names it.
RESERVED = ("choices", "bare_question", "solution")


def with_fields(row: Row, columns: Sequence[str]) -> Row:
    """The row with a cell for each column ``a.b`` that means the field b of an object in column a."""
    cells = dict(row.cells)
    for column in columns:
        value: Any = row.cells
        for name in () if column in cells else column.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        if column not in cells and "." in column and value is not None:
            cells[column] = value
    return Row(row.file, row.line, cells, row.plain_text)


def kept(row: Row, used: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """The other columns of a row as JSON holds them, and the names of those that cannot be kept."""
    others: dict[str, Any] = {}
    left_out: list[str] = []
    taken = {*used, *(column.partition(".")[0] for column in used)}
    for column, value in row.cells.items():
        if column in taken:
            continue
        try:
            if column in RESERVED:
                raise ValueError(column)
            others[column] = _as_json(value)
        except ValueError:
            left_out.append(column)
    return others, left_out


def _as_json(value: Any) -> Any:
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, (float, Decimal)):
        return None if math.isnan(value) else float(value) if math.isfinite(value) else str(value)
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, (list, tuple)):
        return [_as_json(one) for one in value]
    if isinstance(value, dict):
        return {str(name): _as_json(one) for name, one in value.items()}
    raise ValueError(f"{type(value).__name__} is no JSON")
