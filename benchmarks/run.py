"""All benchmarks: `make bench`. Prints a table and writes benchmarks/results.json.

Every number that matters is a ratio against a peer measured in the same run, since machines differ and
are noisy.
"""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import version
from pathlib import Path

import bench_metrics
import bench_reward

BENCHMARKS = {"metrics": bench_metrics.run, "reward": bench_reward.run}
PACKAGES = ("rlcr", "numpy", "scipy", "scikit-learn", "math-verify")


def main() -> None:
    results = {}
    for name, run in BENCHMARKS.items():
        results[name] = run()
        print(name)
        for key, value in results[name].items():
            print(f"  {key}: {value}")
    record = {
        "command": "make bench",
        "machine": {"cpus": os.cpu_count(), "system": platform.system(), "python": platform.python_version()},
        "versions": {package: version(package) for package in PACKAGES},
        "results": results,
    }
    path = Path(__file__).parent / "results.json"
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(f"written to {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")


if __name__ == "__main__":
    main()
