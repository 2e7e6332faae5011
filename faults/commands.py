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
    "faults.listing",  # what the main module imports, which every process imports again
    "faults.beforehand",
    "rlcr.report.page",
    "matplotlib.pyplot",
    "openai",
    "httpcore2",
    "jinja2",
    "rlcr.confidence.sources",
    "rlcr.report.live.server",
    "rlcr.adapters.service",
    "uvicorn",
    "starlette.applications",
    "scipy.stats",
    "sklearn.linear_model",
]
_TORCH = [
    "torch", "transformers", "trl", "accelerate", "peft", "datasets", "rlcr.training.run",
    "rlcr.training.sft_trainer", "rlcr.confidence.classifier",
]  # fmt: skip
_HANGS = 1800.0

#: Processes are forked from one that has imported everything.
context = multiprocessing.get_context("forkserver")


def import_beforehand(*, torch: bool) -> None:
    """Choose what commands find imported, before the first of them is run."""
    context.set_forkserver_preload([*_IMPORTED, *(_TORCH if torch else [])])


@dataclass(frozen=True)
class Ended:
    """How a command ended. The status of one that was killed is negative."""

    status: int
    output: str
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


class Command:
    """A command that is running in a process of its own. ``first`` is called in that process beforehand."""

    def __init__(
        self, arguments: Sequence[object], log: Path, first: Callable[[], None] | None = None
    ) -> None:
        _import()
        self._log, self._began = log, time.monotonic()
        self._process = context.Process(target=_command, args=(list(map(str, arguments)), str(log), first))
        self._process.start()

    @property
    def pid(self) -> int:
        """The id of its process."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.is_alive()

    def signal(self, number: int) -> None:
        """Send it a signal."""
        if self._process.pid and self._process.is_alive():
            os.kill(self._process.pid, number)

    def end(self, kill_after: float | None = None) -> Ended:
        """Wait for its end, or kill it after some seconds."""
        self._process.join(_HANGS if kill_after is None else kill_after)
        hung = self._process.exitcode is None and kill_after is None
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()
        seconds, status = time.monotonic() - self._began, self._process.exitcode
        if hung or status is None:
            return Ended(1, "", f"hung for {_HANGS:.0f} s", seconds)
        return Ended(status, _text(self._log.with_suffix(".out")), _text(self._log), seconds)


def run(
    arguments: Sequence[object],
    log: Path,
    *,
    kill_after: float | None = None,
    first: Callable[[], None] | None = None,
) -> Ended:
    """Run a command to its end, or kill it after some seconds."""
    return Command(arguments, log, first).end(kill_after)


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


@cache
def _import() -> None:
    """Wait until everything is imported, which is no part of any command's time."""
    process = context.Process(target=int)
    process.start()
    process.join()


def _command(arguments: list[str], log: str, first: Callable[[], None] | None) -> None:
    from rlcr.cli import main

    errors = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    output = os.open(str(Path(log).with_suffix(".out")), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(errors, 2)
    if first:
        first()
    sys.argv = ["rlcr", *arguments]
    try:
        main()
    except Exception as error:
        sys.excepthook(type(error), error, error.__traceback__)  # multiprocessing would print it itself
        sys.exit(1)
