"""The user's own problems: a JSONL, CSV or Parquet file, or a dataset of the hub.

Settings: ``path`` is a file or a hub id (``owner/name``, then also ``config`` and ``revision``; the split
is the hub's). ``question`` and ``gold`` name the columns; ``template`` makes the question of several columns,
``{Body} {Question}``. ``a.b`` is the field b of an object in column a. A gold cell holds one answer or a list
of aliases (in CSV written as JSON). The verifier is that of the call, or row by row that of
``verifier_column``. ``id`` names a column of unique ids; without it the row number is the id. ``choices``
names a column with the options, or a column for each, ``A,B,C,D``; what a gold is then, and ``gold_is``:
:mod:`rlcr.tasks.plumbing.options`. ``solution`` names a column with worked solutions, the steps without the
answer, for `rlcr warm-up`. ``instruction`` is the line added to every question. All other columns are kept as
extras, by which metrics can be split.

Every row is checked: its gold is one of its options and passes its own verifier. All faults are said at once.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError, nearest
from rlcr.problem import Problem, as_texts
from rlcr.tasks.plumbing import hub
from rlcr.tasks.plumbing.checking import all_faults, gold_faults
from rlcr.tasks.plumbing.choices import INSTRUCTION, letter_and_text, with_options
from rlcr.tasks.plumbing.extras import kept, with_fields
from rlcr.tasks.plumbing.options import WAYS, Options, TwoWays, options_of, read_golds
from rlcr.tasks.plumbing.source import SourceTable, cell, text
from rlcr.tasks.plumbing.tables import Row
from rlcr.tasks.plumbing.take import take
from rlcr.tasks.plumbing.task import Built, Task, TaskRequest
from rlcr.tasks.plumbing.templates import Template, read_template

#: Not gym: it needs more of a problem than a table holds.
VERIFIERS = ("exact", "math", "choice", "judge")
#: Only these read the letter of an option.
_OF_OPTIONS = ("choice", "judge")
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(frozen=True)
class _Draft:
    """A row that was read; what its gold stands for may depend on the other rows."""

    row: Row
    key: str | int
    stem: str
    verifier: str
    golds: list[str]
    options: Options | None
    extras: dict[str, Any]


class _Reader:
    """Reads rows by the settings of one request."""

    def __init__(self, request: TaskRequest) -> None:
        self._settings = settings = request.settings
        self._verifier = request.verifier
        self._template = _template(settings)
        self._choices: tuple[str, ...] = ()
        self.emptied: Counter[str] = Counter()
        self.left_out: Counter[str] = Counter()

    def check(self, row: Row) -> None:
        """Look at the first row: a column that is not there is a mistake in the command."""
        settings = self._settings
        if given := settings["choices"]:
            whole = given in with_fields(row, [given]).cells
            self._choices = (given,) if whole else tuple(name.strip() for name in given.split(","))
        named = (settings[name] for name in ("gold", "verifier_column", "id", "solution"))
        self._named = [name for name in (*self._template.columns, *named, *self._choices) if name]
        row = with_fields(row, self._named)
        for column in self._named:
            cell(row, column)

    def draft(self, row: Row, number: int) -> _Draft:
        """Read one row."""
        settings = self._settings
        row = with_fields(row, self._named)
        verifier = self._verifier_of(row)
        extras, left_out = kept(row, self._named)
        self.left_out.update(left_out)
        if settings["solution"]:
            extras["solution"] = text(row, settings["solution"])
        options = self._options(row) if self._choices and verifier in _OF_OPTIONS else None
        return _Draft(
            row=row,
            key=text(row, settings["id"]) if settings["id"] else number,
            stem=self._stem(row),
            verifier=verifier,
            golds=_golds(row, settings["gold"]),
            options=options,
            extras=extras,
        )

    def _verifier_of(self, row: Row) -> str:
        column = self._settings["verifier_column"]
        if not column:
            return self._verifier
        verifier = text(row, column)
        if verifier not in VERIFIERS:
            raise row.error(column, f"unknown verifier {verifier!r}: {nearest(verifier, list(VERIFIERS))}")
        if verifier == "choice" and not self._choices:
            raise row.error(column, f"choice: {_NO_OPTIONS}")
        return verifier

    def _stem(self, row: Row) -> str:
        columns = self._template.columns
        if len(columns) == 1:
            return self._template.fill({columns[0]: text(row, columns[0])})
        cells = {column: "" if _missing(row.cells[column]) else text(row, column) for column in columns}
        self.emptied.update(column for column, content in cells.items() if not content)
        if not any(cells.values()):
            raise row.error(" and ".join(columns), "are all empty")
        return self._template.fill(cells)

    def _options(self, row: Row) -> Options:
        try:
            if len(self._choices) == 1:
                return options_of(row.cells[self._choices[0]])
            return options_of({column: row.cells[column] for column in self._choices})
        except ValueError as error:
            raise row.error(", ".join(self._choices), str(error)) from None

    def notes(self) -> Iterator[str]:
        """What the user should know of the rows."""
        for column, count in self.emptied.items():
            yield f"column {column} is empty in {count:,} rows: their questions go without it"
        for column, count in self.left_out.items():
            yield f"column {column} is not kept in {count:,} rows: {_NOT_KEPT}"


_NO_OPTIONS = "give the setting choices, the column of the options or one for each (--set choices=A,B,C,D)"
_NOT_KEPT = "its name means something else in a problem, or its values are no JSON"


def build(request: TaskRequest) -> Built:
    """One problem a row."""
    settings = request.settings
    if not settings["path"]:
        raise RlcrError("file: give the setting path, a .jsonl, .csv or .parquet file or a hub id")
    if not _is_hub_id(settings["path"]) and not Path(settings["path"]).is_file():
        raise RlcrError(f"{settings['path']}: no such file")
    if settings["choices"] and not settings["verifier_column"] and request.verifier not in _OF_OPTIONS:
        raise RlcrError(f"file: options are for the verifier choice (or judge), not {request.verifier}")
    if request.verifier == "choice" and not settings["choices"]:
        raise RlcrError(f"file: the verifier choice needs options: {_NO_OPTIONS}")
    if settings["gold_is"] and settings["gold_is"] not in WAYS:
        raise RlcrError(f"file: gold_is {settings['gold_is']!r}: {nearest(settings['gold_is'], list(WAYS))}")
    table = _table(request)
    reader = _Reader(request)
    drafts: list[_Draft] = []
    faults: dict[int, str] = {}
    for number, row in enumerate(table.rows()):
        if number == 0:
            reader.check(row)
        try:
            drafts.append(reader.draft(row, number))
        except RlcrError as error:
            faults[row.line] = str(error)
    problems = _problems(drafts, request, faults)
    for place, fault in gold_faults([problem for _, problem in problems]).items():
        row = problems[place][0]
        faults[row.line] = str(row.error(settings["gold"], fault))
    if faults:
        raise all_faults(faults)
    return take(table, [problem for _, problem in problems], request, reader.notes())


def _is_hub_id(name: str) -> bool:
    """Whether a name means a dataset of the hub, not a file."""
    return bool(_HUB_ID.fullmatch(name)) and not Path(name).suffix and not Path(name).exists()


def _table(request: TaskRequest) -> SourceTable:
    name = request.settings["path"]
    if not _is_hub_id(name):
        return SourceTable((Path(name),), Path(name).name)
    download = hub.download(
        name,
        request.settings["config"],
        request.split,
        request.settings["revision"],
        instead="give the path of a local .jsonl, .csv or .parquet file",
    )
    return SourceTable((download.path,), download.name)


def _template(settings: Mapping[str, Any]) -> Template:
    if not settings["template"]:
        return Template(("", settings["question"], ""))
    if settings["question"] != "question":
        raise RlcrError("file: give question or template, not both")
    return read_template(settings["template"])


def _problems(
    drafts: Sequence[_Draft], request: TaskRequest, faults: dict[int, str]
) -> list[tuple[Row, Problem]]:
    """The problems with their rows; a gold that is none of the options is added to the faults."""
    settings = request.settings
    asked = [draft for draft in drafts if draft.options]
    try:
        letters = read_golds(
            [draft.golds for draft in asked], [draft.options for draft in asked if draft.options],
            settings["gold_is"],
        )  # fmt: skip
    except TwoWays as error:
        raise asked[error.row].row.error(settings["gold"], str(error)) from None
    chosen = {draft.row.line: names for draft, names in zip(asked, letters, strict=True)}
    problems: list[tuple[Row, Problem]] = []
    for draft in drafts:
        golds, question, extras = draft.golds, draft.stem, draft.extras
        instruction = settings["instruction"]
        if draft.options:
            names, texts = chosen[draft.row.line], draft.options.texts
            if names is None:
                options = ", ".join(draft.options.labels.values() or texts)
                fault = f"the gold {golds[0][:40]!r} is none of the options {options}"
                faults[draft.row.line] = str(draft.row.error(settings["gold"], fault))
                continue
            golds = [letter_and_text(name, texts) for name in names]
            question = with_options(draft.stem, texts)
            extras = extras | {"choices": texts, "bare_question": draft.stem}
            instruction = instruction or INSTRUCTION
        problem = Problem(
            f"{Path(settings['path']).name}/{draft.key}",
            question,
            tuple(golds),
            draft.verifier,
            instruction,
            {name: extras[name] for name in sorted(extras)},
        )
        problems.append((draft.row, problem))
    return problems


def _golds(row: Row, column: str) -> list[str]:
    given = [alias for alias in row.samples(column, of_text=True) if not _missing(alias)]
    try:
        golds = [alias for text in as_texts(given) if (alias := text.strip())]
    except ValueError as error:
        raise row.error(column, str(error)) from None
    if not golds:
        raise row.error(column, "no gold: the cell is empty")
    return golds


def _missing(value: Any) -> bool:
    """Whether a cell holds nothing, which in a column of numbers is written NaN."""
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


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
        "template": "",
        "gold": "answer",
        "gold_is": "",
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
