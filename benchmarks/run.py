"""All benchmarks: `make bench`. Prints a table and writes benchmarks/results.json.

Every number that matters is a ratio against a peer measured in the same run, since machines differ and
are noisy. Those of training and sampling take long: `make bench-training`.
"""

from __future__ import annotations

from pathlib import Path

import bench_metrics
import bench_reward
import bench_voting
from recording import RESULTS, record

BENCHMARKS = {"metrics": bench_metrics.run, "reward": bench_reward.run, "voting": bench_voting.run}


def main() -> None:
    results = {}
    for name, run in BENCHMARKS.items():
        results[name] = run()
        print(name)
        for key, value in results[name].items():
            print(f"  {key}: {value}")
    record(results)
    print(f"written to {RESULTS.relative_to(Path.cwd()) if RESULTS.is_relative_to(Path.cwd()) else RESULTS}")


if __name__ == "__main__":
    main()
