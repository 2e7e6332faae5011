"""The table of docs/interop.md, from interop/results.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "interop.md"
#: The place of the table in the page.
MARK = "made by make interop"


def lines(results: dict[str, Any]) -> list[str]:
    """A row for each check of each engine."""
    rows = [
        "| engine | version | what was compared | numbers | largest difference | |",
        "|---|---|---|---:|---:|---|",
    ]
    for name, found in results.items():
        for check in found["checks"]:
            outcome = "ok" if check["passed"] else "differs"
            rows.append(
                f"| {name} | {found['engine']} | {check['what']} | {check['compared']} "
                f"| {check['difference']:.1g} (at most {check['within']:.0g}) | {outcome} |"
            )
        if found.get("failed"):
            rows.append(f"| {name} | | did not finish: {found['failed']} | | | failed |")
    return rows
