"""Run the cases one after the other; see the package's docstring."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any

from results.pages import write_tables

from cluster import cases, table
from cluster.launches import LAUNCHES

RESULTS = Path(__file__).parent / "results.json"
_PACKAGES = ("torch", "transformers", "trl", "accelerate", "deepspeed")


def main() -> int:
    """The number of runs that did not pass."""
    parser = argparse.ArgumentParser(description="Several processes with the real packages, on CPUs.")
    parser.add_argument("cases", nargs="*", help=f"default: {', '.join(cases.CASES)}")
    parser.add_argument("--launches", nargs="*", help=f"default: {', '.join(LAUNCHES)}")
    parser.add_argument("--folder", type=Path, help="keep what is made here, and use what is there")
    parser.add_argument("--forked", action="store_true", help="processes begin as copies of this one")
    arguments = parser.parse_args()
    names = arguments.cases or list(cases.CASES)
    if unknown := set(names) - set(cases.CASES):
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(cases.CASES)}")
    if unknown := set(arguments.launches or ()) - set(LAUNCHES):
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(LAUNCHES)}")
    failed = 0
    with nullcontext(arguments.folder) if arguments.folder else tempfile.TemporaryDirectory() as folder:
        for name in names:
            launches = [one for one in cases.CASES[name].launches if one in (arguments.launches or LAUNCHES)]
            for launch in launches:
                found = cases.run(name, launch, Path(folder) / name, forked=arguments.forked)
                print(f"{name} under {launch}: {table.described(found)}", flush=True)
                record(name, launch, found)
                failed += not found["passed"]
    return failed


def record(name: str, launch: str, found: dict[str, Any]) -> None:
    """Put a result beside the others, and the table of all into the docs."""
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {"cases": {}}
    results["versions"] = {package: version(package) for package in _PACKAGES}
    results["cases"].setdefault(name, {})[launch] = found
    results["cases"] = {
        case: {
            launch: results["cases"][case][launch] for launch in LAUNCHES if launch in results["cases"][case]
        }
        for case in cases.CASES
        if case in results["cases"]
    }
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    write_tables(table.PAGE, {table.MARK: "\n".join(table.lines(results))})


if __name__ == "__main__":
    sys.exit(main())
