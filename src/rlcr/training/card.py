"""The model card of a trained model: recipe, data, results; what the next user must know."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from rlcr.evaluate.methods import get_method
from rlcr.metrics.tables import PARTIAL_NOTE, Cell, Heading, Table, markdown, resting_on
from rlcr.runs.lines import write_whole
from rlcr.tasks import TaskSet
from rlcr.training.recipes import Resolved
from rlcr.training.teaching import counts, outcome

#: How the name of a model on the hub looks.
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
#: Some old ones have no owner: gpt2.
_OLD_NAME = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)


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
        {
            # The hub refuses what is not one of its models, such as a folder.
            **({"base_model": recipe.model} if is_on_hub(recipe.model) else {}),
            "library_name": "transformers",
            "tags": ["rlcr", "grpo", "calibration"],
        },
        sort_keys=False,
    )
    sections = [
        f"---\n{header}---\n",
        f"# {resolved.name}\n",
        f"{recipe.about}\n" if recipe.about else "",
        f"Trained with [rlcr] from `{recipe.model}`, {len(updates):,} updates of {recipe.completions:,}"
        f" completions. It is asked with the `{method.prompt}` prompt and answers in the tags of the"
        f" `{method.format}` format; `rlcr eval --model THIS_FOLDER` knows that.\n",
        f"{_taught(updates)}\n" if updates else "",
        "## Data\n",
        f"{_described(task_set)}\n",
        f"Held out: {_described(held_out)}\n" if held_out else "",
        "## Results\n",
        _results(updates, evals),
        "## Recipe\n",
        _table(["setting", "value", "from"], [[s.name, s.value, s.source or s.origin] for s in said]),
    ]
    write_whole(folder / "README.md", "\n".join(section for section in sections if section))


def is_on_hub(model: str) -> bool:
    """Whether a model that was loaded by this name came from the hub."""
    named = HUB_NAME.fullmatch(model) or _OLD_NAME.fullmatch(model)
    return bool(named) and not Path(model).exists()


def _taught(updates: Sequence[Mapping[str, Any]]) -> str:
    number = counts(updates)
    share = f"{number['taught']:,} of {number['made']:,} updates ({number['taught'] / number['made']:.0%})"
    said = f"{share} taught anything: in the others nothing that was sampled earned more than the rest."
    doubts = outcome(updates)
    return f"{said} **{doubts}.**" if doubts else f"{share} taught something."


def _described(task_set: TaskSet) -> str:
    return (
        f"`{task_set.task}`, split `{task_set.split}`, {len(task_set.problems):,} problems from"
        f" {task_set.source}; sha256 of the built set `{task_set.sha256}`."
    )


def _results(updates: Sequence[Mapping[str, Any]], evals: Sequence[Mapping[str, Any]]) -> str:
    names = ["accuracy", "auroc", "brier", "ece"]
    if evals:
        rows = [[line["update"], *_rested(line, names), line["answers"], line["rated"]] for line in evals]
        table = _table(["updates", *names, "answers", "rated"], rows)
        return f"Held out, after so many updates:\n\n{table}\n{_RESTS_ON}"
    if not updates:
        return "Not evaluated.\n"
    rows = [[*(updates[-1][name] for name in names), updates[-1]["completions"]]]
    return "On the completions of the last training update (sampled, not held out):\n\n" + _table(
        [*names, "completions"], rows
    )


#: Below a table of held-out evaluations.
_RESTS_ON = (
    "auroc, brier and ece rest on the rated answers: those that are scored and state a confidence.\n"
    f"{PARTIAL_NOTE}\n"
)


def _rested(line: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """The metrics of an evaluation, with a mark where one does not rest on all answers."""
    rows = {name: line["scored"] if name == "accuracy" else line["rated"] for name in names}
    return [resting_on(_cell(line[name]), rows[name], line["answers"]).text for name in names]


def _table(headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    columns = tuple(Heading(text, numeric=False) for text in headings)
    return markdown(Table("", "", columns, tuple(tuple(map(_cell, row)) for row in rows)))


def _cell(value: Any) -> Cell:
    return Cell("n/a" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value))
