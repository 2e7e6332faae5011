"""Questions put together from several columns: ``{Body} {Question}``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rlcr.errors import RlcrError

_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]+)\}|[{}]|[^{}]+")


@dataclass(frozen=True)
class Template:
    """Texts and the names of columns, in turns: every second piece is a column."""

    pieces: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it names."""
        return self.pieces[1::2]

    def fill(self, cells: dict[str, str]) -> str:
        """The text with the cells in their places."""
        return "".join(cells[piece] if n % 2 else piece for n, piece in enumerate(self.pieces)).strip()


def read_template(text: str) -> Template:
    """Read a template; a brace that stands for itself is written twice.

    >>> read_template("{Body} {{x}} {Question}").pieces
    ('', 'Body', ' {x} ', 'Question', '')
    """
    pieces = [""]
    for match in _PIECE.finditer(text):
        if match[0] in "{}":
            raise RlcrError(
                f"template {text!r}: a single {match[0]} at character {match.start() + 1}; a column is"
                " {name}, and a brace of its own is written twice"
            )
        if match[1]:
            pieces += [match[1], ""]
        else:
            pieces[-1] += match[0][0] if match[0] in ("{{", "}}") else match[0]
    if len(pieces) == 1:
        raise RlcrError(f"template {text!r}: names no column; write one as {{name}}")
    return Template(tuple(pieces))
