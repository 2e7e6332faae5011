"""Words in answers and questions, found little by little.

A million answers are more than can be searched while a reader waits, so that a search goes on by itself: it
says how far it has come, and what it has found until then.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition, Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcr.report.fields import read_objects
from rlcr.report.reading import EvalRun
from rlcr.report.samples import golds_of, shown_record
from rlcr.runs.store import PROBLEMS, RECORDS

_AT_ONCE = 2000
#: How long a reader waits for what a search finds at first.
_PATIENCE = 0.3


@dataclass
class _Progress:
    """How far the search has come in one run."""

    codes: Mapping[str, int]
    """The numbers of its questions; other ones if the run was begun anew."""
    asked: set[str] | None = None
    """The questions that hold the words themselves."""
    found: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))


class Search:
    """One search over runs that may still grow; it belongs to a thread of its own until it is stopped."""

    def __init__(self, words: str, runs_now: Callable[[], Sequence[EvalRun]]) -> None:
        self.words = words
        self._runs_now = runs_now
        self._progress: dict[Path, _Progress] = {}
        self._moved = Condition()
        self._stopped = False
        # What no escape can hide in a file can be looked for in its bytes, before anything is parsed.
        self._raw = json.dumps(words)[1:-1].encode() if words.isascii() else b""
        self._thread = Thread(target=self._search, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it."""
        with self._moved:
            self._stopped = True
            self._moved.notify_all()

    def found(self, runs: Sequence[EvalRun]) -> tuple[list[NDArray[np.bool_]], int]:
        """For each run which of its rows hold the words, and how many rows have been searched by now."""
        with self._moved:
            self._moved.notify_all()
            total = sum(len(run.rows) for run in runs)
            self._moved.wait_for(lambda: self._searched(runs) >= total, _PATIENCE)
            masks = []
            for run in runs:
                mask = np.zeros(len(run.rows), np.bool_)
                known = self._of(run).found[: len(mask)]
                mask[: len(known)] = known
                masks.append(mask)
            return masks, self._searched(runs)

    def _of(self, run: EvalRun) -> _Progress:
        progress = self._progress.get(run.folder)
        if progress is None or progress.codes is not run.rows.codes:
            progress = self._progress[run.folder] = _Progress(run.rows.codes)
        return progress

    def _searched(self, runs: Sequence[EvalRun]) -> int:
        return sum(min(len(self._of(run).found), len(run.rows)) for run in runs)

    def _search(self) -> None:
        while not self._stopped:
            if sum(self._further(run) for run in self._runs_now()):
                continue
            with self._moved:
                if not self._stopped:
                    self._moved.wait(1.0)

    def _further(self, run: EvalRun) -> bool:
        """Search a few more rows of a run; False where none are left."""
        progress = self._of(run)
        start = len(progress.found)
        stop = min(len(run.rows), start + _AT_ONCE)
        if start >= stop:
            return False
        if progress.asked is None:
            progress.asked = set(self._questions(run))
        names = (run.rows.ids[question] for question in run.rows.question[start:stop])
        holding = (
            name in progress.asked or self._holds(line, run)
            for name, line in zip(names, _lines(run, start, stop), strict=True)
        )
        more = np.fromiter(holding, np.bool_, stop - start)
        with self._moved:
            progress.found = np.concatenate((progress.found, more))
            self._moved.notify_all()
        return True

    def _questions(self, run: EvalRun) -> Iterator[str]:
        for _, problem, _ in read_objects(run.folder / PROBLEMS):
            if self._stopped:
                return
            if problem is not None and isinstance(name := problem.get("id"), str):
                texts = (str(problem.get("question") or ""), *golds_of(problem))
                if any(self.words in text.lower() for text in texts):
                    yield name

    def _holds(self, line: bytes, run: EvalRun) -> bool:
        if self._raw and self._raw not in line.lower():
            return False
        try:
            record = json.loads(line)
        except ValueError:
            return False
        return isinstance(record, dict) and self.words in _text_of(record, run)


def _lines(run: EvalRun, start: int, stop: int) -> Iterator[bytes]:
    """The lines of some rows, from the file."""
    with open(run.folder / RECORDS, "rb") as file:
        for offset in run.rows.offset[start:stop].tolist():
            file.seek(offset)
            yield file.readline()


def _text_of(record: Mapping[str, Any], run: EvalRun) -> str:
    """What of an answer is searched: what its card shows."""
    shown = shown_record(record, run)
    texts = (part[1] for part in shown["p"]), (shown.get(name, "") for name in ("a", "fa", "fc"))
    return "\n".join((str(record.get("id")), *texts[0], *texts[1])).lower()
