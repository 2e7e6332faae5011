"""The code of docs/interop.md for engines that have no adapter of their own, run as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

from interop.table import PAGE


def snippet(engine: str) -> str:
    """The code below the paragraph that begins with an engine's name."""
    page = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"^{re.escape(engine)}, .*?\n```python\n(.*?)```\n", page, re.DOTALL | re.MULTILINE)
    if not found or "\n## " in found[0]:
        raise LookupError(f"{PAGE}: no code for {engine}")
    return found[1]


def write_module(engine: str, path: Path) -> None:
    """Write the code to a file of its own, as the page tells its reader to."""
    path.write_text(snippet(engine), encoding="utf-8")
