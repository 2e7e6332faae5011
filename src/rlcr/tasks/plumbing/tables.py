"""Reading the user's tables a row at a time: JSONL, CSV (both also gzipped) and Parquet.

Every error names the file, the line and the column. Nothing is held in memory but the row at hand, and that
is bounded: a small gzip file may hold one row of gigabytes.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

from rlcr.errors import RlcrError, nearest, shortened
from rlcr.problem import as_texts

#: Called now and then with the share of the file that has been read, from 0 to 1.
Progress = Callable[[float], None]

T = TypeVar("T")

_ROWS_A_TICK = 1000
_PARQUET_BATCH = 1000
#: Characters of a row; read as JSON these may take a gigabyte.
_LONGEST_ROW = 16 << 20


class NoColumn(RlcrError):
    """A column that a table lacks."""

    def __init__(self, where: str, column: str, present: list[str]) -> None:
        super().__init__(f"{where}: no column {column!r}; {nearest(column, present)}")
        self.column = column


@dataclass(frozen=True, slots=True)
class Row:
    """One row: where it came from, and its cells by column name."""

    file: Path
    line: int
    cells: dict[str, Any]
    plain_text: bool = False
    """Whether every cell is text, as in CSV, where a list is written as JSON."""

    def samples(self, column: str, *, of_text: bool = False) -> list[Any]:
        """The values of a cell: a list holds several samples of one question, anything else is one.

        In CSV ``[0, 1]`` is a list of numbers in a column of numbers, and a text in one ``of_text``, where
        a list looks like ``["a", "b"]``.
        """
        cell = self.cells[column]
        if self.plain_text and cell.lstrip().startswith("["):
            try:
                decoded = json.loads(cell)
            except (ValueError, RecursionError):
                return [cell]
            if isinstance(decoded, list) and not (of_text and any(not isinstance(v, str) for v in decoded)):
                cell = decoded
        return list(cell) if isinstance(cell, (list, tuple)) else [cell]

    def texts(self, column: str) -> tuple[str, ...]:
        """The texts of a cell, at least one; numbers are taken as they are written."""
        try:
            texts = as_texts(self.samples(column, of_text=True))
        except ValueError as error:
            raise self.error(column, str(error)) from None
        if not texts:
            raise self.error(column, "an empty list; expected at least one text")
        return texts

    def converted(self, column: str, convert: Callable[[Any], T]) -> list[T]:
        """The samples of a cell, each converted; a ValueError names the cell."""
        try:
            return [convert(value) for value in self.samples(column)]
        except ValueError as error:
            raise self.error(column, str(error)) from None

    def error(self, column: str, problem: str) -> RlcrError:
        """The error that says what is wrong in which cell."""
        place = f"{self.file}, line {self.line}, column {shortened(column, 80)}"
        return RlcrError(f"{place}: {shortened(problem)}")


def read_rows(
    path: Path | str, columns: Sequence[str] | None, *, progress: Progress | None = None
) -> Iterator[Row]:
    """Yield the rows of a file. Each must have all of ``columns``; a file without rows is an error.

    Of Parquet only ``columns`` are read, or all of them for None.
    The name says what kind of file it is: ``.csv``, ``.parquet``, and JSON Lines for ``.jsonl``,
    ``.ndjson`` and ``.json``; gzip by its content. In Parquet a "line" is the number of the row.
    """
    path = Path(path)
    try:
        path.stat()
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        raise RlcrError(f"{path}: {'no such file' if missing else error.strerror}") from None
    if path.is_dir():
        raise RlcrError(f"{path}: is a directory; give a .jsonl, .csv or .parquet file")
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    readers = {".csv": _csv, ".parquet": _parquet, ".jsonl": _jsonl, ".ndjson": _jsonl, ".json": _jsonl}
    if suffix not in readers:
        known = ".jsonl, .csv (also .gz) or .parquet"
        raise RlcrError(f"{path}: cannot tell what kind of table this is; name it {known}")
    empty = True
    for row in readers[suffix](path, columns, progress):
        for column in columns or ():
            if column not in row.cells:
                raise NoColumn(f"{path}, line {row.line}", column, list(row.cells))
        empty = False
        yield row
    if empty:
        raise RlcrError(f"{path}: has no rows")
    if progress:
        progress(1.0)


@contextmanager
def _open_text(path: Path) -> Iterator[tuple[IO[str], IO[bytes]]]:
    """The text of a file, gunzipped if need be, and the raw file beneath it, whose position is progress."""
    with open(path, "rb") as raw:
        zipped = raw.peek(2)[:2] == b"\x1f\x8b"
        # Cast because the stubs do not know that GzipFile is a good buffer for TextIOWrapper.
        buffer: Any = gzip.GzipFile(fileobj=raw) if zipped else raw
        with io.TextIOWrapper(buffer, encoding="utf-8-sig", newline="") as text:
            yield text, raw


class _Lines:
    """The lines of a file, of which those of one row may not be too long together: see :meth:`row_ends`."""

    def __init__(self, path: Path, text: IO[str]) -> None:
        self._path, self._text = path, text
        self._number = self._taken = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._text.readline(_LONGEST_ROW + 1 - self._taken)
        if not line:
            raise StopIteration
        self._number += 1
        self._taken += len(line)
        if self._taken > _LONGEST_ROW:
            raise RlcrError(f"{self._path}, line {self._number}: a row of over {_LONGEST_ROW:,} characters")
        return line

    def row_ends(self) -> None:
        """What follows belongs to another row."""
        self._taken = 0


def _jsonl(path: Path, _: Sequence[str] | None, progress: Progress | None) -> Iterator[Row]:
    size = max(path.stat().st_size, 1)
    line = 0
    with _open_text(path) as (text, raw):
        try:
            lines = _Lines(path, text)
            for line, content in enumerate(lines, start=1):
                lines.row_ends()
                if progress and line % _ROWS_A_TICK == 0:
                    progress(raw.tell() / size)
                if content.isspace():
                    continue
                cells = json.loads(content)
                if not isinstance(cells, dict):
                    raise RlcrError(
                        f"{path}, line {line}: expected a JSON object on every line, "
                        f"found {type(cells).__name__}"
                    )
                yield Row(path, line, cells)
        except json.JSONDecodeError as error:
            raise RlcrError(f"{path}, line {line}: not JSON: {error.msg} at column {error.colno}") from None
        except RecursionError:
            raise RlcrError(f"{path}, line {line}: JSON nested too deeply") from None
        except (UnicodeDecodeError, OSError, EOFError, zlib.error) as error:
            raise _unreadable(path, line, error) from None
        except ValueError as error:  # a number of more digits than Python reads
            raise RlcrError(f"{path}, line {line}: not JSON we can read: {error}") from None


def _csv(path: Path, columns: Sequence[str] | None, progress: Progress | None) -> Iterator[Row]:
    size = max(path.stat().st_size, 1)
    csv.field_size_limit(_LONGEST_ROW)  # completions are longer than the default of 128 KiB
    with _open_text(path) as (text, raw):
        lines = _Lines(path, text)
        reader = csv.reader(lines, strict=True)
        try:
            header = next(reader, [])
            if len(set(header)) < len(header):
                raise RlcrError(f"{path}, line 1: two columns have the same name")
            for column in columns or ():
                if header and column not in header:
                    raise NoColumn(f"{path}, line 1", column, header)
            for count, values in enumerate(reader):
                lines.row_ends()
                if progress and count % _ROWS_A_TICK == 0:
                    progress(raw.tell() / size)
                if not values:
                    continue
                if len(values) != len(header):
                    raise RlcrError(
                        f"{path}, line {reader.line_num}: {len(values)} cells under {len(header)} columns"
                    )
                yield Row(path, reader.line_num, dict(zip(header, values, strict=True)), plain_text=True)
        except csv.Error as error:
            raise RlcrError(f"{path}, line {reader.line_num}: not CSV: {error}") from None
        except (UnicodeDecodeError, OSError, EOFError, zlib.error) as error:
            raise _unreadable(path, reader.line_num, error) from None


def _unreadable(path: Path, line: int, error: Exception) -> RlcrError:
    if isinstance(error, UnicodeDecodeError):
        return RlcrError(f"{path}, after line {line}: not UTF-8 text; is this a binary file?")
    if isinstance(error, (EOFError, zlib.error, gzip.BadGzipFile)):
        return RlcrError(f"{path}, after line {line}: damaged gzip file ({error})")
    return RlcrError(f"{path}: cannot be read: {error}")


def _parquet(path: Path, columns: Sequence[str] | None, progress: Progress | None) -> Iterator[Row]:
    # pyarrow takes 0.2 s to import; most tables are JSONL.
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            present = file.schema_arrow.names
            for column in columns or ():
                if column not in present:
                    raise NoColumn(str(path), column, present)
            line = 0
            wanted = None if columns is None else list(columns)
            for batch in file.iter_batches(batch_size=_PARQUET_BATCH, columns=wanted):
                for cells in batch.to_pylist():
                    line += 1
                    yield Row(path, line, cells)
                if progress:
                    progress(line / max(file.metadata.num_rows, 1))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise RlcrError(f"{path}: not a readable Parquet file: {str(error).splitlines()[0]}") from None


# --- cells ------------------------------------------------------------------------------------------


def as_correct(value: Any) -> bool | None:
    """A verdict cell: true/false, 1/0, "correct"/"wrong"; empty or "unscorable" is None. Else ValueError."""
    if value is None:
        return None
    if isinstance(value, (bool, int, float)) and value in (0, 1):
        return bool(value)
    if isinstance(value, str):
        text = value.strip().lower()
        if text in ("1", "1.0", "true", "correct"):
            return True
        if text in ("0", "0.0", "false", "wrong"):
            return False
        if text in ("", "none", "null", "unscorable"):
            return None
    raise ValueError(f"{value!r} is neither right nor wrong; expected 1 or 0, true or false, or empty")


def as_confidence(value: Any, *, percent: bool = False) -> float | None:
    """A confidence cell: a number in [0, 1], or with ``percent`` in [0, 100]; empty is None. Else ValueError.

    >>> as_confidence("0.9"), as_confidence("90%", percent=True), as_confidence("")
    (0.9, 0.9, None)
    """
    if value is None or (isinstance(value, str) and value.strip().lower() in ("", "none", "null")):
        return None
    most = 100 if percent else 1
    try:
        number = float(value.strip().removesuffix("%") if percent and isinstance(value, str) else value)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or isinstance(value, bool):
        raise ValueError(f"{str(value)[:40]!r} is not a number; a confidence is a number from 0 to {most}")
    if not 0 <= number <= most:
        hint = " (a percentage? --percent reads those)" if 1 < number <= 100 else ""
        hint = " (leave it empty where there is none)" if number != number else hint
        raise ValueError(f"confidence {number:g} is outside [0, {most}]{hint}")
    return number / most


def check_percent(confidences: Iterable[float | None], path: Path, column: str) -> None:
    """Raise where numbers that were read as percentages are none: not one of them is above 1."""
    if 0 < max((stated or 0.0 for stated in confidences), default=0.0) <= 0.01:
        raise RlcrError(
            f"{path}, column {column}: no confidence is above 1, so these are no percentages;"
            " leave out --percent"
        )
