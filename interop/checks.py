"""What an engine's run compares, and how far apart the numbers are."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from interop.case import METRICS, Case

_CORRECT = {"correct": 1.0, "wrong": 0.0, "unscorable": None}


class Checks:
    """The comparisons of one engine, written down as they are made."""

    def __init__(self, out: Path, package: str) -> None:
        self._out = out
        self._found = {"engine": version(package), "python": sys.version.split()[0]}
        self.done: list[dict[str, Any]] = []

    def equal(self, what: str, found: Iterable[Any], expected: Iterable[Any], within: float = 1e-12) -> None:
        """Note the largest difference of two columns; None must meet None."""
        pairs = list(zip(list(found), list(expected), strict=True))
        absent = sum((a is None) != (b is None) for a, b in pairs)
        largest = max((float(abs(a - b)) for a, b in pairs if a is not None and b is not None), default=0.0)
        passed = not absent and largest <= within
        self.done.append(
            {"what": what, "compared": len(pairs), "difference": largest, "within": within, "passed": passed}
        )
        self._out.write_text(json.dumps({**self._found, "checks": self.done}), encoding="utf-8")
        print(f"  {'ok' if passed else 'DIFFERENT'}: {what}: {len(pairs)} compared, {largest:.1e} apart"
              + (f", {absent} present in one only" if absent else ""), flush=True)  # fmt: skip

    def settings(self, what: str, pairs: Sequence[tuple[Any, Any]]) -> None:
        """Compare settings as an engine reads them with what they should be: 1 where they are the same."""
        self.equal(what, [float(found == wanted) for found, wanted in pairs], [1.0] * len(pairs))

    def metrics(self, what: str, found: dict[str, Any], case: Case, *, intervals: bool = False) -> None:
        """Compare the reported metrics with those of `rlcr metrics`."""
        expected = {name: case.metrics[name]["value"] for name in METRICS}
        if intervals:
            expected |= {f"{name}_low": case.metrics[name]["ci95"][0] for name in METRICS}
            expected |= {f"{name}_high": case.metrics[name]["ci95"][1] for name in METRICS}
        self.equal(what, [found[name] for name in expected], expected.values())

    def imported(self, what: str, log: Path, case: Case, *, questions: int = 0, samples: int = 0) -> None:
        """Import a log that the engine wrote, and compare the run with what is stored.

        ``questions`` and ``samples`` are how many of the stored ones the log is about: all by default. Their
        ids in the log are numbers, in the order of the questions.
        """
        run = Path(f"imported-{len(self.done)}")
        command = [sys.executable, "-m", "rlcr", "import", log, "--out", run, "--verifier", "math", "--json"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        lines = (run / "records.jsonl").read_text(encoding="utf-8").splitlines()
        records = sorted(map(json.loads, lines), key=lambda one: (int(one["id"]), one["sample"]))
        of_each = samples or len(case.completions[0])

        def stored(column: list[list[Any]]) -> list[Any]:
            return [one for group in column[: questions or None] for one in group[:of_each]]

        verdicts = [_CORRECT[one] for one in stored(case.verdicts)]
        found = [_CORRECT[one["verdict"]] for one in records]
        self.equal(f"verdicts after `rlcr import` of {what}", found, verdicts)
        stated = [one["confidence"] for one in records]
        self.equal(f"confidences after `rlcr import` of {what}", stated, stored(case.confidences))
