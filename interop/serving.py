"""The real reward service, for engines that post their completions."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reward_service() -> Iterator[str]:
    """The address of an `rlcr serve-reward` with the verifier of the stored completions."""
    command = [sys.executable, "-m", "rlcr", "serve-reward", "--verifier", "math", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("rewards at "), "the service did not start"
        yield line.removeprefix("rewards at ").strip()
    finally:
        process.terminate()
        process.wait(60)
