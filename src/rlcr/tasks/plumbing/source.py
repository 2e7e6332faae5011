"""Where the rows of a dataset come from: files of the user's, or the Hugging Face hub.

With ``data_dir`` (or the environment variable ``RLCR_DATA``) a task first looks there, for any of its
known file names with any of :data:`ENDINGS`. What it does not find there comes from the hub
(:mod:`rlcr.tasks.plumbing.hub`). Which of the two it was, and the hash of its bytes, is part of every result.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError, nearest
from rlcr.files import file_sha256
from rlcr.tasks.plumbing import hub
from rlcr.tasks.plumbing.tables import Row, read_rows

#: What may follow a file's name; ``-*.parquet`` are the numbered shards of the hub.
ENDINGS = (".jsonl", ".jsonl.gz", ".json", ".csv", ".csv.gz", ".parquet", "-*.parquet")


@dataclass(frozen=True)
class Source:
    """A dataset and its carriers.

    ``splits`` and ``files`` go from our split names to the hub's, and to local file names without
    ending, the preferred one first. ``revision`` is a commit of the hub repository, which never
    changes; "main" may, so the commit it stood for is recorded with the download.
    """

    hub: str
    splits: Mapping[str, str]
    files: Mapping[str, tuple[str, ...]]
    config: str | None = None
    revision: str = "main"

    def __str__(self) -> str:
        return f"{self.hub}@{self.revision[:7]}"


@dataclass(frozen=True)
class SourceTable:
    """The rows of one split: files on this disk, and a name that means the same on every machine."""

    paths: tuple[Path, ...]
    name: str
    notes: list[str] = field(default_factory=list)

    @cached_property
    def sha256(self) -> str:
        """The hash of the files' bytes, one after the other."""
        return file_sha256(self.paths)

    def rows(self) -> Iterator[Row]:
        """All rows with all their cells, in the order of the files."""
        for path in self.paths:
            yield from _rows(path)


def open_table(source: Source, split: str, data_dir: Path | None) -> SourceTable:
    """The table of a split, from ``data_dir`` or else from the hub."""
    names = source.files.get(split, ())
    if data_dir is not None and (files := find_files(data_dir, names)):
        return SourceTable(files, " + ".join(path.relative_to(data_dir).as_posix() for path in files))
    place = data_dir or "a directory named by --data-dir or RLCR_DATA"
    instead = f"put the rows in {place} as {' or '.join(names)} ({', '.join(ENDINGS)})"
    download = hub.download(source.hub, source.config, source.splits[split], source.revision, instead=instead)
    notes = ["no file of this task in the data directory: read from the hub"] if data_dir else []
    return SourceTable((download.path,), download.name, notes)


def find_files(data_dir: Path, names: tuple[str, ...]) -> tuple[Path, ...]:
    """The first of the names that is there with any ending: one file, or all shards of it."""
    for name in names:
        for ending in ENDINGS:
            # Only the ending may hold a wildcard, so that a strange directory name is taken literally.
            path = data_dir / f"{name}{ending}"
            shards = sorted(path.parent.glob(path.name)) if "*" in ending else [path]
            if shards and all(shard.is_file() for shard in shards):
                return tuple(shards)
    return ()


def given_data_dir(data_dir: Path | str | None) -> Path | None:
    """The directory named in the call, or else in ``RLCR_DATA``. It must exist."""
    name = data_dir or os.environ.get("RLCR_DATA")
    if not name:
        return None
    if not Path(name).is_dir():
        said = "--data-dir" if data_dir else "RLCR_DATA"
        raise RlcrError(f"{said}: {name} is not a directory")
    return Path(name)


# --- rows -------------------------------------------------------------------------------------------


def _rows(path: Path) -> Iterator[Row]:
    if path.suffix == ".json" and _begins_array(path):
        return _array_rows(path)
    return read_rows(path, None)


def _begins_array(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")


_BLOCK = 1 << 20
#: No object of a dataset is longer: what is, is broken, and is not read to the end of the file.
_LONGEST = 64 << 20
_BETWEEN = re.compile(r"[\s,]*")


def _array_rows(path: Path) -> Iterator[Row]:
    """The objects of one large JSON array (as HotpotQA is published), one at a time.

    A "line" is the number of the object.
    """
    decoder = json.JSONDecoder()
    count = 0
    with open(path, encoding="utf-8-sig") as file:
        try:
            text = file.read(_BLOCK)
            at = text.index("[") + 1
            while True:
                at = _BETWEEN.match(text, at).end()  # pyright: ignore[reportOptionalMemberAccess] (matches always)
                if text.startswith("]", at):
                    return
                try:
                    cells, at = decoder.raw_decode(text, at)
                except json.JSONDecodeError as error:
                    # Perhaps cut by the end of the block: read as much again, so that a long object, or an
                    # error, costs no more than a few times its length.
                    held = len(text) - at
                    block = file.read(max(_BLOCK, held)) if held < _LONGEST else ""
                    if not block:
                        where = f"{path}, row {count + 1}"
                        raise RlcrError(f"{where}: not JSON, or cut short: {error.msg}") from None
                    text, at = text[at:] + block, 0
                    continue
                count += 1
                if not isinstance(cells, dict):
                    raise RlcrError(f"{path}, row {count}: expected an object, found {type(cells).__name__}")
                yield Row(path, count, cells)
        except UnicodeDecodeError:
            raise RlcrError(f"{path}, after row {count}: not UTF-8 text") from None
        except RecursionError:
            raise RlcrError(f"{path}, row {count + 1}: JSON nested too deeply") from None


# --- cells ------------------------------------------------------------------------------------------


def cell(row: Row, *columns: str) -> Any:
    """The cell of the first of ``columns`` that the row has: carriers name the same thing differently."""
    for column in columns:
        if column in row.cells:
            return row.cells[column]
    hint = nearest(columns[0], list(row.cells))
    raise RlcrError(f"{row.file}, line {row.line}: no column {' or '.join(columns)}; {hint}")


def text(row: Row, *columns: str) -> str:
    """:func:`cell`, where it must hold text. Only surrounding white space is dropped."""
    value = cell(row, *columns)
    column = next(name for name in columns if name in row.cells)
    if isinstance(value, float) and math.isnan(value):
        raise row.error(column, "is empty")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise row.error(column, f"expected text, found {type(value).__name__}")
    if not value.strip():
        raise row.error(column, "is empty")
    return value.strip()
