"""`rlcr import`: completions from anywhere as a run folder, so that all that reads runs can read them.

A table of completions and golds becomes problems, records and results, as if `rlcr eval` had sampled them:
confidence columns, comparison, voting and the report work on it. What the table does not hold (tokens,
log-probabilities, the prompt) is absent. Verdicts are those of the verifier, or, with ``correct``, those of
the table, which `rlcr rescore` replaces only if it is given a verifier.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError
from rlcr.evaluate import write_results
from rlcr.evaluate.grade import grade
from rlcr.evaluate.results import Results
from rlcr.problem import Problem
from rlcr.response import get_format
from rlcr.runs.record import Sampled, to_line
from rlcr.runs.store import PROBLEMS, check_new, create_run, json_line, locked, write_whole
from rlcr.runs.versions import run_facts
from rlcr.tasks import write_problems
from rlcr.tasks.plumbing.tables import Row, as_correct, read_rows
from rlcr.tasks.plumbing.take import check_ids
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

    def required(self) -> list[str]:
        """Those that every row must have."""
        named = (self.completion, self.gold, self.question, self.id, self.correct)
        return [column for column in named if column]


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
) -> Results:
    """Write a run folder of the completions in a file; ``rows`` are its rows where it is no plain table."""
    get_format(format)
    get_verifier(verifier, grading)
    task = task or path.name.partition(".")[0]
    check_new(out)
    problems: list[Problem] = []
    raw: list[Sampled] = []
    given: list[bool | None] = []
    for number, row in enumerate(read_rows(path, columns.required()) if rows is None else rows):
        name = str(row.cells[columns.id]) if columns.id else f"{task}/{number}"
        problems.append(Problem(name, _text(row, columns.question), row.texts(columns.gold), verifier))
        texts = row.texts(columns.completion)
        raw += [
            Sampled(id=name, sample=sample, task=task, format=format, text=text)
            for sample, text in enumerate(texts)
        ]
        if columns.correct:
            given += _verdicts(row, columns.correct, len(texts))
    check_ids(problems, str(path))
    settings = _settings(path, task, problems, raw, model, verifier, grading)
    if columns.correct:
        settings["verdicts"] = f"those of column {columns.correct} of {path}"
    with locked(out):
        run = create_run(
            out, settings, {"grading": grading, "verifier": None, "judge": None}, run_facts(_PACKAGES)
        )
        write_problems(out / PROBLEMS, problems)
        write_whole(run.records_path, _lines(raw, problems, given, grading))
        return write_results(run)


def _text(row: Row, column: str) -> str:
    cell = row.cells[column]
    if not isinstance(cell, str):
        raise row.error(column, f"expected a text, found {type(cell).__name__}")
    return cell


def _verdicts(row: Row, column: str, samples: int) -> list[bool | None]:
    verdicts = row.converted(column, as_correct)
    if len(verdicts) != samples:
        raise row.error(column, f"{len(verdicts)} verdicts for {samples} completions")
    return verdicts


def _lines(
    raw: list[Sampled], problems: list[Problem], given: list[bool | None], grading: Grading
) -> Iterator[str]:
    by_id = {problem.id: problem for problem in problems}
    waiting, verdicts = iter(raw), iter(given)
    while batch := list(islice(waiting, _BATCH)):
        for record in grade(batch, [by_id[completion.id] for completion in batch], grading, None):
            if given:
                right = next(verdicts)
                outcome = "unscorable" if right is None else "correct" if right else "wrong"
                reason = "the table gives no verdict" if right is None else ""
                record = replace(record, verdict=outcome, reason=reason, verifier="the table")
            yield to_line(record)


def _settings(
    path: Path,
    task: str,
    problems: list[Problem],
    raw: list[Sampled],
    model: str,
    verifier: str,
    grading: Grading,
) -> dict[str, Any]:
    samples = 1 + max(completion.sample for completion in raw)
    if samples * len(problems) != len(raw):
        raise RlcrError(f"{path}: questions have different numbers of completions; give each {samples}")
    content = "".join(json_line({"id": p.id, "question": p.question, "gold": p.gold}) for p in problems)
    digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
    unknown = ("judge", "judge_weights", "temperature", "max_tokens", "seed", "mode", "tokenizer")
    return {
        "model": model,
        "model_name": model,
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
