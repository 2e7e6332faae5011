"""The model card of a trained model: recipe, data, results; what the next user must know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from rlcr.evaluate.methods import get_method
from rlcr.metrics.tables import Cell, Heading, Table, markdown
from rlcr.runs.store import write_whole
from rlcr.tasks import TaskSet
from rlcr.training.recipes import Resolved


def write_card(
    folder: Path,
    resolved: Resolved,
    task_set: TaskSet,
    held_out: TaskSet | None,
    updates: Sequence[Mapping[str, Any]],
    evals: Sequence[Mapping[str, Any]],
) -> None:
    """Write README.md beside the weights."""
    recipe, method = resolved.recipe, get_method(resolved.recipe.method)
    said = [setting for setting in resolved.settings if setting.origin != "default"]
    header = yaml.safe_dump(
        {"base_model": recipe.model, "library_name": "transformers", "tags": ["rlcr", "grpo", "calibration"]},
        sort_keys=False,
    )
    sections = [
        f"---\n{header}---\n",
        f"# {resolved.name}\n",
        f"{recipe.about}\n" if recipe.about else "",
        f"Trained with [rlcr] from `{recipe.model}`, {len(updates):,} updates of {recipe.completions:,}"
        f" completions. It is asked with the `{method.prompt}` prompt and answers in the tags of the"
        f" `{method.format}` format; `rlcr eval --model THIS_FOLDER` knows that.\n",
        "## Data\n",
        f"{_described(task_set)}\n",
        f"Held out: {_described(held_out)}\n" if held_out else "",
        "## Results\n",
        _results(updates, evals),
        "## Recipe\n",
        _table(["setting", "value", "from"], [[s.name, s.value, s.source or s.origin] for s in said]),
    ]
    write_whole(folder / "README.md", "\n".join(section for section in sections if section))


def _described(task_set: TaskSet) -> str:
    return (
        f"`{task_set.task}`, split `{task_set.split}`, {len(task_set.problems):,} problems from"
        f" {task_set.source}; sha256 of the built set `{task_set.sha256}`."
    )


def _results(updates: Sequence[Mapping[str, Any]], evals: Sequence[Mapping[str, Any]]) -> str:
    names = ["accuracy", "auroc", "brier", "ece"]
    if evals:
        rows = [[line["update"], *(line[name] for name in names)] for line in evals]
        return "Held out, after so many updates:\n\n" + _table(["updates", *names], rows)
    if not updates:
        return "Not evaluated.\n"
    rows = [[updates[-1][name] for name in names]]
    return "On the completions of the last training update (sampled, not held out):\n\n" + _table(names, rows)


def _table(headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    columns = tuple(Heading(text, numeric=False) for text in headings)
    return markdown(Table("", "", columns, tuple(tuple(map(_cell, row)) for row in rows)))


def _cell(value: Any) -> Cell:
    return Cell("n/a" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value))
