"""`make results`: the quickstart over seeds 0 to 4, as results/quickstart.json and a table on the terminal.

What is done is not done again (runs/seeds/SEED), so that an interrupted run can be taken up. All numbers are
exact: greedy answers to every sequence of draws, weighed with their chances.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from pathlib import Path
from typing import Any

from rlcr import quickstart

_SEEDS = range(5)
_OUT = Path("results/quickstart.json")
_COMMAND = "make results"


def main() -> None:
    """Run what is missing, then write the file."""
    runs: dict[str, dict[str, Any]] = {}
    for seed in _SEEDS:
        folder = Path("runs/seeds") / str(seed)
        quickstart.run(folder, seed=seed, watch=_tell())
        runs[str(seed)] = json.loads((folder / quickstart.SUMMARY).read_text(encoding="utf-8"))
    first = runs["0"]
    result = {
        "command": _COMMAND,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
        "versions": first["versions"],
        "optimum": first["optimum"],
        "wanted": {name: _wanted(name, runs) for name in _WANTED},
        "seeds": {seed: {"seconds": run["seconds"], "exact": run["exact"]} for seed, run in runs.items()},
    }
    _OUT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    for name, found in result["wanted"].items():
        print(f"{'holds' if found['holds'] else 'FAILS'}  {name}: {found['worst']:.4f}")
    print(_OUT)


def _of(way: str, number: str) -> Any:
    return lambda exact: exact[way][number]


#: What the quickstart should show: a number of one seed, what is made of the seeds, and its limits.
_WANTED: dict[str, tuple[Any, Any, float, float]] = {
    "RLCR, least share of the optimal reward": (_of("rlcr", "share"), min, 0.95, 1.0),
    "RLCR, mean share of the optimal reward": (_of("rlcr", "share"), statistics.fmean, 0.97, 1.0),
    "RLCR, largest ECE": (_of("rlcr", "ece"), max, 0.0, 0.03),
    "RLCR, least accuracy": (_of("rlcr", "accuracy"), min, 0.325, 1.0),
    "RLCR-Log, largest accuracy": (_of("rlcr-log", "accuracy"), max, 0.0, 0.05),
    "RLCR-Log, largest Brier": (_of("rlcr-log", "brier"), max, 0.0, 0.02),
    "calibration only, largest accuracy": (_of("calibration-only", "accuracy"), max, 0.0, 0.05),
    "calibration only, largest Brier": (_of("calibration-only", "brier"), max, 0.0, 0.02),
    "RLVR, largest distance to RLCR's accuracy": (
        lambda exact: abs(exact["rlvr"]["accuracy"] - exact["rlcr"]["accuracy"]),
        max,
        0.0,
        0.02,
    ),
    "RLVR, least ECE in ECEs of RLCR": (
        lambda exact: exact["rlvr"]["ece"] / max(exact["rlcr"]["ece"], 1e-9),
        min,
        5.0,
        float("inf"),
    ),
}


def _wanted(name: str, runs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    number, over_seeds, low, high = _WANTED[name]
    worst = over_seeds([number(run["exact"]) for run in runs.values()])
    limits = {"at least": low} if low > 0 else {"at most": high}
    return {**limits, "worst": round(worst, 4), "holds": low <= worst <= high}


def _tell() -> quickstart.Watch:
    said: dict[str, float] = {}

    def tell(name: str, share: float, word: str) -> None:
        if share >= 1 or time.monotonic() - said.get(name, 0.0) > 60:
            said[name] = time.monotonic()
            print(f"{name}: {share:.0%}, {word}", flush=True)

    return tell


if __name__ == "__main__":
    main()
