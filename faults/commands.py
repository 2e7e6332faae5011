"""Commands of rlcr in processes that can be killed, forked from one that has imported everything.

What a kill is to meet is the work of a command; starting Python and importing torch takes longer than that.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_IMPORTED = [
    "torch", "transformers", "trl", "accelerate", "peft", "datasets", "openai", "matplotlib.pyplot",
    "rlcr.cli", "rlcr.training.run", "rlcr.training.sft_trainer", "rlcr.training.warm_up",
    "rlcr.confidence.classifier", "rlcr.report.page", "rlcr.quickstart",
]  # fmt: skip
_HANGS = 600.0

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(_IMPORTED)


@dataclass(frozen=True)
class Ended:
    """How a command ended. The status of one that was killed is negative."""

    status: int
    errors: str
    seconds: float

    @property
    def killed(self) -> bool:
        """Whether it was ended by a signal."""
        return self.status < 0

    @property
    def fault(self) -> str:
        """What must not be of any command, whatever was done to it; empty if there is nothing."""
        if "Traceback" in self.errors:
            return f"a traceback: {self.last_line}"
        if self.status == 2 and not self.last_line.startswith("rlcr: "):
            return f"exit status 2 without a line that says why: {self.last_line}"
        return "" if self.status in (0, 2) or self.killed else f"exit status {self.status}: {self.last_line}"

    @property
    def last_line(self) -> str:
        """The last line on standard error."""
        return (self.errors.strip().splitlines() or [""])[-1]


def run(
    arguments: Sequence[object],
    log: Path,
    *,
    kill_after: float | None = None,
    first: Callable[[], None] | None = None,
) -> Ended:
    """Run a command to its end, or kill it after some seconds. ``first`` is called in its process first."""
    _import()
    process = _context.Process(target=_command, args=(list(map(str, arguments)), str(log), first))
    began = time.monotonic()
    process.start()
    process.join(_HANGS if kill_after is None else kill_after)
    if process.exitcode is None and kill_after is None:
        process.kill()
        process.join()
        return Ended(1, f"hung for {_HANGS:.0f} s", time.monotonic() - began)
    if process.exitcode is None:
        process.kill()
        process.join()
    status = process.exitcode
    assert status is not None
    return Ended(status, log.read_text(errors="replace") if log.exists() else "", time.monotonic() - began)


@cache
def _import() -> None:
    """Wait until everything is imported, which is no part of any command's time."""
    process = _context.Process(target=int)
    process.start()
    process.join()


def _command(arguments: list[str], log: str, first: Callable[[], None] | None) -> None:
    from rlcr.cli import main

    errors = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(errors, 2)
    if first:
        first()
    sys.argv = ["rlcr", *arguments]
    main()
