"""What is in the folders that a report is made of: read once, line by line, and never more than is needed.

A record is kept as a row of numbers and the place of its line in the file; its text is read again only if the
page shows it. What is missing or unreadable becomes a note that the page prints in place. Only a folder that
holds nothing of a run is an error.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcr.errors import RlcrError
from rlcr.report.failed import count_failed, count_waiting
from rlcr.report.fields import (
    UNSCORABLE,
    mapping_of,
    number_of,
    read_json,
    read_objects,
    sample_number,
    share,
    texts_of,
    verdict_code,
)
from rlcr.report.trainings import read_updates, training_warnings
from rlcr.runs.lines import cells_of
from rlcr.runs.stamps import DERIVED, RecordsHash, why_stale
from rlcr.runs.store import ADAPTIVE, PROBLEMS, RECORDS, RESULTS, RUN, check_format, graded_now
from rlcr.tasks import built_file, is_built_file

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TRAINING, UPDATES, EVALS = "training.json", "updates.jsonl", "evals"
#: Files of other commands that are drawn where a run folder has them; see docs/report.md for their shapes.
ARTEFACTS = tuple(name for name in DERIVED if name != RESULTS)

REPAIRED_ANSWER, REPAIRED_CONFIDENCE = 1, 2


@dataclass(frozen=True)
class RecordColumns:
    """The records of a run as columns, one entry a record."""

    tasks: tuple[str, ...]
    ids: tuple[str, ...]
    task: Ints
    question: Ints
    sample: Ints
    verdict: Ints
    confidence: Floats
    """NaN where none was stated."""
    tokens: Floats
    repaired: Ints
    offset: Ints
    """Where the line of the record begins in records.jsonl."""
    verifiers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Which graded the records of each task."""

    def __len__(self) -> int:
        return len(self.task)

    def of(self, tasks: Iterable[str]) -> NDArray[np.bool_]:
        """Which rows belong to these tasks."""
        codes = [self.tasks.index(name) for name in tasks if name in self.tasks]
        return np.isin(self.task, codes)

    def scored(self, tasks: Iterable[str]) -> tuple[Ints, Floats, Ints]:
        """Verdicts, confidences and questions of the scored rows, in an order of their own."""
        rows = self._order[(self.of(tasks) & (self.verdict != UNSCORABLE))[self._order]]
        return self.verdict[rows], self.confidence[rows], self.question[rows]

    @cached_property
    def _order(self) -> Ints:
        """Rows by task, id and sample: as `rlcr eval` orders them before it resamples."""
        if not len(self):
            return np.zeros(0, np.int64)
        question, task = (np.argsort(np.argsort(np.array(names))) for names in (self.ids, self.tasks))
        return np.lexsort((self.sample, question[self.question], task[self.task]))


@dataclass
class EvalRun:
    """A folder of `rlcr eval`, as far as it exists."""

    label: str
    folder: Path
    settings: Mapping[str, Any]
    results: Mapping[str, Any] | None
    rows: RecordColumns
    artefacts: Mapping[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def warnings(self) -> list[str]:
        """What its results say makes its numbers doubtful."""
        return texts_of((self.results or {}).get("warnings"))

    @property
    def method(self) -> str:
        """How the model was asked."""
        return str(self.settings.get("method") or "unknown method")

    def model_is_of(self, training: Path) -> bool:
        """Whether a training made the model, or the evaluation itself."""
        inside = training.resolve()
        return self.folder.resolve().is_relative_to(inside) or Path(self.model).resolve().is_relative_to(
            inside
        )

    def task_hash(self, task: str) -> str | None:
        """The hash of the problems of a task, where the settings have it."""
        digest = mapping_of(mapping_of(self.settings.get("tasks")).get(task)).get("sha256")
        return digest if isinstance(digest, str) else None

    @property
    def model(self) -> str:
        """What was evaluated: the last part of a path or an address is enough to tell."""
        return str(self.settings.get("model") or "unknown model")

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        """Every task that the records or the results name."""
        names = (self.results or {}).get("tasks", {})
        return tuple(dict.fromkeys([*names, *self.rows.tasks]))

    def record(self, row: int) -> dict[str, Any]:
        """The whole record of a row, from the file."""
        with open(self.folder / RECORDS, "rb") as file:
            file.seek(int(self.rows.offset[row]))
            return cells_of(file.readline())[0]

    def problems(self, wanted: set[str]) -> dict[str, dict[str, Any]]:
        """The problems of these ids, as far as the run kept them."""
        problems: dict[str, dict[str, Any]] = {}
        for _, problem, _ in read_objects(self.folder / PROBLEMS):
            if problem is not None and isinstance(name := problem.get("id"), str) and name in wanted:
                problems[name] = problem
        return problems


@dataclass
class TrainingRun:
    """A folder of `rlcr train`: numbers of every update, and the evaluations on held-out problems."""

    label: str
    folder: Path
    settings: Mapping[str, Any]
    update: Floats
    columns: Mapping[str, Floats]
    """One column for each number that the log has; those of "parts" are called "parts.NAME"."""
    evals: Sequence[tuple[int, Mapping[str, Any]]]
    """Update and results of the held-out evaluations, in order."""
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    """What it warned of, and whether its updates taught anything."""
    colour: int = 0
    """That of an evaluation of its model where there is one: a run keeps its colour through the report."""

    @property
    def task(self) -> str | None:
        """What it was trained on, by the name that an evaluation on it has."""
        task = str(self.settings.get("task") or "")
        return built_file(task)[0] if is_built_file(task) else task or None


@dataclass(frozen=True)
class ReportInput:
    """All that the folders of a report hold."""

    evals: list[EvalRun]
    trainings: list[TrainingRun]

    @property
    def notes(self) -> list[str]:
        """What is missing or could not be read, each with the run it is about."""
        return [
            *(f"{run.label}: {note}" for run in self.evals for note in run.notes),
            *(f"training {run.label}: {note}" for run in self.trainings for note in run.notes),
        ]

    @property
    def warnings(self) -> list[str]:
        """What makes numbers doubtful, each with the run it is about."""
        return [
            *(f"{run.label}: {warning}" for run in self.evals for warning in run.warnings),
            *(f"training {run.label}: {warning}" for run in self.trainings for warning in run.warnings),
        ]


def read_runs(folders: Sequence[Path]) -> ReportInput:
    """Read every folder. One that holds nothing of a run is an error; a part that is missing is a note."""
    if not folders:
        raise RlcrError("no run was given: name at least one folder of `rlcr eval` or `rlcr train`")
    evals: list[EvalRun] = []
    trainings: list[TrainingRun] = []
    seen: set[Path] = set()
    trained = [_is_training(folder) for folder in folders]
    names = {
        folder: label
        for kind in (True, False)
        if (
            chosen := [
                folder for folder, is_training in zip(folders, trained, strict=True) if is_training == kind
            ]
        )
        for folder, label in zip(chosen, labels(chosen), strict=True)
    }
    for folder, is_training in zip(folders, trained, strict=True):
        label = names[folder]
        if folder.resolve() in seen:
            raise RlcrError(f"{folder}: this run is named twice")
        seen.add(folder.resolve())
        _check(folder)
        if is_training:
            training, last = _read_training(folder, label)
            trainings.append(training)
            evals += [last] if last else []
        if (folder / RUN).exists() or (folder / RECORDS).exists() or (folder / RESULTS).exists():
            evals.append(_read_eval(folder, f"{label}, evaluated" if is_training else label))
    own = len(evals)
    for training in trainings:
        own_evals = [number for number, run in enumerate(evals) if run.model_is_of(training.folder)]
        training.colour, own = (own_evals[0], own) if own_evals else (own, own + 1)
    return ReportInput(evals, trainings)


def _is_training(folder: Path) -> bool:
    return (folder / TRAINING).exists() or (folder / UPDATES).exists()


def labels(folders: Sequence[Path]) -> list[str]:
    """The shortest ends of the paths that tell the folders apart, without what is the same in all of them.

    >>> labels([Path("a/rlcr"), Path("a/rlvr")]), labels([Path("a/eval"), Path("b/eval")])
    (['rlcr', 'rlvr'], ['a', 'b'])
    """
    parts = [folder.resolve().parts for folder in folders]
    while (
        len({path[-1] for path in parts}) == 1
        and len(set(parts)) > 1
        and all(len(path) > 2 for path in parts)
    ):
        parts = [path[:-1] for path in parts]
    names = [path[-1] for path in parts]
    for depth in range(1, 6):
        names = ["/".join(path[-depth:]) for path in parts]
        if len(set(names)) == len(names):
            break
    return [name.replace("//", "/") for name in names]


def _check(folder: Path) -> None:
    if not folder.exists():
        raise RlcrError(f"{folder}: no such folder")
    if not folder.is_dir():
        raise RlcrError(f"{folder}: not a folder; a run is a folder of `rlcr eval` or `rlcr train`")
    signs = (RUN, RECORDS, RESULTS, TRAINING, UPDATES)
    if not any((folder / name).exists() for name in signs):
        raise RlcrError(f"{folder}: not a run (it has none of {', '.join(signs)})")


# --- evaluations ------------------------------------------------------------------------------------


def _read_eval(folder: Path, label: str) -> EvalRun:
    notes: list[str] = []
    run = read_json(folder / RUN, notes) or {}
    if run:
        check_format(folder, run)
    advice = "finish the run with --resume, or `rlcr rescore` it"
    results = _results(read_json(folder / RESULTS, notes, advice))
    # "graded" holds what rescoring changed.
    graded = graded_now(folder, run)
    settings = mapping_of(run.get("settings")) | graded
    settings = settings or mapping_of((results or {}).get("settings"))
    # Later rounds of an adaptive run are of hard questions alone: as in its results, they are left out.
    first = number_of(mapping_of(settings.get("adaptive")).get("first"))
    records = RecordsHash(graded.get("grading"))
    rows = _read_rows(folder / RECORDS, notes, first, records)
    names = (rows.ids[question] for question in rows.question)
    answered = list(zip(names, rows.sample.tolist(), strict=True))
    failed = count_failed(folder, answered, first, notes)
    if not math.isnan(first):
        # How many an adaptive run takes is known only at its end: its own file says that it is finished.
        if not (folder / ADAPTIVE).exists():
            notes.append("unfinished: its rounds have not ended; `rlcr eval … --resume` ends it")
    elif len(rows) + failed < (total := _total(settings)):
        notes.append(
            f"unfinished ({len(rows) + failed:,} of {total:,}{count_waiting(folder, answered)}): its numbers "
            "are not those of the whole run, for responses that need repairs come last; "
            f"`rlcr eval --out {folder} --resume` ends it"
        )
    if len(rows) and not (folder / PROBLEMS).exists():
        notes.append(f"no {PROBLEMS}: questions and gold answers cannot be shown")
    if run and results and len(rows) and _stale(folder, RESULTS, results, records, notes):
        results = None
    artefacts = {}
    for name in ARTEFACTS:
        if not (folder / name).exists() or (read := read_json(folder / name, notes)) is None:
            continue
        if not _stale(folder, name, read, records, notes):
            artefacts[name] = read
    return EvalRun(label, folder, settings, results, rows, artefacts, notes)


def _stale(
    folder: Path, name: str, contents: Mapping[str, Any], records: RecordsHash, notes: list[str]
) -> bool:
    """Whether a derived file is about records, or columns, that have changed since; noted where it is."""
    why = why_stale(folder, contents, records.value())
    if why:
        notes.append(
            f"{name} is left out, for it is stale: {why};"
            f" `{DERIVED[name]} {folder}` with the same options makes it again"
        )
    return why is not None


def _results(results: dict[str, Any] | None) -> dict[str, Any] | None:
    """Results whose upper parts are of the right types, whatever the file holds."""
    if results is None:
        return None
    macro, tasks = mapping_of(results.get("macro")), mapping_of(results.get("tasks"))
    averaged = macro.get("tasks")
    return results | {
        "tasks": {name: dict(task) for name, task in tasks.items() if isinstance(task, Mapping)},
        "macro": macro if isinstance(averaged, list) else None,
        "unscored": mapping_of(results.get("unscored")),
    }


def _total(settings: Mapping[str, Any]) -> int:
    """The completions of the whole run; 0 where the settings do not say."""
    try:
        return int(settings["samples"] * sum(task["size"] for task in settings["tasks"].values()))
    except (KeyError, TypeError, AttributeError):
        return 0


def _read_rows(path: Path, notes: list[str], samples: float, seen: RecordsHash) -> RecordColumns:
    """The records; where ``samples`` is a number, only that many of each question. All go into ``seen``."""
    tasks: dict[str, int] = {}
    ids: dict[str, int] = {}
    verifiers: dict[str, dict[str, None]] = {}
    ints = {name: array("q") for name in ("task", "question", "sample", "verdict", "repaired", "offset")}
    floats = {name: array("d") for name in ("confidence", "tokens")}
    unreadable, first = 0, 0
    if not path.exists():
        notes.append(f"no {path.name}: no figure of its confidences and no samples")
    for number, record, offset in read_objects(path):
        if record is None or not isinstance(record.get("id"), str) or "verdict" not in record:
            unreadable, first = unreadable + 1, first or number
            continue
        seen.add(record)
        if sample_number(record.get("sample")) >= samples:
            continue
        task = str(record.get("task") or "(no task)")
        ints["task"].append(tasks.setdefault(task, len(tasks)))
        verifiers.setdefault(task, {})[str(record.get("verifier") or "unknown")] = None
        ints["question"].append(ids.setdefault(record["id"], len(ids)))
        ints["sample"].append(sample_number(record.get("sample")))
        ints["verdict"].append(verdict_code(record["verdict"]))
        ints["repaired"].append(
            REPAIRED_ANSWER * (record.get("forced_answer") is not None)
            + REPAIRED_CONFIDENCE * (record.get("forced_confidence") is not None)
        )
        ints["offset"].append(offset)
        floats["confidence"].append(share(record.get("confidence")))
        floats["tokens"].append(number_of(record.get("tokens")))
    if unreadable:
        notes.append(
            f"{path.name}: {unreadable:,} lines are damaged (the first is line {first}); left out, and"
            " `rlcr eval … --resume` makes them again"
        )
    if path.exists() and not ids:
        notes.append(f"{path.name} has no record yet")
    return RecordColumns(
        tuple(tasks),
        tuple(ids),
        *(np.array(ints[name], np.int64) for name in ("task", "question", "sample", "verdict")),
        confidence=np.array(floats["confidence"], np.float64),
        tokens=np.array(floats["tokens"], np.float64),
        repaired=np.array(ints["repaired"], np.int64),
        offset=np.array(ints["offset"], np.int64),
        verifiers={task: tuple(sorted(names)) for task, names in verifiers.items()},
    )


# --- trainings --------------------------------------------------------------------------------------


def _read_training(folder: Path, label: str) -> tuple[TrainingRun, EvalRun | None]:
    """The training, and its last held-out evaluation as a run of its own."""
    notes: list[str] = []
    facts = read_json(folder / TRAINING, notes) or {}
    settings = facts.get("settings")
    update, columns = read_updates(folder / UPDATES, notes)
    evals: list[tuple[int, Mapping[str, Any]]] = []
    last: EvalRun | None = None
    folders = sorted(_numbered(folder / EVALS), key=lambda item: item[0])
    for number, place in folders:
        results = _results(read_json(place / RESULTS, notes, "this evaluation is not finished"))
        if results is not None:
            evals.append((number, results))
    for number, place in reversed(folders):
        if (place / RECORDS).exists():
            last = _read_eval(place, f"{label}, update {number:,}")
            break
    if not folders and mapping_of(settings).get("eval_every") is not None:
        notes.append(f"no folder under {EVALS}/: it was not evaluated on held-out problems")
    warnings = training_warnings(facts, columns)
    training = TrainingRun(label, folder, mapping_of(settings), update, columns, evals, notes, warnings)
    return training, last


def _numbered(folder: Path) -> Iterator[tuple[int, Path]]:
    if folder.is_dir():
        for place in folder.iterdir():
            if place.is_dir() and (match := re.fullmatch(r"update-([0-9]{1,12})", place.name)):
                yield int(match.group(1)), place
