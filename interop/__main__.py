"""Run the engines one after the other; see the package's docstring."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from results.pages import write_tables

import rlcr
from interop import environments, table
from interop.case import Case, make_case

RESULTS = Path(__file__).parent / "results.json"


def main() -> int:
    """The number of engines that did not pass."""
    parser = argparse.ArgumentParser(description="Our adapters inside the real engines.")
    parser.add_argument("engines", nargs="*", help=f"default: {', '.join(environments.ENGINES)}")
    parser.add_argument("--keep", action="store_true", help="keep the environments")
    arguments = parser.parse_args()
    names = arguments.engines or list(environments.ENGINES)
    if unknown := set(names) - set(environments.ENGINES):
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(environments.ENGINES)}")
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        case, wheel = make_case(Path(folder)), environments.build_wheel(Path(folder))
        for name in names:
            print(f"{name}:", flush=True)
            found = run(name, case, wheel, Path(folder))
            if not arguments.keep:
                environments.remove(name)
            record(name, found)
            failed += not found["passed"]
    return failed


def run(name: str, case: Case, wheel: Path, folder: Path) -> dict[str, Any]:
    """Make the environment of an engine, and run what shows the adapter at work in it."""
    began = time.monotonic()
    work, out = folder / name, folder / f"{name}.json"
    work.mkdir()
    case.write(work / "case.json")
    found: dict[str, Any] = {"rlcr": rlcr.__version__, "source": case.source, "checks": [], "passed": False}
    try:
        python = environments.make(name, wheel)
        made = time.monotonic() - began
        # Only what is installed there, and this package; the engines' own caches stay in the work folder.
        environment = {**os.environ, "PYTHONPATH": str(environments.ROOT), "HF_HUB_OFFLINE": "1"}
        environment |= {"HOME": str(work), "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
        command = [python, "-m", f"interop.engines.{name}", work / "case.json", out]
        limit = environments.ENGINES[name].limit
        subprocess.run(command, check=True, cwd=work, env=environment, timeout=limit)
        found["passed"] = True
        found["seconds"] = {"environment": round(made), "run": round(time.monotonic() - began - made)}
    except environments.NoInterpreter as error:
        found["failed"] = str(error)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        found["failed"] = f"{type(error).__name__} after {time.monotonic() - began:.0f} s"
    if "failed" in found:
        print(f"  {found['failed']}", file=sys.stderr)
    if out.exists():
        found |= json.loads(out.read_text(encoding="utf-8"))
    found["passed"] = found["passed"] and all(check["passed"] for check in found["checks"])
    return found


def record(name: str, found: dict[str, Any]) -> None:
    """Put the result of an engine beside those of the others, and the table of all into the docs."""
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    results[name] = found
    ordered = {engine: results[engine] for engine in environments.ENGINES if engine in results}
    RESULTS.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
    write_tables(table.PAGE, {table.MARK: "\n".join(table.lines(ordered))})


if __name__ == "__main__":
    sys.exit(main())
