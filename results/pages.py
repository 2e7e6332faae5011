"""Pages of docs/ whose tables are made of recorded results: each stands between two marks of its page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from rlcr.runs.lines import write_whole


def filled(page: str, tables: Mapping[str, str]) -> str:
    """A page with each table between ``<!-- its name -->`` and the ``<!-- end -->`` that follows.

    >>> filled("a, <!-- t -->\\nold\\n<!-- end -->, b, <!-- end -->", {"t": "new"})
    'a, <!-- t -->\\nnew\\n<!-- end -->, b, <!-- end -->'
    """
    for name, table in tables.items():
        place = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
        page, found = place.subn(lambda match, table=table: f"{match[1]}{table}\n{match[2]}", page)
        if found != 1:
            raise LookupError(f"{found} places for the table {name!r}; expected one")
    return page


def write_tables(page: Path, tables: Mapping[str, str]) -> None:
    """Put tables into a file, whole or not at all."""
    write_whole(page, filled(page.read_text(encoding="utf-8"), tables))
