"""Which answers a reader sees: filtered and sorted as columns of numbers, read from files page by page."""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcr.report.live.problems import ProblemIndex
from rlcr.report.live.query import SIZES, VERDICTS, BadQuery, Query
from rlcr.report.live.search import Search
from rlcr.report.reading import EvalRun
from rlcr.report.samples import cut, golds_of, shown_record
from rlcr.runs.record import CORRECT, UNSCORABLE, WRONG

Rows = NDArray[Any]  # whole numbers

_CODES: dict[str, int] = dict(zip(VERDICTS, (CORRECT, WRONG, UNSCORABLE), strict=True))
#: Orders that are kept, so that turning a page sorts nothing.
_KEPT = 4
#: How long a reader waits for questions that were not read yet.
_PATIENCE = 0.3
_STILL_READING = "(the questions are still being read)"


@dataclass(frozen=True)
class Shelf:
    """The answers of all runs at one moment, each by its place: those of the first run, then the next."""

    version: int
    runs: Sequence[EvalRun]

    @cached_property
    def starts(self) -> Rows:
        """The place of the first answer of each run, and after the last one."""
        return np.cumsum([0, *(len(run.rows) for run in self.runs)])

    def column(self, name: str) -> NDArray[Any]:
        """A column of all runs; of a single one without a copy."""
        parts = [getattr(run.rows, name) for run in self.runs]
        return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0), *parts])

    @cached_property
    def questions(self) -> NDArray[np.int64]:
        """A number for the question of each answer, the same in every run."""
        if len(self.runs) == 1:
            return self.runs[0].rows.question.astype(np.int64)
        return np.concatenate([_hashes(run.rows.ids)[run.rows.question] for run in self.runs])

    def locate(self, place: int) -> tuple[int, int]:
        """The run of a place, and the row in it."""
        run = int(np.searchsorted(self.starts, place, "right")) - 1
        return run, place - int(self.starts[run])


def _hashes(names: Sequence[str]) -> NDArray[np.int64]:
    return np.fromiter(map(hash, names), np.int64, len(names))


class Answers:
    """Answers of runs that may still grow, for many readers at a time."""

    def __init__(
        self, shelf_now: Callable[[], Shelf], problems_of: Callable[[EvalRun], ProblemIndex]
    ) -> None:
        self._shelf_now, self._problems_of = shelf_now, problems_of
        self._kept: OrderedDict[Query, tuple[int, Rows]] = OrderedDict()
        self._search: Search | None = None
        self._lock = Lock()

    def close(self) -> None:
        """End the search that is under way."""
        if self._search:
            self._search.stop()

    def page(self, query: Query) -> dict[str, Any]:
        """The answers of a page, under the names that the page's script knows.

        ``shown`` are the places, among ``samples``, of those that have a card; the others are the same
        questions in other runs.
        """
        shelf = self._shelf_now()
        if query.run is not None and query.run >= len(shelf.runs):
            raise BadQuery(f"there is no run {query.run}")
        places, searched = self._places(shelf, query)
        size = SIZES[query.view]
        last = max(0, (len(places) - 1) // size)
        number = min(query.page, last)
        chosen = places[number * size : (number + 1) * size].tolist()
        written = _Written(shelf, self._problems_of)
        shown = [written.add(place) for place in chosen]
        if query.view == "side":
            for place in chosen:
                for mate in _mates(shelf, place):
                    written.add(mate)
        return {
            "version": shelf.version,
            "count": len(places),
            "total": int(shelf.starts[-1]),
            "searched": searched,
            "page": number,
            "size": size,
            "shown": [at for at in shown if at is not None],
            "samples": written.samples,
            "problems": written.problems,
        }

    def _places(self, shelf: Shelf, query: Query) -> tuple[Rows, int | None]:
        """Every answer that is asked for, in order, and how many were searched where words are."""
        key = replace(query, page=0)
        with self._lock:
            kept = self._kept.get(key)
            if kept and kept[0] == shelf.version and not query.words:
                return kept[1], None
        mask = _passing(shelf, query)
        searched = None
        if query.words:
            masks, searched = self._searching(query.words).found(shelf.runs)
            mask &= np.concatenate([np.zeros(0, np.bool_), *masks])
        places = _sorted(shelf, query.sort, np.flatnonzero(mask))
        if query.view == "side":
            places = places[_firsts(shelf, places)]
        with self._lock:
            self._kept[key] = shelf.version, places.astype(np.int32)
            self._kept.move_to_end(key)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return places, searched

    def _searching(self, words: str) -> Search:
        with self._lock:
            if self._search is None or self._search.words != words:
                if self._search:
                    self._search.stop()
                self._search = Search(words, lambda: self._shelf_now().runs)
            return self._search


def _passing(shelf: Shelf, query: Query) -> NDArray[np.bool_]:
    verdict = shelf.column("verdict")
    mask = np.isin(verdict, [_CODES[name] for name in query.verdicts])
    if query.run is not None:
        mask[: shelf.starts[query.run]] = False
        mask[shelf.starts[query.run + 1] :] = False
    if query.repaired is not None:
        mask &= (shelf.column("repaired") > 0) == query.repaired
    if not query.every_confidence:
        confidence = shelf.column("confidence")  # NaN, where there is none, is in no range
        mask &= (confidence >= query.low - 1e-9) & (confidence <= query.high + 1e-9)
    if query.sample is not None:
        mask &= shelf.column("sample") == query.sample
    for start, run in zip(shelf.starts, shelf.runs, strict=False):
        rows = slice(start, start + len(run.rows))
        if query.task:
            mask[rows] &= run.rows.of([query.task])
        if query.question is not None:
            mask[rows] &= run.rows.question == run.rows.codes.get(query.question, -1)
    return mask


def _sorted(shelf: Shelf, sort: str, places: Rows) -> Rows:
    """The places in an order of the page; what is equal stays as it is in the files."""
    if sort == "newest" and len(shelf.runs) == 1:
        return places[::-1]
    if sort == "newest":
        ends = np.repeat(shelf.starts[1:], np.diff(shelf.starts))
        return places[np.argsort((ends - np.arange(shelf.starts[-1]))[places], kind="stable")]
    if sort == "question":
        return places if len(shelf.runs) == 1 else _by_question(shelf, places)
    verdict, confidence = shelf.column("verdict")[places], shelf.column("confidence")[places]
    if sort == "wrong":
        # Wrong ones by confidence, then the unscorable, then the right ones, the unsure first.
        wrong, right = np.nan_to_num(confidence, nan=-0.5), np.nan_to_num(confidence, nan=0.0)
        key = np.where(verdict == WRONG, -2 - wrong, np.where(verdict == CORRECT, 1 + right, -0.5))
    elif sort == "unsure":
        key = np.where(verdict == CORRECT, 0.0, 3.0) + np.nan_to_num(confidence, nan=2.0)
    else:
        return places[_stable_order(-np.nan_to_num(shelf.column("tokens")[places], nan=0.0), 1)]
    return places[_stable_order(key, 10_000)]


def _stable_order(key: NDArray[np.float64], levels: float) -> Rows:
    """A stable order by numbers, told apart to one part in ``levels``: few different ones sort fast."""
    whole = np.rint(key * levels)
    least = whole.min(initial=0)
    if whole.max(initial=0) - least < 1 << 16:
        return np.argsort((whole - least).astype(np.uint16), kind="stable")
    return np.argsort(whole, kind="stable")


def _by_question(shelf: Shelf, places: Rows) -> Rows:
    """One question after the other, in the order in which they first appear."""
    _, first, code = np.unique(shelf.questions, return_index=True, return_inverse=True)
    sample = shelf.column("sample")
    return places[np.lexsort((places, sample[places], first[code][places]))]


def _firsts(shelf: Shelf, places: Rows) -> Rows:
    """Of the places, in their order, the first of each question and sample."""
    samples = shelf.column("sample")[places].astype(np.int64)
    with np.errstate(over="ignore"):
        keys = shelf.questions[places] * np.int64(0x9E3779B97F4A7C1) + samples
    _, first = np.unique(keys, return_index=True)
    return np.sort(first)


def _mates(shelf: Shelf, place: int) -> Iterator[int]:
    """The answers of the other runs to the same question: of the same sample, or of their first one."""
    own, row = shelf.locate(place)
    rows = shelf.runs[own].rows
    name, sample = rows.ids[int(rows.question[row])], int(rows.sample[row])
    for number, run in enumerate(shelf.runs):
        if number == own or name not in run.rows.codes:
            continue
        theirs = np.flatnonzero(run.rows.question == run.rows.codes[name])
        if len(theirs):
            same = theirs[run.rows.sample[theirs] == sample]
            yield int(shelf.starts[number]) + int(same[0] if len(same) else theirs[0])


class _Written:
    """Answers, read from their files and written as the page's script reads them."""

    def __init__(self, shelf: Shelf, problems_of: Callable[[EvalRun], ProblemIndex]) -> None:
        self._shelf, self._problems_of = shelf, problems_of
        self.samples: list[dict[str, Any]] = []
        self.problems: list[dict[str, Any]] = []
        self._added: dict[int, int | None] = {}
        self._numbers: dict[str, int] = {}
        self._deadline = time.monotonic() + _PATIENCE

    def add(self, place: int) -> int | None:
        """Where the answer is among the samples; None if its file has changed under us."""
        if place not in self._added:
            self._added[place] = self._add(place)
        return self._added[place]

    def _add(self, place: int) -> int | None:
        number, row = self._shelf.locate(place)
        run = self._shelf.runs[number]
        name = run.rows.ids[int(run.rows.question[row])]
        try:
            record = run.record(row)
        except (OSError, json.JSONDecodeError):
            return None
        if not isinstance(record, Mapping) or record.get("id") != name or "verdict" not in record:
            return None
        if name not in self._numbers:
            self._numbers[name] = len(self.problems)
            problem = self._problem(run, name)
            asked = cut(str(problem.get("question") or ""))
            task = cut(str(record.get("task") or "(no task)"))
            self.problems.append({"t": task, "i": cut(name), "x": asked, "g": golds_of(problem)})
        self.samples.append({"r": number, "q": self._numbers[name], **shown_record(record, run)})
        return len(self.samples) - 1

    def _problem(self, run: EvalRun, name: str) -> Mapping[str, Any]:
        index = self._problems_of(run)
        problem = index.find(name)
        while problem is None and index.read():
            if time.monotonic() > self._deadline:
                return {"question": _STILL_READING}
            problem = index.find(name)
        return problem or {}
