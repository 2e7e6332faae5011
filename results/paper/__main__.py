"""`make paper`: the paper's tables against themselves and against the authors' stored outputs.

The checks need nothing but tables.yaml. Cells are recomputed where `RLCR_DATA` names a folder with the
authors' outputs (`rlcr_outputs`); without it that part of results/paper.json stays as it is, unless the
tables have changed.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from results.paper import checks, recompute, tables

from rlcr.files import file_sha256, new_file
from rlcr.metrics.tables import aligned_text
from rlcr.runs.versions import run_facts

OUT = Path(__file__).parents[1] / "paper.json"
_COMMAND = "make paper"
_PACKAGES = ("rlcr", "numpy", "math-verify")


def main() -> None:
    """Check, recompute, print and write."""
    paper = tables.load()
    outcomes = checks.run_checks(paper)
    result: dict[str, Any] = {
        "command": _COMMAND,
        "versions": run_facts(_PACKAGES)["versions"],
        "tables_sha256": file_sha256([tables.FILE]),
        "cells": sum(not cell.spanned for cell in paper.cells.values()),
        "checks": {name: _described(outcome) for name, outcome in outcomes.items()},
    }
    for name, outcome in outcomes.items():
        print(f"{name}: {outcome.checked} checked, {len(outcome.findings)} found")
        for finding in outcome.findings:
            print(f"    {finding.place}: {finding.says}; expected {finding.expected}")
    if folder := _outputs():
        cells = recompute.recompute(paper, folder)
        print(_table(cells))
        result["recomputed"] = _recomputed(cells, folder)
    else:
        print("nothing recomputed: set RLCR_DATA to the folder that holds rlcr_outputs")
        result |= _recomputed_before(result["tables_sha256"])
    with new_file(OUT) as file:
        file.write(_short(json.dumps(result, indent=2, ensure_ascii=False)).encode())
    print(OUT)


def _recomputed_before(tables_sha256: str) -> dict[str, Any]:
    """What was recomputed for the same tables on a machine that has the outputs."""
    before = json.loads(OUT.read_text(encoding="utf-8")) if OUT.exists() else {}
    same = before.get("tables_sha256") == tables_sha256 and "recomputed" in before
    return {"recomputed": before["recomputed"]} if same else {}


def _outputs() -> Path | None:
    folder = Path(os.environ["RLCR_DATA"]) / "rlcr_outputs" if os.environ.get("RLCR_DATA") else None
    return folder if folder and folder.is_dir() else None


def _described(outcome: checks.Outcome) -> dict[str, Any]:
    findings = [
        {"cell": str(finding.place), "says": finding.says, "expected": finding.expected}
        for finding in outcome.findings
    ]
    return {"checked": outcome.checked, "findings": findings}


def _recomputed(cells: list[recompute.Recomputed], folder: Path) -> dict[str, Any]:
    """Counts, and for each cell what is printed, what comes out, and from what."""
    return {
        "settings": {"grading": "paper", "binning": "paper", "resamples": recompute.RESAMPLES, "seed": 0},
        "data_sha256": {name: file_sha256([folder / name]) for name in recompute.FILES},
        "agree": sum(each.agrees for each in cells),
        "differ": sum(not each.agrees for each in cells),
        "cells": {
            str(each.cell.place): {
                "printed": each.cell.number.value,
                "recomputed": round(each.value, 5),
                "difference": round(each.difference, 5),
                "from": each.source,
                **({} if each.agrees else {"differs": True}),
                **_half_widths(each),
            }
            for each in cells
        },
    }


def _half_widths(each: recompute.Recomputed) -> dict[str, Any]:
    if each.half_width is None or each.cell.half_width is None:
        return {}
    return {
        "printed_half_width": each.cell.half_width.value,
        "recomputed_half_width": round(each.half_width, 5),
        **({} if each.half_width_agrees else {"half_width_differs": True}),
    }


def _table(cells: list[recompute.Recomputed]) -> str:
    rows = [("cell", "printed", "recomputed", "difference", "from", "")]
    for each in cells:
        numbers = (each.cell.number.printed, f"{each.value:.4f}", f"{each.difference:+.4f}")
        rows.append((str(each.cell.place), *numbers, each.source, "" if each.agrees else "differs"))
    agree = sum(each.agrees for each in cells)
    notes = [f"{agree} of {len(cells)} printed cells are what the stored outputs give, rounded"]
    for each in cells:
        if each.half_width is not None and each.half_width_agrees is False:
            printed = each.cell.half_width.printed if each.cell.half_width else ""
            notes.append(f"half-width of {each.cell.place}: ±{printed}, recomputed ±{each.half_width:.3f}")
    return "\n".join([*aligned_text(rows), *notes])


def _short(text: str) -> str:
    """JSON with its innermost lists and objects on one line each."""
    return re.sub(r"[{\[]\s[^{}\[\]]*[}\]]", lambda inner: re.sub(r"\s*\n\s*", " ", inner[0]), text) + "\n"


if __name__ == "__main__":
    main()
