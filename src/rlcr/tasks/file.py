"""The user's own problems: a JSONL, CSV or Parquet file, or a dataset of the hub.

Settings: ``path`` is a file or a hub id (``owner/name``, then also ``config`` and ``revision``; the split
is the hub's). ``question`` and ``gold`` name the columns; a gold cell holds one answer or a list of aliases
(in CSV written as JSON). The verifier is that of the call, or row by row that of ``verifier_column``.
``id`` names a column of unique ids; without it the row number is the id. ``choices`` names a column with
options, ``{"A": "bank", …}`` or a list, for the choice verifier, and ``solution`` one with worked solutions,
the steps without the answer, for `rlcr warm-up`. ``instruction`` is the line added to every question.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError, nearest
from rlcr.problem import Problem, as_texts
from rlcr.tasks.plumbing import hub
from rlcr.tasks.plumbing.source import SourceTable, cell, text
from rlcr.tasks.plumbing.tables import Row
from rlcr.tasks.plumbing.take import take
from rlcr.tasks.plumbing.task import Built, Task, TaskRequest

#: Not gym: it needs more of a problem than a table holds.
VERIFIERS = ("exact", "math", "choice", "judge")
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def build(request: TaskRequest) -> Built:
    """One problem a row."""
    if not request.settings["path"]:
        raise RlcrError("file: give the setting path, a .jsonl, .csv or .parquet file or a hub id")
    table = _table(request)
    return take(table, (_problem(row, n, request) for n, row in enumerate(table.rows())), request)


def _table(request: TaskRequest) -> SourceTable:
    name = request.settings["path"]
    path = Path(name)
    if path.exists() or path.suffix or not _HUB_ID.fullmatch(name):
        if not path.is_file():
            raise RlcrError(f"{path}: no such file")
        return SourceTable((path,), path.name)
    download = hub.download(
        name,
        request.settings["config"],
        request.split,
        request.settings["revision"],
        instead="give the path of a local .jsonl, .csv or .parquet file",
    )
    return SourceTable((download.path,), download.name)


def _problem(row: Row, number: int, request: TaskRequest) -> Problem:
    settings = request.settings
    verifier = request.verifier
    if column := settings["verifier_column"]:
        verifier = text(row, column)
        if verifier not in VERIFIERS:
            raise row.error(column, f"unknown verifier {verifier!r}: {nearest(verifier, list(VERIFIERS))}")
    key = text(row, settings["id"]) if settings["id"] else number
    extras: dict[str, Any] = {}
    if settings["choices"]:
        extras["choices"] = _choices(row, settings["choices"])
    if settings["solution"]:
        extras["solution"] = text(row, settings["solution"])
    return Problem(
        f"{Path(settings['path']).name}/{key}",
        text(row, settings["question"]),
        _aliases(row, settings["gold"]),
        verifier,
        settings["instruction"],
        extras,
    )


def _aliases(row: Row, column: str) -> tuple[str, ...]:
    cell(row, column)  # says which columns there are if this is none of them
    aliases = [alias for alias in row.samples(column, of_text=True) if not _missing(alias)]
    try:
        stripped = tuple(alias for text in as_texts(aliases) if (alias := text.strip()))
    except ValueError as error:
        raise row.error(column, str(error)) from None
    if not stripped:
        raise row.error(column, "no gold: the cell is empty")
    return stripped


def _missing(alias: Any) -> bool:
    """Whether a cell holds nothing, which in a column of numbers is written NaN."""
    return alias is None or (isinstance(alias, float) and math.isnan(alias))


def _choices(row: Row, column: str) -> dict[str, str]:
    value: Any = cell(row, column)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except json.JSONDecodeError:
            value = None
    if isinstance(value, list) and 0 < len(value) <= 26:
        value = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", value, strict=False))
    if not isinstance(value, Mapping) or not value:
        raise row.error(column, 'expected options, {"A": "…", …} or a list of at most 26')
    return {str(letter): str(option) for letter, option in value.items()}


TASK = Task(
    name="file",
    about="your own problems",
    sizes={},
    verifier="exact",
    also=tuple(name for name in VERIFIERS if name != "exact"),
    metrics="those of the verifier you name",
    made_by="a file, or a dataset of the hub",
    settings={
        "path": "",
        "question": "question",
        "gold": "answer",
        "verifier_column": "",
        "id": "",
        "choices": "",
        "solution": "",
        "instruction": "",
        "config": None,
        "revision": "main",
    },
    build=build,
)
