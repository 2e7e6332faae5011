"""Progress of a training run: a bar on a terminal, and plain lines now and then in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from rlcr.evaluate.progress import open_bar
from rlcr.terminal import say

_SECONDS_BETWEEN_LINES = 30.0
# An update may take minutes; the speed that the remaining time is estimated from needs several of them.
_SECONDS_OF_SPEED = 3600.0


class TrainingProgress:
    """Follows a run: how many updates, how long still, and reward, accuracy, ECE and length of the last.

    Also how many of its answers nobody could grade, if any. Everything goes to standard error. ``done``
    updates were there when a resumed run began.
    """

    def __init__(self, done: int, total: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._first, self._done, self._total, self._clock = done, done, total, clock
        self._started = self._last_shown = clock()
        self._status = ""
        self._unseen = False
        self._bar = (
            open_bar(done, total, speed_estimate_period=_SECONDS_OF_SPEED) if sys.stderr.isatty() else None
        )

    def updated(self, line: Mapping[str, Any]) -> None:
        """Show an update that has ended, by its line in ``updates.jsonl``."""
        self._done, self._status, self._unseen = line["update"], status(line), True
        if self._bar:
            self._bar.update(self._bar.task_ids[0], completed=self._done, status=self._status)
        elif self._clock() - self._last_shown >= _SECONDS_BETWEEN_LINES:
            self._print_line()

    def warn(self, text: str) -> None:
        """Print a warning; a bar stays below it."""
        if self._bar:
            self._bar.console.print(f"warning: {text}", style="yellow", markup=False, highlight=False)
        else:
            say(f"warning: {text}", file=sys.stderr)

    def close(self) -> None:
        """Show the last state, and leave the terminal as it was."""
        if self._bar:
            self._bar.stop()
        elif self._unseen:
            self._print_line()

    def _print_line(self) -> None:
        self._last_shown, self._unseen = self._clock(), False
        elapsed = self._last_shown - self._started
        updates = self._done - self._first
        left = _clock_time(elapsed / updates * (self._total - self._done)) if updates else "unknown time"
        line = f"update {self._done:,} of {self._total:,}, {_clock_time(elapsed)} elapsed, {left} left"
        say(f"{line}, {self._status}" if self._status else line, file=sys.stderr)


def status(line: Mapping[str, Any]) -> str:
    """What an update's line says in short, without what it does not have.

    >>> status({"reward": 0.612, "accuracy": 0.33, "ece": None, "tokens_mean": 45.2})
    'reward 0.61 · accuracy 0.33 · 45 tokens'
    """
    shown = (
        ("reward", "reward {:.2f}"),
        ("accuracy", "accuracy {:.2f}"),
        ("ece", "ECE {:.2f}"),
        ("tokens_mean", "{:.0f} tokens"),
    )
    parts = [text.format(line[key]) for key, text in shown if line.get(key) is not None]
    return " · ".join([*parts, f"{lost:,} unscorable"] if (lost := line.get("unscorable")) else parts)


def _clock_time(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
