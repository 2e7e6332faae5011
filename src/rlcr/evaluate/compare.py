"""Two runs side by side: paired differences on the problems that both hold, and what else differs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlcr import metrics
from rlcr.errors import RlcrError
from rlcr.evaluate.results import HEADLINE, verifier_names
from rlcr.metrics.frames import Tabular, estimate_cells, headings
from rlcr.metrics.intervals import NO_ANSWERS, Answers
from rlcr.metrics.tables import Cell, Heading, Table, text_headings
from rlcr.runs.columns import VERBALISED, Column, read_column
from rlcr.runs.store import Run, open_run

# Not the model, which is what a comparison is usually about, nor the prompt, which is compared by its text.
_SETTINGS = (
    "method", "grading", "verifier", "judge", "judge_weights", "samples", "temperature", "max_tokens", "seed",
    "mode", "tokenizer", "adaptive",
)  # fmt: skip


@dataclass(frozen=True)
class RunComparison(Tabular):
    """Differences, second run minus first, task by task; ``notes`` say in what else the runs differ."""

    tasks: Mapping[str, metrics.Comparison]
    notes: tuple[str, ...]
    verifiers: Mapping[str, tuple[str, str]]
    """Which verifiers graded each task, in the first run and in the second."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        tasks = {task: comparison.to_dict() for task, comparison in self.tasks.items()}
        verifiers = {task: list(names) for task, names in self.verifiers.items()}
        return {"tasks": tasks, "verifiers": verifiers, "notes": list(self.notes)}

    def table(self) -> Table:
        """A line for each task: the second run minus the first."""
        rows = [
            (
                Cell(task),
                Cell(f"{found.questions:,}", found.questions),
                *estimate_cells(found.metrics, list(HEADLINE), sign=True),
            )
            for task, found in self.tasks.items()
        ]
        columns = (*text_headings("task"), Heading("questions"), *headings(HEADLINE))
        return Table("differences", "Second minus first", columns, tuple(rows), notes=self.notes)


def compare_runs(
    folder_a: Path, folder_b: Path, *, confidence: str = VERBALISED, resamples: int = 1000
) -> RunComparison:
    """Compare two finished runs on the problems that both hold and could score.

    ``confidence`` names the column of both runs (see :mod:`rlcr.runs.columns`).
    """
    a, b = open_run(folder_a), open_run(folder_b)
    tasks_a, tasks_b = a.settings["tasks"], b.settings["tasks"]
    for run in (a, b):
        run.check_finished()
    notes = list(_different_settings(a.described, b.described))
    failed = [len(run.independent_failures()) for run in (a, b)]
    if any(failed):
        notes.append(f"completions that failed, and are in no pair: {failed[0]:,} against {failed[1]:,}")
    same_name = sorted(tasks_a.keys() & tasks_b.keys())
    alike = tasks_a.keys() == tasks_b.keys() and all(
        tasks_a[task]["sha256"] == tasks_b[task]["sha256"] for task in same_name
    )
    twins = None if alike else _twins(a, b)
    answers_a, by_a = _by_task(a, read_column(a, confidence))
    answers_b, by_b = _by_task(b, read_column(b, confidence), twins)
    pairs = {task: task for task in same_name} | _other_names(answers_a, answers_b, same_name)
    if not pairs:
        names = " and ".join(", ".join(tasks) for tasks in (tasks_a, tasks_b))
        raise RlcrError(f"{folder_a} and {folder_b} have no task and no problem in common: {names}")
    verifiers: dict[str, tuple[str, str]] = {}
    compared: dict[str, metrics.Comparison] = {}
    for task, other in pairs.items():
        if task != other:
            notes.append(f"{task} is called {other} in the second run")
        if tasks_a[task]["sha256"] != tasks_b[other]["sha256"]:
            sizes = f"{tasks_a[task]['size']:,} against {tasks_b[other]['size']:,} problems"
            notes.append(f"{task}: {sizes}, not all the same; the pairs are those with the same content")
        comparison = metrics.compare_common(
            answers_a.get(task, NO_ANSWERS), answers_b.get(other, NO_ANSWERS), resamples=resamples
        )
        if comparison is None:
            raise RlcrError(f"{task}: the two runs have no scored problem in common")
        compared[task] = comparison
        verifiers[task] = by_a[task], by_b[other]
        if by_a[task] != by_b[other]:
            notes.append(f"{task}: who verified: {by_a[task]} against {by_b[other]}")
    return RunComparison(compared, tuple(notes), verifiers)


def _different_settings(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[str]:
    for name in _SETTINGS:
        if (was := a.get(name)) != (now := b.get(name)):
            yield f"{name}: {_setting_text(was)} against {_setting_text(now)}"
    if a["prompt_text"] != b["prompt_text"]:
        names = f"{a['prompt']} against {b['prompt']}"
        yield f"prompt: {names}" + (", which has another text" if a["prompt"] == b["prompt"] else "")


def _setting_text(value: Any) -> str:
    """A setting in words. Of an adaptive run only the first round is compared."""
    if not isinstance(value, Mapping):
        return str(value)
    settings = ", ".join(f"{name} {setting}" for name, setting in value.items())
    return f"{settings} (compared by the first {value['first']} samples)" if "first" in value else settings


def _twins(a: Run, b: Run) -> dict[str, str]:
    """The problems that both runs hold, from their ids in the second to those in the first.

    Ids come from files, so that the same problems may have others: then question and gold tell.
    """
    first, second = a.problems(), b.problems()
    by_content = [
        _unique({name: (p.question, p.gold) for name, p in some.items()}) for some in (first, second)
    ]
    twins = {name: by_content[0][what] for what, name in by_content[1].items() if what in by_content[0]}
    for name in first.keys() & second.keys():
        if (first[name].question, first[name].gold) == (second[name].question, second[name].gold):
            twins[name] = name
    return twins


def _unique(contents: Mapping[str, Any]) -> dict[Any, str]:
    counts = Counter(contents.values())
    return {content: name for name, content in contents.items() if counts[content] == 1}


def _other_names(
    answers_a: Mapping[str, Answers], answers_b: Mapping[str, Answers], same_name: Sequence[str]
) -> dict[str, str]:
    """Tasks of different names that hold the same problems."""
    left = {task: set(answers[2]) for task, answers in answers_b.items() if task not in same_name}
    pairs: dict[str, str] = {}
    for task, answers in answers_a.items():
        held = {other: len(questions & set(answers[2])) for other, questions in left.items()}
        if task not in same_name and any(held.values()):
            pairs[task] = max(held, key=held.__getitem__)
            del left[pairs[task]]
    return pairs


def _by_task(
    run: Run, column: Column, twins: Mapping[str, str] | None = None
) -> tuple[dict[str, Answers], dict[str, str]]:
    """The scored answers of each task (verdicts, confidences and questions), and who verified them.

    With ``twins`` only those.
    """
    verifiers: dict[str, dict[str, None]] = {}
    rows: dict[str, list[tuple[bool, float, str]]] = {}
    for record in run.independent_records():
        question = record.id if twins is None else twins.get(record.id)
        if record.correct is not None and question is not None:
            stated = column.get(record.key)
            row = record.correct, math.nan if stated is None else stated, question
            rows.setdefault(record.task, []).append(row)
            verifiers.setdefault(record.task, {})[record.verifier] = None
    tasks: dict[str, Answers] = {}
    for task, answers in rows.items():
        correct, confidence, question = zip(*answers, strict=True)
        tasks[task] = correct, confidence, question
    judge = run.described.get("judge_name")
    return tasks, {task: verifier_names(sorted(names), judge) for task, names in verifiers.items()}
