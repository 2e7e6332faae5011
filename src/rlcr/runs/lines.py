"""JSON on disk that says when it is damaged: files of lines, appended whole, and files of one object.

    {"id": "capitals/1", "sample": 0, …, "crc": "1c291ca3"}

The last field of a line is the CRC-32 of the bytes before it, so that a flipped byte or a missing piece is
found wherever it is. In a file of one object it is that of the object without it, written with sorted names.
What has no checksum (of an earlier version, or of another program) is read as it is, but in a file of lines
not after one that has it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import mmap
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any
from zlib import crc32

from rlcr.errors import RlcrError
from rlcr.files import new_file, writing
from rlcr.runs.record import Record, json_line, to_line

log = logging.getLogger(__name__)

CRC = "crc"
_NAME, _END = b', "crc": "', b'"}'
_DIGITS = 8
_SEAL = len(_NAME) + _DIGITS + len(_END)
# So many damaged lines of a file are named one by one.
_NAMED = 5


def sealed(line: str) -> str:
    """A line of JSON with its checksum.

    >>> sealed('{"a": 1}\\n')
    '{"a": 1, "crc": "7aa88204"}\\n'
    """
    body = line[:-2]
    crc = crc32(body.encode("utf-8", "surrogatepass"))
    return f'{body}, "crc": "{crc:08x}"}}\n'


def is_sealed(line: bytes) -> bool:
    """Whether a line has a checksum; ValueError if it does not fit."""
    end = len(line) - line.endswith(b"\n")
    seal = line[max(0, end - _SEAL) : end]
    if not (seal.startswith(_NAME) and seal.endswith(_END)):
        return False
    if seal[len(_NAME) : -len(_END)] != b"%08x" % crc32(memoryview(line)[: end - _SEAL]):
        raise ValueError("its checksum does not fit")
    return True


def cells_of(line: bytes, after_sealed: bool = False) -> tuple[dict[str, Any], bool]:
    """The object of a line, and whether it has a checksum; ValueError says what is wrong with it."""
    has = is_sealed(line)
    if after_sealed and not has:
        raise ValueError("it has no checksum")
    try:
        cells = json.loads(line.decode("utf-8", "surrogatepass"))
    except UnicodeDecodeError:
        raise ValueError("not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg}") from None
    except RecursionError:
        raise ValueError("not JSON: nested too deeply") from None
    if not isinstance(cells, dict):
        raise ValueError("not a JSON object")
    if has:
        del cells[CRC]
    return cells, has


def read_lines(path: Path, advice: str = "") -> Iterator[dict[str, Any]]:
    """The objects of a JSONL file; none if there is no file. A damaged line is an error that names it.

    ``advice`` says what to do then.
    """
    has = False
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                cells, has = cells_of(line, has)
            except ValueError as error:
                hint = f"; {advice}" if advice else ""
                raise RlcrError(f"{path}, line {number}: damaged: {error}{hint}") from None
            yield cells


def mend(path: Path, what: str, key_of: Callable[[bytes], Hashable] | None = None) -> None:
    """Leave a file of lines with those that are whole, and name the others; ``what`` says what follows.

    A last line that a crash cut short is no damage, and is cut off without a word. Where lines have keys, so
    is one that repeats the key of another, named like the damaged ones.
    """
    drop_torn_line(path)
    damaged = dict(_damaged(path, key_of))
    if not damaged:
        return
    for number, why in list(damaged.items())[:_NAMED]:
        log.warning("%s, line %d: damaged: %s; %s", path, number, why, what)
    if len(damaged) > _NAMED:
        log.warning("%s: %d more damaged lines; %s", path, len(damaged) - _NAMED, what)
    with new_file(path) as out, open(path, "rb") as file:
        out.writelines(line for number, line in enumerate(file, start=1) if number not in damaged)


def _damaged(path: Path, key_of: Callable[[bytes], Hashable] | None) -> Iterator[tuple[int, str]]:
    has, seen = False, set[Hashable]()
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                if is_sealed(line):
                    has = True  # and nothing else can be wrong with it
                else:
                    cells_of(line, has)
                key = key_of(line) if key_of else number
            except ValueError as error:
                yield number, str(error)
                continue
            if key in seen:
                yield number, "what it is about is there already"
            seen.add(key)


def drop_torn_line(path: Path) -> None:
    """Cut a file after its last line break."""
    with contextlib.suppress(FileNotFoundError), open(path, "rb+") as file:
        size = file.seek(0, os.SEEK_END)
        if size:
            with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as contents:
                end = contents.rfind(b"\n") + 1
            if end < size:
                file.truncate(end)


class Appender:
    """Appends whole lines to a file, each with a checksum and written at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with writing(path):
            self._file: IO[bytes] = open(path, "ab", buffering=0)  # noqa: SIM115 (closed by close)

    def write(self, lines: Iterable[Record | Mapping[str, Any]]) -> None:
        """Append records or other objects, a line each, in one write."""
        texts = (to_line(line) if isinstance(line, Record) else json_line(line) for line in lines)
        rest = memoryview("".join(map(sealed, texts)).encode("utf-8", "surrogatepass"))
        with writing(self._path):
            while rest:
                rest = rest[self._file.write(rest) or 0 :]

    def close(self) -> None:
        """Close the file."""
        self._file.close()


# --- files of one object ----------------------------------------------------------------------------


def write_whole(path: Path, texts: str | Iterable[str]) -> None:
    """Write a file so that it appears whole or not at all."""
    with new_file(path) as out:
        for text in [texts] if isinstance(texts, str) else texts:
            out.write(text.encode("utf-8", "surrogatepass"))


def write_object(path: Path, contents: Mapping[str, Any]) -> None:
    """Write a JSON file of one object, with its checksum; it appears whole or not at all."""
    stored = {**contents, CRC: _object_crc(json.loads(json.dumps(contents)))}
    write_whole(path, json.dumps(stored, indent=1) + "\n")


def object_of(content: bytes) -> dict[str, Any]:
    """The object of a JSON file; ValueError says what is wrong with it."""
    cells, _ = cells_of(content)
    if CRC in cells and cells.pop(CRC) != _object_crc(cells):
        raise ValueError("damaged or edited: its checksum does not fit")
    return cells


def read_object(path: Path, advice: str) -> dict[str, Any]:
    """The object of a JSON file; an error that names it if it is damaged. A missing file is an OSError."""
    try:
        return object_of(path.read_bytes())
    except ValueError as error:
        raise RlcrError(f"{path}: {error}; {advice}") from None


def _object_crc(contents: Mapping[str, Any]) -> str:
    return f"{crc32(json.dumps(contents, sort_keys=True).encode()):08x}"
