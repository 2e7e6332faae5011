"""benchmarks/results.json: what was measured, and for each result how, where and with which versions.

They are measured one by one, on different days, so that each has its own.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
import sys
from contextlib import suppress
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
    "peft",
)


def record(results: dict[str, Any]) -> None:
    """Write results by name; those of other benchmarks stay."""
    before = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    measured = {
        "commit": _commit(),
        "command": shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]]),
        "machine": {
            "cpus": os.cpu_count(),
            "cpu": _cpu(),
            "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
            "system": platform.system(),
            "python": platform.python_version(),
        },
        "versions": {package: found for package in PACKAGES if (found := _version(package))},
    }
    found = {name: result | {"measured": measured} for name, result in results.items()}
    together = {"results": before.get("results", {}) | found}
    RESULTS.write_text(json.dumps(together, indent=2) + "\n", encoding="utf-8")


def _commit() -> str:
    """Of the code that ran; "-dirty" where files were changed since."""
    call = ["git", "describe", "--always", "--dirty", "--exclude", "*"]
    return subprocess.run(
        call, cwd=RESULTS.parent, capture_output=True, text=True, check=False
    ).stdout.strip()


def _cpu() -> str:
    """Its name and whether it has wide vectors, as far as Linux tells."""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        fields = dict(line.split("\t: ", 1) for line in lines if "\t: " in line)
        known = {key.strip(): value for key, value in fields.items()}
        widths = [width for width in ("avx512f", "avx2") if width in known.get("flags", "").split()]
        return f"{known.get('model name', 'unknown')} {' '.join(widths[:1])}".strip()
    return platform.processor()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
