"""The table of docs/reliability.md, from faults/results.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"
#: The place of the table in the page.
MARK = "made by make faults"


def lines(results: dict[str, Any]) -> list[str]:
    """A row for each fault."""
    rows = [
        "| fault | trials | lost | doubled | wrong | counted | `python -m faults --only …` |",
        "|---|---:|---:|---:|---:|---|---|",
    ]
    for name, found in results.items():
        counted = ", ".join(f"{_number(number)} {what}" for what, number in found["counted"].items())
        numbers = " | ".join(f"{found[count]:,}" for count in ("trials", "lost", "doubled", "wrong"))
        rows.append(f"| {found['what']} | {numbers} | {counted} | `{name}` |")
    return rows


def _number(value: float) -> str:
    return f"{value:,}" if value == int(value) else f"{value:,.1f}"
