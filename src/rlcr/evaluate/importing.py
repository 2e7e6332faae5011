"""`rlcr import`: completions from anywhere as a run folder, so that all that reads runs can read them.

A table of completions and golds becomes problems, records and results, as if `rlcr eval` had sampled them:
confidence columns, comparison, voting and the report work on it. What the table does not hold (tokens,
log-probabilities, the prompt) is absent. Rows of one ``id`` are samples of one question. Verdicts are those
of the verifier, or, with ``correct``, those of the table, which `rlcr rescore` replaces only if it is given a
verifier; confidences are those of the text, or, with ``confidence``, those of the table, which it keeps.
The run appears whole or not at all, so that there is nothing to resume. Where questions may lack completions
(in a log: an error in their place), those are written down as failed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError
from rlcr.evaluate import write_results
from rlcr.evaluate.grade import grade
from rlcr.evaluate.results import Results
from rlcr.problem import Problem
from rlcr.response import get_format
from rlcr.runs.lines import json_line, sealed, write_whole
from rlcr.runs.record import Sampled, to_line
from rlcr.runs.store import CONFIDENCES, FAILED, PROBLEMS, check_new, create_run, new_folder
from rlcr.runs.versions import run_facts
from rlcr.tasks import write_problems
from rlcr.tasks.plumbing.choices import letter_and_text
from rlcr.tasks.plumbing.extras import kept
from rlcr.tasks.plumbing.options import Options, TwoWays, options_of, read_golds
from rlcr.tasks.plumbing.problem_files import sha256 as problems_sha256
from rlcr.tasks.plumbing.source import cell
from rlcr.tasks.plumbing.tables import Row, as_confidence, as_correct, check_percent, read_rows
from rlcr.terminal import hide
from rlcr.verify import Grading, get_verifier

_BATCH = 2000
_PACKAGES = ("rlcr", "math-verify", "numpy")


@dataclass(frozen=True)
class TableColumns:
    """Which column holds what: ``completion`` may hold several samples, ``gold`` several aliases."""

    completion: str
    gold: str
    question: str
    id: str | None = None
    correct: str | None = None
    confidence: str | None = None
    choices: str | None = None
    percent: bool = False
    """Confidences are from 0 to 100."""

    def required(self) -> list[str]:
        """Those that every row must have."""
        named = (getattr(self, one.name) for one in fields(self))
        return [column for column in named if isinstance(column, str) and column]


@dataclass
class _Question:
    """What the rows of one question hold."""

    row: Row
    question: str
    golds: tuple[str, ...]
    options: Options | None
    extras: dict[str, Any]
    texts: list[str | None] = field(default_factory=list)
    """None where a completion never came about."""
    given: list[_Given] = field(default_factory=list)


@dataclass(frozen=True)
class _Given:
    """What the table says of a completion."""

    correct: bool | None
    confidence: float | None


def import_run(
    path: Path,
    out: Path,
    columns: TableColumns,
    *,
    format: str = "rlcr",
    verifier: str = "exact",
    grading: Grading = "strict",
    task: str | None = None,
    model: str = "imported",
    rows: Iterable[Row] | None = None,
    missing: str = "",
) -> Results:
    """Write a run folder of the completions in a file; ``rows`` are its rows where it is no plain table.

    ``missing`` says why a question may have fewer completions than others, or None in the place of one. Those
    that are missing have then failed, for this reason; without it that is an error.
    """
    get_format(format)
    get_verifier(verifier, grading)
    if verifier == "choice" and not columns.choices:
        raise RlcrError("the verifier choice needs the options: --choices COL")
    task = task or path.name.partition(".")[0]
    check_new(out, resumable=False)
    questions = _read(read_rows(path, None) if rows is None else rows, task, columns, missing)
    _fill_up(path, questions, missing)
    problems = _problems(questions, verifier, columns)
    samples = len(next(iter(questions.values())).texts)
    settings = _settings(path, task, problems, samples, model, verifier, grading)
    if columns.correct:
        settings["verdicts"] = f"those of column {columns.correct} of {path}"
    if columns.confidence:
        settings[CONFIDENCES] = f"column {columns.confidence}"
    raw = [
        Sampled(id=name, sample=sample, task=task, format=format, text=text)
        for name, question in questions.items()
        for sample, text in enumerate(question.texts)
        if text is not None
    ]
    failed = [
        {"id": name, "sample": sample, "task": task, "reason": missing, "status": None}
        for name, question in questions.items()
        for sample, text in enumerate(question.texts)
        if text is None
    ]
    given = [one for question in questions.values() for one in question.given]
    if columns.percent and columns.confidence:
        check_percent((one.confidence for one in given), path, columns.confidence)
    with new_folder(out) as folder:
        graded = {"grading": grading, "verifier": None, "judge": None}
        digest = problems_sha256(problems.values())
        run = create_run(folder, settings, graded, run_facts(_PACKAGES), problems_sha256=digest)
        write_problems(folder / PROBLEMS, problems.values())
        write_whole(run.records_path, _lines(raw, problems, given, columns, grading))
        if failed:
            write_whole(folder / FAILED, (sealed(json_line(line)) for line in failed))
        return write_results(run)


def _read(rows: Iterable[Row], task: str, columns: TableColumns, missing: str) -> dict[str, _Question]:
    """The questions by their ids, each with the samples of all its rows."""
    questions: dict[str, _Question] = {}
    as_stated = partial(as_confidence, percent=columns.percent)
    for number, row in enumerate(rows):
        for column in columns.required():
            cell(row, column)
        name = str(row.cells[columns.id]) if columns.id else f"{task}/{number}"
        extras, _ = kept(row, columns.required())
        read = _Question(
            row,
            _text(row, columns.question),
            row.texts(columns.gold),
            _options(row, columns.choices) if columns.choices else None,
            extras,
        )
        question = questions.setdefault(name, read)
        for column, before, now in (
            (columns.question, question.question, read.question),
            (columns.gold, question.golds, read.golds),
        ):
            if before != now:
                raise row.error(
                    column, f"another one than in line {question.row.line}, for the same id {name}"
                )
        texts = row.cells[columns.completion] if missing else row.texts(columns.completion)
        correct, stated = (
            _of_samples(row, column, convert, len(texts))
            for column, convert in ((columns.correct, as_correct), (columns.confidence, as_stated))
        )
        question.texts += texts
        question.given += [
            _Given(*pair) for text, *pair in zip(texts, correct, stated, strict=True) if text is not None
        ]
    return questions


def _fill_up(path: Path, questions: Mapping[str, _Question], missing: str) -> None:
    """Give every question as many completions as the others, where some may be missing."""
    samples = max(len(question.texts) for question in questions.values())
    for name, question in questions.items():
        lacking = samples - len(question.texts)
        if lacking and not missing:
            raise RlcrError(
                f"{path}: questions have different numbers of completions, {name} has"
                f" {len(question.texts)} of {samples}: give each {samples}"
            )
        question.texts += [None] * lacking


def _options(row: Row, column: str) -> Options:
    try:
        return options_of(row.cells[column])
    except ValueError as error:
        raise row.error(column, str(error)) from None


def _problems(questions: Mapping[str, _Question], verifier: str, columns: TableColumns) -> dict[str, Problem]:
    """The problems, with the options that the golds name, where there are any."""
    asked = {name: one for name, one in questions.items() if one.options}
    try:
        letters = read_golds(
            [one.golds for one in asked.values()], [one.options for one in asked.values() if one.options]
        )
    except TwoWays as error:
        raise list(asked.values())[error.row].row.error(columns.gold, str(error)) from None
    named = dict(zip(asked, letters, strict=True))
    problems: dict[str, Problem] = {}
    for name, one in questions.items():
        golds, extras = one.golds, one.extras
        if one.options:
            texts = one.options.texts
            extras = extras | {"choices": texts}
            if (chosen := named[name]) is None:
                fault = f"the gold {golds[0][:40]!r} is none of the options {', '.join(texts)}"
                raise one.row.error(columns.gold, fault)
            golds = tuple(letter_and_text(letter, texts) for letter in chosen)
        problems[name] = Problem(name, one.question, golds, verifier, extras=extras)
    return problems


def _text(row: Row, column: str) -> str:
    cell = row.cells[column]
    if not isinstance(cell, str):
        raise row.error(column, f"expected a text, found {type(cell).__name__}")
    return cell


def _of_samples(row: Row, column: str | None, convert: Callable[[Any], Any], samples: int) -> Sequence[Any]:
    """What a column says of each completion in a row; None of each without the column."""
    if column is None:
        return [None] * samples
    values = row.converted(column, convert)
    if len(values) != samples:
        raise row.error(column, f"{len(values)} values for {samples} completions")
    return values


def _lines(
    raw: list[Sampled],
    problems: Mapping[str, Problem],
    given: list[_Given],
    columns: TableColumns,
    grading: Grading,
) -> Iterator[str]:
    waiting, table = iter(raw), iter(given)
    while batch := list(islice(waiting, _BATCH)):
        for record in grade(batch, [problems[completion.id] for completion in batch], grading, None):
            said = next(table)
            if columns.correct:
                right = said.correct
                outcome = "unscorable" if right is None else "correct" if right else "wrong"
                reason = "the table gives no verdict" if right is None else ""
                record = replace(record, verdict=outcome, reason=reason, verifier="the table")
            if columns.confidence:
                record = replace(record, confidence=said.confidence)
            yield sealed(to_line(record))


def _settings(
    path: Path,
    task: str,
    problems: Mapping[str, Problem],
    samples: int,
    model: str,
    verifier: str,
    grading: Grading,
) -> dict[str, Any]:
    lines = ({"id": p.id, "question": p.question, "gold": p.gold} for p in problems.values())
    content = "".join(map(json_line, lines))
    digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
    unknown = ("judge", "judge_weights", "temperature", "max_tokens", "seed", "mode", "tokenizer")
    return {
        "model": hide(model),
        "model_name": hide(model),
        "model_weights": "",
        "method": "imported",
        "prompt": "unknown",
        **dict.fromkeys(unknown),
        "prompt_text": "",
        "samples": samples,
        "grading": grading,
        "verifier": None,
        "tasks": {task: {"size": len(problems), "sha256": digest, "source": str(path), "verifier": verifier}},
    }
