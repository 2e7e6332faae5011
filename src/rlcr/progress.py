"""Progress: a bar on a terminal; in a pipe nothing for short work, and plain lines for a long run."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rlcr.tables import Progress

_SECONDS_BETWEEN_LINES = 30.0


@contextmanager
def progress_bar(description: str) -> Iterator[Progress | None]:
    """Yield a function to call with the share that is done, or None where nobody would see it.

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


class RunProgress:
    """Watches the records of a run: how many, how fast, how long still, and accuracy and ECE so far."""

    def __init__(self, done: int, total: int) -> None:
        self._first, self._done, self._total = done, done, total
        self._correct: list[bool] = []
        self._confidence: list[float] = []
        self._started = time.monotonic()
        self._last_line = self._started
        self._bar = self._open_bar() if sys.stderr.isatty() else None

    def __call__(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Take note of records that were just written."""
        self._done += len(records)
        for record in records:
            if record["verdict"] != "unscorable" and record["confidence"] is not None:
                self._correct.append(record["verdict"] == "correct")
                self._confidence.append(record["confidence"])
        now = time.monotonic()
        if self._bar:
            self._bar.update(self._bar.task_ids[0], completed=self._done, status=self._status())
        elif now - self._last_line >= _SECONDS_BETWEEN_LINES or self._done == self._total:
            self._last_line = now
            rate = (self._done - self._first) / max(now - self._started, 1e-9)
            left = (self._total - self._done) / rate
            line = f"{self._done:,} of {self._total:,} completions, {rate:.2f}/s, {left:.0f} s left"
            print(f"{line}, {self._status()}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._bar:
            self._bar.stop()

    def _status(self) -> str:
        if not self._correct:
            return "nothing scored yet"
        from rlcr.metrics import accuracy, ece

        calibration = ece(self._correct, self._confidence)
        return f"accuracy {accuracy(self._correct):.3f}, ECE {calibration:.3f} so far"

    def _open_bar(self) -> Any:
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
        bar = Progress(*columns, console=Console(stderr=True))
        bar.add_task("", total=self._total, completed=self._done, status="")
        bar.start()
        return bar
