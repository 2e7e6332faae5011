"""benchmarks/results.json: what was measured, and for each result how, where and with which versions.

They are measured one by one, on different days, so that each has its own.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results.json"
PACKAGES = (
    "rlcr",
    "numpy",
    "scipy",
    "scikit-learn",
    "math-verify",
    "torch",
    "transformers",
    "trl",
    "accelerate",
)


def record(results: dict[str, Any]) -> None:
    """Write results by name; those of other benchmarks stay."""
    before = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    measured = {
        "command": shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]]),
        "machine": {"cpus": os.cpu_count(), "system": platform.system(), "python": platform.python_version()},
        "versions": {package: found for package in PACKAGES if (found := _version(package))},
    }
    found = {name: result | {"measured": measured} for name, result in results.items()}
    together = {"results": before.get("results", {}) | found}
    RESULTS.write_text(json.dumps(together, indent=2) + "\n", encoding="utf-8")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
