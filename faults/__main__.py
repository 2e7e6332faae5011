"""Make the trials that are not yet recorded; see the package's docstring."""

from __future__ import annotations

import argparse
import fcntl
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from results.pages import write_tables

from faults import table
from faults.commands import import_beforehand
from faults.fault import Fault, Outcome
from faults.listing import FAULTS

RESULTS = Path(__file__).parent / "results.json"
#: So many notes of things that went wrong are kept of a fault.
_NOTES = 10


def main() -> int:
    """1 if anything was lost, doubled or wrong in the faults that were asked for."""
    parser = argparse.ArgumentParser(description="Faults on purpose, and what came of them.")
    parser.add_argument("--only", nargs="+", metavar="NAME", default=list(FAULTS), help=", ".join(FAULTS))
    parser.add_argument("--trials", type=int, help="of each fault; default: as many as it asks for")
    parser.add_argument("--again", action="store_true", help="forget the recorded trials of these faults")
    arguments = parser.parse_args()
    if unknown := set(arguments.only) - set(FAULTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(FAULTS)}")
    if arguments.again:
        write({name: found for name, found in read().items() if name not in arguments.only})
    import_beforehand(torch=any(FAULTS[name].torch for name in arguments.only))
    for name in arguments.only:
        make_trials(name, FAULTS[name], arguments.trials or FAULTS[name].trials)
    results = read()
    return int(any(failures(results[name]) for name in arguments.only if name in results))


def make_trials(name: str, fault: Fault, trials: int) -> None:
    """Make the trials of a fault from the first that is not recorded, and record each."""
    first = read().get(name, {}).get("trials", 0)
    if first >= trials:
        print(f"{name}: {first} trials are recorded", flush=True)
        return
    with tempfile.TemporaryDirectory() as folder, fault.prepare(Path(folder)) as trial:
        for number in range(first, trials):
            with tempfile.TemporaryDirectory(dir=folder) as own:
                outcome = trial(Path(own), number)
            found = record(name, fault, outcome)
            state = "ok" if not failures(vars(outcome)) else "; ".join(outcome.notes) or "failed"
            print(f"{name}: {found['trials']} of {trials}: {state}", flush=True)


def record(name: str, fault: Fault, outcome: Outcome) -> dict[str, Any]:
    """Add a trial to what is recorded of its fault, and put the table of all into the docs."""
    with open(__file__, "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # others may be recording trials of other faults
        return _record(name, fault, outcome)


def _record(name: str, fault: Fault, outcome: Outcome) -> dict[str, Any]:
    results = read()
    empty = {"what": "", "trials": 0, "lost": 0, "doubled": 0, "wrong": 0, "counted": {}, "notes": []}
    found = results.setdefault(name, empty)
    found["what"], found["trials"] = fault.what, found["trials"] + 1
    for count in ("lost", "doubled", "wrong"):
        found[count] += getattr(outcome, count)
    for what, number in outcome.counted.items():
        found["counted"][what] = found["counted"].get(what, 0) + number
    found["notes"] = [*found["notes"], *outcome.notes][:_NOTES]
    write(results)
    return found


def failures(found: dict[str, Any]) -> int:
    """How much was lost, doubled or wrong."""
    return found["lost"] + found["doubled"] + found["wrong"]


def read() -> dict[str, Any]:
    """What is recorded of each fault."""
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}


def write(results: dict[str, Any]) -> None:
    """Replace what is recorded, in the order of the list of faults, and the table in the docs."""
    ordered = {name: results[name] for name in FAULTS if name in results}
    partial = RESULTS.with_name(".results.partial")
    partial.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
    partial.replace(RESULTS)
    write_tables(table.PAGE, {table.MARK: "\n".join(table.lines(ordered))})


if __name__ == "__main__":
    sys.exit(main())
