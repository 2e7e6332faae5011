"""The command line in a process of its own, as a user meets it."""

import subprocess
import sys
from typing import Any

RLCR = [sys.executable, "-m", "rlcr"]


def rlcr(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, whatever it returns. ``options`` are those of ``subprocess.run``."""
    command = [*RLCR, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, **options)
