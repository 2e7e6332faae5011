"""Tasks as the command line shows them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcr.errors import RlcrError
from rlcr.prompts import load_prompt, render
from rlcr.tasks import TASKS, Overlap, TaskSet, is_built_file, load, overlap

if TYPE_CHECKING:
    from rich.table import Table


def listing() -> Table:
    """All tasks: name, split sizes, verifier, metric notes, source."""
    from rich.table import Table

    table = Table("task", "splits", "verifier", "metrics", "source", show_edge=False)
    for task in TASKS.values():
        sizes = ", ".join(f"{split} {size:,}" if size else split for split, size in task.sizes.items())
        verifier = " or ".join([task.verifier, *task.also])
        table.add_row(task.name, sizes or "any", verifier, task.metrics, task.origin)
    return table


def show(tasks: TaskSet, count: int, prompt: str) -> str:
    """The first problems as a model gets them, each with gold and verifier, then where they came from."""
    system = load_prompt(prompt, format="rlcr")
    blocks = [
        f"── {problem.id}\n{render(system, problem)}\n\n"
        f"gold: {' | '.join(problem.gold)}\nverifier: {problem.verifier}"
        for problem in tasks.problems[:count]
    ]
    return "\n\n".join([*blocks, provenance(tasks)])


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


def read_settings(pairs: Iterable[str]) -> dict[str, Any]:
    """Settings written as ``key=value``; a value is JSON where it can be, else text.

    >>> read_settings(["max_solve_rate=0.5", "path=mine.csv"])
    {'max_solve_rate': 0.5, 'path': 'mine.csv'}
    """
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise RlcrError(f"--set {pair}: expected key=value")
        try:
            settings[key] = json.loads(value)
        except json.JSONDecodeError:
            settings[key] = value
    return settings
