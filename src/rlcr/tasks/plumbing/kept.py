"""Built sets, kept, so that the same set is built once: the next time it is read.

A set is the same when everything is that decides its problems and notes: the task, what is asked of it, the
bytes of the source, and the code that builds. A hash of these is its name among the files of the cache
(:mod:`rlcr.tasks.plumbing.cache`); inside is a line with the notes, then the problems as ``rlcr tasks build``
writes them. The source is still read to be hashed, but no longer understood, which is what takes time.

Not for sets that are drawn (arms, gym), nor for the user's own file, which is read as fast as a kept set.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path

from rlcr import problem
from rlcr.errors import RlcrError
from rlcr.files import cache_folder, file_sha256
from rlcr.tasks.plumbing import tables
from rlcr.tasks.plumbing.built import from_row, to_line
from rlcr.tasks.plumbing.cache import find, store
from rlcr.tasks.plumbing.source import Table
from rlcr.tasks.plumbing.task import Built, Request


def kept(request: Request, reads: Sequence[Table], build: Callable[[], Built]) -> Built:
    """The set that ``build`` makes from the tables it ``reads``, the first of which is its source."""
    folder, key = cache_folder() / "sets" / request.task, _key(request, reads)
    if path := find(folder, key):
        return _read(path, reads[0])
    built = build()
    # A cache that cannot be written (read-only, full) costs time at the next call, and nothing now.
    with suppress(RlcrError):
        store(folder, key, _lines(built))
    return built


def _key(request: Request, reads: Sequence[Table]) -> str:
    asked = {name: value for name, value in asdict(request).items() if name != "data_dir"}
    # The names and notes of the tables are told in the result.
    contents = [(table.name, table.notes, table.sha256) for table in reads]
    deciding = json.dumps([asked, contents, _code()], sort_keys=True, default=str)
    return hashlib.sha256(deciding.encode()).hexdigest()[:32]


@lru_cache
def _code() -> str:
    """The hash of the code that reads sources and builds problems."""
    return file_sha256([Path(problem.__file__ or ""), *sorted(Path(__file__).parents[1].rglob("*.py"))])


def _lines(built: Built) -> Iterator[str]:
    yield json.dumps({"notes": built.notes}) + "\n"
    yield from map(to_line, built.problems)


def _read(path: Path, source: Table) -> Built:
    rows = tables.read_rows(path, ())
    notes = next(rows).cells["notes"]
    return Built([from_row(row) for row in rows], source.name, source.sha256, notes)
