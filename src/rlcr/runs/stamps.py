"""What a derived file was made from, so that a later reader can see whether it still holds.

A file that a command derives from a run carries a stamp:

    "made_from": {"records": HASH, "confidence/agreement.jsonl": HASH, …}

``records`` is a hash of which completions the run holds and how they are graded; every other name is a file
of the run, by a hash of its bytes. After `rlcr rescore`, after more samples, or once a confidence column was
made again, the stamp no longer fits: the file is stale, and every reader of it must say so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError
from rlcr.runs.lines import object_of, write_object
from rlcr.runs.record import Record
from rlcr.runs.store import ADAPTIVE, COLUMNS, COMPARISON, RESULTS, Run

MADE_FROM = "made_from"
#: The files that may be stale, with the command that makes each again.
DERIVED = {
    RESULTS: "rlcr rescore",
    ADAPTIVE: "rlcr rescore",
    "voting.json": "rlcr vote",
    "selective.json": "rlcr select",
    "coherence.json": "rlcr coherence",
    "analyses.json": "rlcr analyses",
    COMPARISON: "rlcr confidence compare",
    "classifier_sizes.json": "rlcr confidence study",
}
#: What of a record others build on. The verifier counts too: it decides which answers are equal in a vote.
_HASHED = ("id", "sample", "answer", "verdict", "confidence", "verifier")

Stamp = dict[str, str]


class RecordsHash:
    """A hash of completions and how they are graded, in the order of their file."""

    def __init__(self, grading: object) -> None:
        self._digest = hashlib.sha256(str(grading).encode())

    def add(self, cells: Mapping[str, Any]) -> None:
        """One record, as its line holds it."""
        self._digest.update(json.dumps([cells.get(name) for name in _HASHED]).encode())

    def value(self) -> str:
        """The hash of all that was added."""
        return self._digest.hexdigest()[:16]


class Hashed:
    """The records of a run, hashed as they are read: what is made of them, and the hash, are of the same."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._digest = RecordsHash(run.graded.get("grading"))

    def __iter__(self) -> Iterator[Record]:
        for record in self._run.records():
            self._digest.add({name: getattr(record, name) for name in _HASHED})
            yield record

    def value(self) -> str:
        """The hash of all that was read."""
        return self._digest.value()


def records_hash(run: Run) -> str:
    """The hash of a run's records as they are now."""
    records = Hashed(run)
    for _ in records:
        pass
    return records.value()


def stamp(run: Run, files: Iterable[str] = ()) -> Stamp:
    """What is about to be read: a run's records, and more of its files. To be taken before they are."""
    return {"records": records_hash(run), **stamp_files(run, files)}


def stamp_files(run: Run, files: Iterable[str]) -> Stamp:
    """The same of files only, where the records are `Hashed` while they are read."""
    return {name: _file_hash(run.folder, name) for name in files}


def write_derived(
    run: Run, name: str, contents: Mapping[str, Any], made_from: Stamp, *, without: Iterable[str] = ()
) -> None:
    """Write a derived file with the stamp of what it was made from, ``without`` what was left out of it."""
    made_from = {file: digest for file, digest in made_from.items() if file not in set(without)}
    write_object(run.folder / name, {**contents, MADE_FROM: made_from})


def why_stale(folder: Path, contents: Mapping[str, Any], records: str) -> str | None:
    """Why a derived file no longer holds, given the hash of the records as they are; None if it does."""
    return _why_stale(folder, contents, records, frozenset())


def stale_files(run: Run, records: str | None = None) -> dict[str, str]:
    """The derived files of a run that no longer hold: why, and what to do.

    ``records`` is the hash of its records, where that is known already: they may be many.
    """
    there = [name for name in DERIVED if (run.folder / name).is_file()]
    now = records or (records_hash(run) if there else "")
    stale: dict[str, str] = {}
    for name in there:
        if why := why_stale(run.folder, _contents(run.folder / name), now):
            stale[name] = f"stale: {why}; `{DERIVED[name]} {run.folder}` with the same options makes it again"
    return stale


def _why_stale(folder: Path, contents: Mapping[str, Any], records: str, seen: frozenset[str]) -> str | None:
    made_from = contents.get(MADE_FROM)
    if not isinstance(made_from, Mapping) or "records" not in made_from:
        return "it does not say which records it was made from"
    if made_from["records"] != records:
        return "answers, verdicts or confidences of the run have changed since it was made"
    for name, before in made_from.items():
        if name == "records":
            continue
        if before != _file_hash(folder, name):
            return f"{name}, of which it was made, has changed since"
        # A column carries a stamp of its own, beside its lines.
        if name.startswith(f"{COLUMNS}/") and name not in seen:
            column = _contents((folder / name).with_suffix(".json"))
            if _why_stale(folder, column, records, seen | {name}):
                return f"{name}, of which it was made, is stale"
    return None


def _contents(path: Path) -> Mapping[str, Any]:
    try:
        return object_of(path.read_bytes())
    except (OSError, ValueError):
        return {}


def _file_hash(folder: Path, name: str) -> str:
    """A hash of a file of a run; "gone" where there is no file, or it lies outside the run."""
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()) or not path.is_file():
        return "gone"
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    except OSError as error:
        raise RlcrError(f"{path}: cannot be read: {error.strerror}") from None
