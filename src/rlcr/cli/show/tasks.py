"""Tasks as the command line shows them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcr.errors import RlcrError
from rlcr.problem import Problem
from rlcr.prompts import load_prompt, render
from rlcr.tasks import TASKS, Overlap, Task, TaskSet, is_built_file, load
from rlcr.tasks.plumbing.overlap import overlap
from rlcr.tasks.plumbing.settings import is_text

if TYPE_CHECKING:
    from rich.table import Table


#: Where a terminal is as wide as this, the listing has room for notes too.
_WIDE = 130


def listing(width: int) -> Table:
    """All tasks: name, split sizes, verifier, source, and on a wide terminal the metric notes.

    Names are never cut: only the source may be folded, below 80 columns.
    """
    from rich.table import Table

    wide = width >= _WIDE
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("task", no_wrap=True)
    table.add_column("train", no_wrap=True, justify="right")
    table.add_column("test", no_wrap=True, justify="right")
    table.add_column("verifier", no_wrap=True)
    table.add_column("source", no_wrap=wide, overflow="fold")
    if wide:
        table.add_column("metrics")
    for task in TASKS.values():
        verifiers = "yours" if not task.sizes else "/".join([task.verifier, *task.also])
        source = task.origin if wide else task.origin.partition("@")[0]
        notes = [task.metrics] if wide else []
        table.add_row(task.name, _size(task, "train"), _size(task, "test"), verifiers, source, *notes)
    return table


def _size(task: Task, split: str) -> str:
    if not task.sizes:
        return "any"
    if split not in task.sizes:
        return ""
    size = task.sizes[split]
    return "all" if size is None else f"{size:,}"


def show(tasks: TaskSet, problems: Iterable[Problem], prompt: str) -> str:
    """Some problems of a set as a model gets them, with their golds; then notes and provenance of the set."""
    system = load_prompt(prompt, format="rlcr")
    blocks = [
        f"── {problem.id}\n{render(system, problem)}\n\n"
        f"gold: {' | '.join(problem.gold)}\nverifier: {problem.verifier}"
        for problem in problems
    ]
    return "\n\n".join([*blocks, *_notes(tasks), provenance(tasks)])


def _notes(tasks: TaskSet) -> list[str]:
    """What there is to say of a task; nothing of a file of built problems, whatever its name."""
    task = None if tasks.split == "as built" else TASKS.get(tasks.task)
    return [f"about: {task.about}\nmetrics: {task.metrics}"] if task else []


def provenance(tasks: TaskSet) -> str:
    """Where a set came from, a fact a line."""
    facts = tasks.provenance()
    notes = facts.pop("notes")
    settings = json.dumps(facts.pop("settings"))
    lines = [f"{key}: {value}" for key, value in facts.items()]
    return "\n".join([*lines, f"settings: {settings}", *(f"note: {note}" for note in notes)])


def compare(a: str, b: str, data_dir: Path | None) -> Overlap:
    """The overlap of two sets, each a task (``gsm8k`` or ``gsm8k:train``) or a file of built problems."""
    first, second = (_load_named(name, data_dir) for name in (a, b))
    return overlap(first.problems, second.problems)


def _load_named(name: str, data_dir: Path | None) -> TaskSet:
    if is_built_file(name):
        return load(name)
    task, _, split = name.partition(":")
    return load(task, split or "test", data_dir=data_dir)


def read_settings(name: str, pairs: Iterable[str], template: str | None = None) -> dict[str, Any]:
    """Settings of a task written as ``key=value``; a value is JSON where it can be and is not to be text.

    ``template`` is the setting of that name, which has an option of its own.

    >>> read_settings("arms", ["arms=3"]), read_settings("file", ["path=mine.csv", "gold=2024"])
    ({'arms': 3}, {'path': 'mine.csv', 'gold': '2024'})
    """
    defaults = TASKS[name].settings if name in TASKS else {}
    settings: dict[str, Any] = {} if template is None else {"template": template}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise RlcrError(f"--set {pair}: expected key=value")
        if key in settings:
            raise RlcrError(f"--set {pair}: {key} is given twice, also as {settings[key]!r}")
        settings[key] = value
        if not is_text(defaults.get(key, 0)):
            with suppress(json.JSONDecodeError, RecursionError):
                settings[key] = json.loads(value)
    return settings
