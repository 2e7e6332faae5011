"""Progress: a bar on a terminal; in a pipe nothing for short work, and plain lines for a long run."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from rlcr.runs.record import Record
from rlcr.tasks.plumbing.tables import Progress
from rlcr.terminal import console, say

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
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=1.0)
        yield lambda share: bar.update(task, completed=share)


class Watch(Protocol):
    """An observer of a run."""

    def begun(self, stage: str, total: int) -> None:
        """A stage begins that asks for so many replies."""
        ...

    def replied(self, stage: str) -> None:
        """A reply has arrived and is on disk."""
        ...

    def graded(self, records: Sequence[Record]) -> None:
        """Records were written."""
        ...


#: What the replies of a stage are called.
_REPLIES = {"response": "responses", "answer": "forced answers", "confidence": "forced confidences"}


class RunProgress:
    """Follows a run: how many replies of a stage, how fast, how long still, and accuracy and ECE so far.

    Forced continuations are stages of their own, and have a count and an estimate of their own. ``done``
    responses of ``total`` were there when the run was opened.
    """

    def __init__(self, done: int, total: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._responses, self._total = done, total
        self._stage, self._first, self._done, self._of = "response", done, done, total
        self._correct: list[bool] = []
        self._rated: list[bool] = []
        self._confidence: list[float] = []
        self._started = self._last_shown = clock()
        self._bar = open_bar(done, total) if sys.stderr.isatty() else None

    def begun(self, stage: str, total: int) -> None:
        """Count the replies of another stage from now on."""
        if stage == "response":
            self._first = self._done = self._responses
            self._of = self._total
        else:
            self._first, self._done, self._of = 0, 0, total
        self._stage, self._started = stage, self._clock()
        if self._bar:
            self._bar.reset(
                self._bar.task_ids[0], total=self._of, completed=self._done, status=self._status()
            )

    def replied(self, stage: str) -> None:
        """Count a reply."""
        self._done += 1
        self._responses += stage == "response"
        now = self._clock()
        if now - self._last_shown >= (_SECONDS_BETWEEN_UPDATES if self._bar else _SECONDS_BETWEEN_LINES):
            self._last_shown = now
            self._show()

    def graded(self, records: Sequence[Record]) -> None:
        """Take note of records that were just written."""
        for record in records:
            if record.correct is not None:
                self._correct.append(record.correct)
            if record.correct is not None and record.confidence is not None:
                self._rated.append(record.correct)
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
        line = f"{self._done:,} of {self._of:,} {_REPLIES[self._stage]}, {self._pace()}{self._status()}"
        say(line, file=sys.stderr)

    def _pace(self) -> str:
        new, seconds = self._done - self._first, self._clock() - self._started
        if new < _REPLIES_BEFORE_ESTIMATE or seconds < _SECONDS_BEFORE_ESTIMATE:
            return ""
        rate, left = new / seconds, self._of - self._done
        if not left:
            return f"{rate:.2f}/s, "
        then = "" if self._stage == "confidence" else " before forced continuations"
        return f"{rate:.2f}/s, {left / rate:.0f} s left{then}, "

    def _status(self) -> str:
        # On a bar nothing else says what it counts.
        stage = f"{_REPLIES[self._stage]}, " if self._bar and self._stage != "response" else ""
        if not self._correct:
            return f"{stage}nothing graded yet"
        from rlcr.metrics import accuracy, ece

        graded = f"{stage}accuracy {accuracy(self._correct):.3f} of {len(self._correct):,}"
        if not self._rated:
            return f"{graded} so far"
        return f"{graded}, ECE {ece(self._rated, self._confidence):.3f} of {len(self._rated):,} so far"


def open_bar(done: int, total: int, *, speed_estimate_period: float = 30.0) -> Any:
    """A started bar on standard error: count, elapsed and remaining time, and a task field ``status``."""
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
        console=console(stderr=True),
        redirect_stdout=redirect,
        speed_estimate_period=speed_estimate_period,
    )
    bar.add_task("", total=total, completed=done, status="")
    bar.start()
    return bar
