"""The table of docs/scale.md, from cluster/results.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
#: The place of the table in the page.
MARK = "made by make cluster"


def lines(results: dict[str, Any]) -> list[str]:
    """A row for each case and launch."""
    table = ["| case | launch | | |", "|---|---|---|---|"]
    for case, launches in results["cases"].items():
        for launch, found in launches.items():
            outcome = "ok" if found["passed"] else "failed"
            table.append(f"| {case} | {launch} | {described(found)} | {outcome} |")
    names = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    return [*table, "", f"With {names}."]


def described(found: dict[str, Any]) -> str:
    """What was found in one run, in words."""
    if "failed" in found:
        return f"did not finish: {found['failed']}"
    parts = []
    if "difference" in found:
        parts.append(f"differs by {found['difference']:.0e} at most")
    if "moved" in found:
        parts.append(f"weights moved by up to {found['moved']:.2g}")
    if "passes" in found:
        parts.append(f"updates of {' and '.join(map(str, found['passes']))} passes in each process")
    if "evaluations" in found:
        parts.append(f"{found['evaluations']} held-out evaluations")
    if "seconds" in found:
        parts.append(f"all ended after {found['seconds']:.0f} s")
    if "said" in found:
        parts.append(f"`` {found['said']} ``")
    return "; ".join(parts)
