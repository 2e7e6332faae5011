"""The table of docs/interop.md, from interop/results.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "interop.md"
BEGIN, END = "<!-- made by make interop -->", "<!-- end -->"


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


def write(results: dict[str, Any], page: Path = PAGE) -> None:
    """Replace what stands between the two marks of the page."""
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    page.write_text(f"{before}{BEGIN}\n" + "\n".join(lines(results)) + f"\n{END}{after}", encoding="utf-8")
