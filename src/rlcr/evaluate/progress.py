"""Progress: a bar on a terminal; in a pipe nothing for short work, and plain lines for a long run."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from rlcr.runs.record import Record
from rlcr.tasks.plumbing.tables import Progress

_SECONDS_BETWEEN_UPDATES = 0.5
_SECONDS_BETWEEN_LINES = 30.0
# Before that an estimate says nothing: models warm up, and short responses come first.
_REPLIES_BEFORE_ESTIMATE = 10
_SECONDS_BEFORE_ESTIMATE = 10.0


@contextmanager
def progress_bar(description: str) -> Iterator[Progress | None]:
    """Yield a function to call with the share that is done, or None where there is no terminal.

    It goes to standard error, so that results on standard output stay clean.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=1.0)
        yield lambda share: bar.update(task, completed=share)


class Watch(Protocol):
    """An observer of a run."""

    def replied(self, stage: str) -> None:
        """A reply has arrived and is on disk."""
        ...

    def graded(self, records: Sequence[Record]) -> None:
        """Records were written."""
        ...


class RunProgress:
    """Follows a run: how many responses, how fast, how long still, and accuracy and ECE so far."""

    def __init__(self, done: int, total: int) -> None:
        self._first, self._done, self._total = done, done, total
        self._repairs = 0
        self._correct: list[bool] = []
        self._confidence: list[float] = []
        self._started = self._last_shown = time.monotonic()
        self._bar = open_bar(done, total) if sys.stderr.isatty() else None

    def replied(self, stage: str) -> None:
        """Count a reply."""
        if stage == "response":
            self._done += 1
        else:
            self._repairs += 1
        now = time.monotonic()
        if now - self._last_shown >= (_SECONDS_BETWEEN_UPDATES if self._bar else _SECONDS_BETWEEN_LINES):
            self._last_shown = now
            self._show()

    def graded(self, records: Sequence[Record]) -> None:
        """Take note of records that were just written."""
        for record in records:
            if record.correct is not None and record.confidence is not None:
                self._correct.append(bool(record.correct))
                self._confidence.append(record.confidence)

    def close(self) -> None:
        """Show the last state, and leave the terminal as it was."""
        self._show()
        if self._bar:
            self._bar.stop()

    def _show(self) -> None:
        if self._bar:
            self._bar.update(self._bar.task_ids[0], completed=self._done, status=self._status())
            return
        line = f"{self._done:,} of {self._total:,} responses, {self._pace()}{self._status()}"
        print(line, file=sys.stderr, flush=True)

    def _pace(self) -> str:
        new, seconds = self._done - self._first, time.monotonic() - self._started
        if new < _REPLIES_BEFORE_ESTIMATE or seconds < _SECONDS_BEFORE_ESTIMATE:
            return ""
        rate, left = new / seconds, self._total - self._done
        return f"{rate:.2f}/s, " + (f"{left / rate:.0f} s left, " if left else "")

    def _status(self) -> str:
        repairs = f"{self._repairs:,} repairs, " if self._repairs else ""
        if not self._correct:
            return f"{repairs}nothing graded yet"
        from rlcr.metrics import accuracy, ece

        calibration = ece(self._correct, self._confidence)
        return f"{repairs}accuracy {accuracy(self._correct):.3f}, ECE {calibration:.3f} so far"


def open_bar(done: int, total: int, *, speed_estimate_period: float = 30.0) -> Any:
    """A started bar on standard error: count, elapsed and remaining time, and a task field ``status``."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    status = TextColumn("{task.fields[status]}")
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(), status)
    # Printed lines go above the bar, but not those that standard output takes elsewhere.
    redirect = sys.stdout.isatty()
    bar = Progress(
        *columns,
        console=Console(stderr=True),
        redirect_stdout=redirect,
        speed_estimate_period=speed_estimate_period,
    )
    bar.add_task("", total=total, completed=done, status="")
    bar.start()
    return bar
