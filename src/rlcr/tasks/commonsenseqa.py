"""CommonsenseQA: five options a question; the test split is upstream's validation set.

The paper counts 1,220 questions; the validation set, and the authors' own file, have 1,221.
"""

from __future__ import annotations

import re
from typing import Any

from rlcr.problem import Problem
from rlcr.tasks.plumbing.choices import INSTRUCTION, choice_problem
from rlcr.tasks.plumbing.options import options_of
from rlcr.tasks.plumbing.source import Source, cell, text
from rlcr.tasks.plumbing.tables import Row
from rlcr.tasks.plumbing.take import build_rows
from rlcr.tasks.plumbing.task import Built, Task, TaskRequest

SOURCE = Source(
    hub="tau/commonsense_qa",
    revision="94630fe30dad47192a8546eb75f094926d47e155",
    splits={"train": "train", "test": "validation"},
    files={
        "train": ("commonsenseqa/train", "commonsenseqa/train_rand_split", "commonsenseqa/data/train"),
        "test": (
            "commonsenseqa/dev",
            "commonsenseqa/dev_rand_split",
            "commonsenseqa/rlcr_eval",
            "commonsenseqa/data/validation",
        ),
    },
)
_OPTION = re.compile(r"^([A-Z])\) (.*)$", re.M)


def build(request: TaskRequest) -> Built:
    """All questions of a split. Every carrier gives the same problems."""
    return build_rows(SOURCE, request, _problem)


def _problem(row: Row, number: int, request: TaskRequest) -> Problem:
    stem, choices = _stem_and_choices(row)
    gold = text(row, "answerKey")
    if gold not in choices:
        raise row.error("answerKey", f"no gold: {gold!r} is none of the options {', '.join(choices)}")
    return choice_problem(request, text(row, "id"), stem, choices, gold)


def _stem_and_choices(row: Row) -> tuple[str, dict[str, str]]:
    if "problem" in row.cells:  # the authors' file: stem and options in one text
        problem = text(row, "problem")
        first = _OPTION.search(problem)
        if first is None:
            raise row.error("problem", "expected lettered options, one a line")
        return problem[: first.start()].strip(), {m.group(1): m.group(2) for m in _OPTION.finditer(problem)}
    question = cell(row, "question")
    if isinstance(question, dict):  # the original file
        return str(question.get("stem", "")).strip(), _pairs(row, question.get("choices"))
    return text(row, "question"), _pairs(row, cell(row, "choices"))  # the hub


def _pairs(row: Row, choices: Any) -> dict[str, str]:
    """Options as a list of {label, text}, or as {label: […], text: […]}."""
    try:
        return options_of(choices).texts
    except ValueError:
        raise row.error("choices", "expected options with label and text") from None


TASK = Task(
    name="commonsenseqa",
    about="everyday knowledge, five options",
    sizes={"train": 9741, "test": 1221},
    verifier="choice",
    also=("judge",),
    instruction=INSTRUCTION,
    metrics="the paper grades with a judge, and counts 1,220 questions",
    source=SOURCE,
    build=build,
)
