"""Runs that are being written: one thread reads what is new, another makes the page of it again.

Reading never waits for the page, which may take a minute for a million records: new answers are there at
once, tables and figures follow. Between two pages the maker rests three times as long as the last one took
of a processor.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Condition, Event, Thread
from typing import Any

from rlcr.errors import RlcrError
from rlcr.report.live.answers import Answers, Shelf
from rlcr.report.live.problems import ProblemIndex
from rlcr.report.page import make_report, render
from rlcr.report.reading import EVALS, EvalRun, ReportInput, first_round, read_runs
from rlcr.report.rows import RecordReader
from rlcr.report.samples import LONGEST, ShownSamples
from rlcr.runs.store import PROBLEMS, RECORDS

log = logging.getLogger(__name__)

#: Seconds between two looks at files that do not grow.
_LOOK = 0.2
#: A page is made again after so many times what the last one took, and not before a second has passed.
_REST, _LEAST_REST = 3.0, 1.0

#: What a file looks like from outside: whether it is another one than before.
_Sight = dict[str, tuple[int, int, int]]


class Watched:
    """Runs, as they are now."""

    def __init__(self, folders: Sequence[Path], trained_on: Sequence[str] = ()) -> None:
        self._folders, self._trained_on = list(folders), tuple(trained_on)
        self._readers: dict[Path, RecordReader] = {}
        self._problems: dict[Path, ProblemIndex] = {}
        self._stopped, self._changed = Event(), Condition()
        self._error = ""
        self._read = False
        # A folder that is no run is an error now, of whoever starts us, and later a line on the page.
        self._seen = self._sight()
        self._inputs = read_runs(self._folders, reader_of=self._reader_of)
        self._shelf = Shelf(0, self._inputs.evals)
        written = [time_ns for *_, time_ns in self._seen.values()]
        self._news = max([*written, *(_written(path) for path in self._readers)], default=0) / 1e9
        self._pages = 0
        # What the page is being made of, and what the one that is shown was made of.
        self._made_of: tuple[int, _Sight] | None = None
        self._shown: tuple[int, _Sight] | None = None
        self._page = self._made(_without_numbers(self._inputs), self._pages)
        self.answers = Answers(lambda: self._shelf, self._problems_of)
        self._threads = [Thread(target=run, daemon=True) for run in (self._follow, self._keep_making)]

    def start(self) -> None:
        """Begin to follow the runs."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Follow them no more."""
        self._stopped.set()
        self.answers.close()
        with self._changed:
            self._changed.notify_all()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout=1)

    @property
    def page(self) -> str:
        """The page as it was made last."""
        return self._page

    def state(self) -> dict[str, Any]:
        """How far we are: what a page compares with what it shows."""
        sizes = [(reader.position, _size(path)) for path, reader in self._readers.items()]
        done, total = sum(size[0] for size in sizes), sum(size[1] for size in sizes)
        return {
            "version": self._shelf.version,
            "page": self._pages,
            "answers": int(self._shelf.starts[-1]),
            "reading": None if self._pages else done / max(1, total),
            "behind": self._shown != (self._shelf.version, self._seen),
            "quiet": round(time.time() - self._news, 1),
            "error": self._error,
        }

    # --- reading ------------------------------------------------------------------------------------

    def _reader_of(self, path: Path, grading: object) -> RecordReader:
        reader = self._readers.get(path)
        if reader is None or reader.grading != grading:
            reader = self._readers[path] = RecordReader(path, grading)
            reader.read()
        return reader

    def _problems_of(self, run: EvalRun) -> ProblemIndex:
        path = run.folder / PROBLEMS
        if path not in self._problems:
            self._problems[path] = ProblemIndex(path)
        return self._problems[path]

    def _follow(self) -> None:
        while not self._stopped.is_set():
            try:
                readers = list(self._readers.values())
                before = [(len(reader), reader.position) for reader in readers]
                more = sum(reader.read() for reader in readers)
                # Questions are looked up while records are still being read, from the beginning of both.
                more += sum(self._problems_of(run).read() for run in self._shelf.runs)
                if before != [(len(reader), reader.position) for reader in readers]:
                    self._publish(self._inputs.evals)
                if not more:
                    self._look()
                    self._stopped.wait(_LOOK)
            except (RlcrError, OSError) as error:  # a folder that is gone, a file that cannot be read
                self._error = str(error)
                self._stopped.wait(1.0)

    def _publish(self, evals: Sequence[EvalRun]) -> None:
        """Show the rows that were read by now."""
        self._news = time.time() if self._read else self._news
        fresh = [self._fresh(run) for run in evals]
        with self._changed:
            self._shelf = Shelf(self._shelf.version + 1, fresh)
            self._changed.notify_all()

    def _fresh(self, run: EvalRun) -> EvalRun:
        reader = self._readers.get(run.folder / RECORDS)
        return run if reader is None else replace(run, rows=reader.columns(first_round(run.settings))[0])

    def _look(self) -> None:
        """Notice other files than those of records: results, updates, a new held-out evaluation."""
        seen = self._sight()
        if seen != self._seen or not self._read:
            self._news = time.time() if self._read else self._news
            with self._changed:
                self._seen, self._read = seen, True
                self._changed.notify_all()

    def _sight(self) -> _Sight:
        sight: _Sight = {}
        for folder in self._folders:
            evals = folder / EVALS
            for place in (folder, evals, *(sorted(evals.iterdir()) if evals.is_dir() else ())):
                sight |= _files(place)
        return sight

    # --- the page -----------------------------------------------------------------------------------

    def _keep_making(self) -> None:
        while not self._stopped.is_set():
            with self._changed:
                if not self._changed.wait_for(self._is_old, timeout=1.0):
                    continue
                made_of = self._made_of = self._shelf.version, self._seen
            started = time.thread_time()
            try:
                inputs = read_runs(self._folders, reader_of=self._reader_of)
                page = self._made(inputs, self._pages + 1)
                self._error = ""
            except (RlcrError, OSError) as error:
                self._error = str(error)
            else:
                before = [run.folder for run in self._inputs.evals]
                self._inputs, self._page, self._pages, self._shown = inputs, page, self._pages + 1, made_of
                if before != [run.folder for run in inputs.evals]:
                    self._publish(inputs.evals)  # a training has begun to evaluate a later update
            self._stopped.wait(max(_LEAST_REST, _REST * (time.thread_time() - started)))

    def _is_old(self) -> bool:
        """Whether the page shows less than is there, and all that was there at first has been read."""
        return self._read and self._made_of != (self._shelf.version, self._seen)

    def _made(self, inputs: ReportInput, number: int) -> str:
        rule = f"Texts longer than {LONGEST:,} characters are shortened in the middle, with a note."
        total = sum(len(run.rows) for run in inputs.evals)
        selection = ShownSamples(rule=[rule], total=total)
        report = make_report(inputs, self._trained_on, selection=selection)
        return render(report, live=True, number=number)


def _without_numbers(inputs: ReportInput) -> ReportInput:
    """The same runs with nothing in them: a page that is there at once, while the first one is made."""
    nothing, _ = RecordReader(Path()).columns()
    nothing_of = {"results": None, "rows": nothing, "artefacts": {}, "notes": [], "damage": ""}
    evals = [replace(run, **nothing_of) for run in inputs.evals]
    return ReportInput(evals, [])


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _written(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _files(folder: Path) -> _Sight:
    """The files of a folder but its records, which are read as they grow."""
    try:
        with os.scandir(folder) as entries:
            return {
                entry.path: (status.st_ino, status.st_size, status.st_mtime_ns)
                for entry in entries
                if entry.name != RECORDS and not entry.name.startswith(".") and entry.is_file()
                for status in (entry.stat(),)
            }
    except OSError:
        return {}
