"""Built problems on disk: JSON Lines whose bytes depend on nothing but the problems."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from rlcr.files import new_file
from rlcr.problem import Problem
from rlcr.tasks.plumbing.tables import Row, read_rows

_COLUMNS = ("id", "question", "gold", "verifier", "instruction", "extras")


def to_line(problem: Problem) -> str:
    """One problem as one line of JSON.

    >>> print(to_line(Problem("toy/1", "2 + 2?", ("4",), "math")), end="")
    {"id":"toy/1","question":"2 + 2?","gold":["4"],"verifier":"math","instruction":"","extras":{}}
    """
    extras = {key: problem.extras[key] for key in sorted(problem.extras)}
    values = (problem.id, problem.question, problem.gold, problem.verifier, problem.instruction, extras)
    cells = dict(zip(_COLUMNS, values, strict=True))
    return _ENCODE(cells) + "\n"


#: Made once: `json.dumps` with any option makes an encoder anew for every line.
_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def sha256(problems: Iterable[Problem]) -> str:
    """The hash of the file that :func:`write_problems` would write."""
    digest = hashlib.sha256()
    for problem in problems:
        digest.update(_bytes(problem))
    return digest.hexdigest()


def write_problems(path: Path | str, problems: Iterable[Problem]) -> None:
    """Write problems as JSON Lines. The file appears whole or not at all; an older one stays until then."""
    with new_file(Path(path)) as out:
        for problem in problems:
            out.write(_bytes(problem))


def _bytes(problem: Problem) -> bytes:
    # Half a character, which UTF-8 cannot write, becomes what JSON escapes it to.
    return to_line(problem).encode(errors="backslashreplace")


def read_problems(path: Path | str) -> list[Problem]:
    """Read back what :func:`write_problems` wrote."""
    return [from_row(row) for row in read_rows(path, _COLUMNS)]


def from_row(row: Row) -> Problem:
    """The problem of one line, which must have all columns."""
    cells = row.cells
    for column in ("id", "question", "verifier", "instruction"):
        if not isinstance(cells[column], str):
            raise row.error(column, f"expected text, found {type(cells[column]).__name__}")
    extras = cells["extras"]
    if not isinstance(extras, dict):
        raise row.error("extras", f"expected an object, found {type(extras).__name__}")
    return Problem(
        cells["id"], cells["question"], row.texts("gold"), cells["verifier"], cells["instruction"], extras
    )
