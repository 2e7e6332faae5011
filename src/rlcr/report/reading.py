"""What is in the folders that a report is made of; the records by :mod:`~rlcr.report.rows`.

What is missing or unreadable becomes a note that the page prints in place. Only a folder that
holds nothing of a run is an error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError
from rlcr.report.failed import count_failed, count_waiting
from rlcr.report.fields import mapping_of, number_of, read_json, read_objects, texts_of
from rlcr.report.naming import labels, short_model, shown_path, without_folders
from rlcr.report.rows import Floats, RecordColumns, RecordReader
from rlcr.report.trainings import planned_updates, read_updates, training_warnings
from rlcr.runs.lines import cells_of
from rlcr.runs.stamps import DERIVED, why_stale
from rlcr.runs.store import ADAPTIVE, PROBLEMS, RECORDS, RESULTS, RUN, check_format, graded_now
from rlcr.tasks import built_file, is_built_file

TRAINING, UPDATES, EVALS = "training.json", "updates.jsonl", "evals"
#: Files of other commands that are drawn where a run folder has them; see docs/report.md for their shapes.
ARTEFACTS = tuple(name for name in DERIVED if name != RESULTS)


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
    unfinished: tuple[int, int] | None = None
    """How many of how many completions there are, while some are missing."""
    damage: str = ""
    """Which of its records cannot be read; empty where all can."""

    @property
    def warnings(self) -> list[str]:
        """What makes its numbers doubtful: records that cannot be read, and what its results say."""
        return [*filter(None, [self.damage]), *texts_of((self.results or {}).get("warnings"))]

    @property
    def method(self) -> str:
        """How the model was asked."""
        return str(self.settings.get("method") or "unknown method")

    def model_is_of(self, training: Path) -> bool:
        """Whether a training made the model, or the evaluation itself."""
        places = self.folder, Path(str(self.settings.get("model") or "unknown model"))
        return any(place.resolve().is_relative_to(training.resolve()) for place in places)

    def task_hash(self, task: str) -> str | None:
        """The hash of the problems of a task, where the settings have it."""
        digest = mapping_of(mapping_of(self.settings.get("tasks")).get(task)).get("sha256")
        return digest if isinstance(digest, str) else None

    @property
    def model(self) -> str:
        """What was evaluated, without the folder or the server where it lies."""
        return short_model(str(self.settings.get("model") or ""))

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
    planned: float = math.nan
    """How many updates it is to make."""
    finished: bool = False

    @property
    def is_unfinished(self) -> bool:
        """Whether updates are still to come, as far as one can know."""
        return not self.finished and len(self.update) < self.planned

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
            *(f"{run.label}: {without_folders(note)}" for run in self.evals for note in run.notes),
            *(
                f"training {run.label}: {without_folders(note)}"
                for run in self.trainings
                for note in run.notes
            ),
        ]

    @property
    def warnings(self) -> list[str]:
        """What makes numbers doubtful, each with the run it is about."""
        return [
            *(f"{run.label}: {without_folders(text)}" for run in self.evals for text in run.warnings),
            *(
                f"training {run.label}: {without_folders(text)}"
                for run in self.trainings
                for text in run.warnings
            ),
        ]


#: Who reads the records of a path, as far as they are read.
ReaderOf = Callable[[Path, object], RecordReader]


def read_whole(path: Path, grading: object) -> RecordReader:
    """A reader of a file of records that has read it to the end."""
    reader = RecordReader(path, grading)
    reader.read_all()
    return reader


def read_runs(
    folders: Sequence[Path], names: Mapping[Path, str] | None = None, *, reader_of: ReaderOf = read_whole
) -> ReportInput:
    """Read every folder. One that holds nothing of a run is an error; a part that is missing is a note.

    ``names`` are what to call the runs; the others are called by their folders.
    """
    if not folders:
        raise RlcrError("no run was given: name at least one folder of `rlcr eval` or `rlcr train`")
    evals: list[EvalRun] = []
    trainings: list[TrainingRun] = []
    seen: set[Path] = set()
    trained = [_is_training(folder) for folder in folders]
    called = {
        folder: label
        for kind in (True, False)
        if (
            chosen := [
                folder for folder, is_training in zip(folders, trained, strict=True) if is_training == kind
            ]
        )
        for folder, label in zip(chosen, labels(chosen), strict=True)
    } | dict(names or {})
    for folder, is_training in zip(folders, trained, strict=True):
        label = called[folder]
        if folder.resolve() in seen:
            raise RlcrError(f"{folder}: this run is named twice")
        seen.add(folder.resolve())
        _check(folder)
        if is_training:
            training, last = _read_training(folder, label, reader_of)
            trainings.append(training)
            evals += [last] if last else []
        if (folder / RUN).exists() or (folder / RECORDS).exists() or (folder / RESULTS).exists():
            evals.append(_read_eval(folder, f"{label}, evaluated" if is_training else label, reader_of))
    own = len(evals)
    for training in trainings:
        own_evals = [number for number, run in enumerate(evals) if run.model_is_of(training.folder)]
        training.colour, own = (own_evals[0], own) if own_evals else (own, own + 1)
    return ReportInput(evals, trainings)


def _is_training(folder: Path) -> bool:
    return (folder / TRAINING).exists() or (folder / UPDATES).exists()


def _check(folder: Path) -> None:
    if not folder.exists():
        raise RlcrError(f"{folder}: no such folder")
    if not folder.is_dir():
        raise RlcrError(f"{folder}: not a folder; a run is a folder of `rlcr eval` or `rlcr train`")
    signs = (RUN, RECORDS, RESULTS, TRAINING, UPDATES)
    if not any((folder / name).exists() for name in signs):
        raise RlcrError(f"{folder}: not a run (it has none of {', '.join(signs)})")


# --- evaluations ------------------------------------------------------------------------------------


def _read_eval(folder: Path, label: str, reader_of: ReaderOf) -> EvalRun:
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
    first = first_round(settings)
    reader = reader_of(folder / RECORDS, graded.get("grading"))
    rows, records = reader.columns(first)
    notes += reader.notes()
    failed = count_failed(folder, rows, first, settings, notes)
    unfinished = None
    if not math.isnan(first):
        # How many an adaptive run takes is known only at its end: its own file says that it is finished.
        if not (folder / ADAPTIVE).exists():
            notes.append("unfinished: its rounds have not ended; `rlcr eval … --resume` ends it")
    elif len(rows) + failed < (total := _total(settings)):
        unfinished = len(rows) + failed, total
        notes.append(
            f"unfinished ({len(rows) + failed:,} of {total:,}{count_waiting(folder, rows)}): its numbers "
            "are not those of the whole run, for responses that need repairs come last; "
            f"`rlcr eval --out {shown_path(folder)} --resume` ends it"
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
    return EvalRun(label, folder, settings, results, rows, artefacts, notes, unfinished, reader.damage())


def first_round(settings: Mapping[str, Any]) -> float:
    """How many samples of each question count; NaN where all do.

    Later rounds of an adaptive run are of hard questions alone: as in its results, they are left out.
    """
    return number_of(mapping_of(settings.get("adaptive")).get("first"))


def _stale(folder: Path, name: str, contents: Mapping[str, Any], records: str, notes: list[str]) -> bool:
    """Whether a derived file is about records, or columns, that have changed since; noted where it is."""
    why = why_stale(folder, contents, records)
    if why:
        notes.append(
            f"{name} is left out, for it is stale: {why};"
            f" `{DERIVED[name]} {shown_path(folder)}` with the same options makes it again"
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


# --- trainings --------------------------------------------------------------------------------------


def _read_training(folder: Path, label: str, reader_of: ReaderOf) -> tuple[TrainingRun, EvalRun | None]:
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
            last = _read_eval(place, f"{label}, update {number:,}", reader_of)
            break
    if not folders and mapping_of(settings).get("eval_every") is not None:
        notes.append(f"no folder under {EVALS}/: it was not evaluated on held-out problems")
    warnings = training_warnings(facts, columns)
    training = TrainingRun(
        label, folder, mapping_of(settings), update, columns, evals, notes, warnings,
        planned=planned_updates(facts), finished=(folder / "model").is_dir(),
    )  # fmt: skip
    return training, last


def _numbered(folder: Path) -> Iterator[tuple[int, Path]]:
    if folder.is_dir():
        for place in folder.iterdir():
            if place.is_dir() and (match := re.fullmatch(r"update-([0-9]{1,12})", place.name)):
                yield int(match.group(1)), place
