"""Tasks: name one and get the same problems every time, with where they came from.

    load("hotpotqa-modified", "train", size=2000, seed=7).problems
    load("file", path="mine.csv", question="q", gold="a", verifier="math").provenance()
    load("problems.jsonl")      what `rlcr tasks build` wrote; NAME=problems.jsonl gives it another name

The same name, split, size, seed, settings and source give the same problems, byte for byte, on every
machine and Python version (:mod:`rlcr.tasks.plumbing.seeded`). Docs: ``docs/tasks.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError, nearest
from rlcr.problem import Problem
from rlcr.tasks import (
    arms,
    bigmath,
    commonsenseqa,
    file,
    gpqa,
    gsm8k,
    gym,
    hotpotqa,
    math500,
    simpleqa,
    triviaqa,
)
from rlcr.tasks.plumbing.naming import built_file, is_built_file, named_apart
from rlcr.tasks.plumbing.overlap import Overlap, overlap
from rlcr.tasks.plumbing.problem_files import read_problems, write_problems
from rlcr.tasks.plumbing.settings import checked
from rlcr.tasks.plumbing.source import SourceTable, given_data_dir
from rlcr.tasks.plumbing.tables import NoColumn
from rlcr.tasks.plumbing.take import check_ids, take
from rlcr.tasks.plumbing.task import Built, Task, TaskRequest, TaskSet
from rlcr.verify.gym import require_origin

TASKS: dict[str, Task] = {
    "hotpotqa": hotpotqa.TASK,
    "hotpotqa-modified": hotpotqa.MODIFIED,
    "bigmath-digits": bigmath.TASK,
    "math500": math500.TASK,
    "gsm8k": gsm8k.TASK,
    "triviaqa": triviaqa.TASK,
    "simpleqa": simpleqa.TASK,
    "commonsenseqa": commonsenseqa.TASK,
    "gpqa": gpqa.TASK,
    "arms": arms.TASK,
    "gym": gym.TASK,
    "file": file.TASK,
}

__all__ = [
    "TASKS",
    "Overlap",
    "Task",
    "TaskSet",
    "built_file",
    "get_task",
    "is_built_file",
    "load",
    "named_apart",
    "overlap",
    "read_problems",
    "write_problems",
]


_HOW_TO_BUILD = "`rlcr tasks build file --set path={} --out NAME.jsonl` makes one"


def get_task(name: str) -> Task:
    """The task of that name."""
    if name not in TASKS:
        if Path(name).suffix in (".csv", ".json", ".parquet", ".gz"):
            raise RlcrError(f"{name}: not a file of built problems; {_HOW_TO_BUILD.format(name)}")
        raise RlcrError(f"unknown task {name!r}: {nearest(name, list(TASKS))}")
    return TASKS[name]


def load(
    name: str,
    split: str = "test",
    *,
    size: int | None = None,
    seed: int = 0,
    data_dir: Path | str | None = None,
    verifier: str | None = None,
    **settings: Any,
) -> TaskSet:
    """The problems of a task, or of a file that ``rlcr tasks build`` wrote, with their provenance.

    ``size`` problems are drawn with the seed; a smaller draw is part of a larger one. Without it, as many
    as the paper uses; where fewer are at hand, all, and the notes say so. ``data_dir`` (or ``RLCR_DATA``)
    holds local files, to be preferred to the hub. ``verifier`` chooses among those that the task allows.

    >>> load("arms", size=3).task
    'arms'
    """
    return load_with(
        name, split, size=size, seed=seed, data_dir=data_dir, verifier=verifier, settings=settings
    )


def load_with(
    name: str,
    split: str,
    *,
    size: int | None,
    seed: int,
    data_dir: Path | str | None,
    verifier: str | None,
    settings: Mapping[str, Any],
) -> TaskSet:
    """:func:`load`, with the settings in one mapping: what the user wrote, whatever their names."""
    if size is not None and size < 1:
        raise RlcrError(f"size must be at least 1, got {size}")
    if is_built_file(name):
        return _load_built(name, size, seed, verifier, settings)
    task = get_task(name)
    # A task without named splits (the user's own data) takes any.
    if task.sizes and split not in task.sizes:
        raise RlcrError(f"{task.name} has no split {split!r}: {nearest(split, list(task.sizes))}")
    verifiers = [task.verifier, *task.also]
    if verifier is not None and verifier not in verifiers:
        raise RlcrError(f"{task.name} has no verifier {verifier!r}: {nearest(verifier, verifiers)}")
    request = TaskRequest(
        task=task.name,
        split=split,
        seed=seed,
        size=size,
        usual_size=task.sizes.get(split),
        verifier=verifier or task.verifier,
        instruction=task.instruction,
        settings={**task.settings, **checked(task, settings)},
        data_dir=given_data_dir(data_dir),
    )
    return _task_set(request, task.build(request))


def load_at_most(
    name: str,
    split: str,
    limit: int | None,
    *,
    data_dir: Path | str | None,
    verifier: str | None = None,
    settings: Mapping[str, Any] = {},
) -> TaskSet:
    """The problems to evaluate on: as many as the paper uses, or ``limit`` if that is fewer."""

    def built(size: int | None) -> TaskSet:
        return load_with(
            name, split, size=size, seed=0, data_dir=data_dir, verifier=verifier, settings=settings
        )

    whole = built(None)
    # A smaller draw is part of a larger one, so that a trial run is the beginning of the whole.
    return whole if limit is None or limit >= len(whole.problems) else built(limit)


def _load_built(
    name: str, size: int | None, seed: int, verifier: str | None, settings: Mapping[str, Any]
) -> TaskSet:
    name, path = built_file(name)
    if verifier or settings:
        given = [*(["verifier"] if verifier else []), *settings]
        raise RlcrError(f"{path}: {', '.join(given)} cannot be set for problems that are already built")
    request = TaskRequest(
        task=name, split="as built", seed=seed, size=size, usual_size=None,
        verifier="as built", instruction="", settings={"path": str(path)}, data_dir=None,
    )  # fmt: skip
    problems = _read_built(path)
    for problem in problems:
        if problem.verifier == "gym":
            require_origin(problem)
        if problem.verifier == "choice" and not problem.extras.get("choices"):
            raise RlcrError(
                f"{path}: problem {problem.id} has no options, which the verifier choice needs: build it"
                " again with --set choices=COLUMN"
            )
    return _task_set(request, take(SourceTable((path,), path.name), problems, request))


def _read_built(path: Path) -> list[Problem]:
    try:
        return read_problems(path)
    except NoColumn as error:
        raise RlcrError(f"{error}: not a file of built problems; {_HOW_TO_BUILD.format(path)}") from None


def _task_set(request: TaskRequest, built: Built) -> TaskSet:
    check_ids(built.problems, built.source)
    used = sorted({problem.verifier for problem in built.problems})
    return TaskSet(
        problems=tuple(built.problems),
        task=request.task,
        split=request.split,
        seed=request.seed,
        settings=request.settings,
        verifier=" and ".join(used),
        source=built.source,
        source_sha256=built.source_sha256,
        notes=tuple(built.notes),
    )
