"""GSM8K: grade-school word problems; the gold is the number after ``####``.

What stands before it is the worked solution, kept without its calculator notes (``<<48/2=24>>``).
"""

from __future__ import annotations

import re

from rlcr.problem import Problem
from rlcr.tasks.plumbing.source import Source, text
from rlcr.tasks.plumbing.tables import Row
from rlcr.tasks.plumbing.take import build_rows
from rlcr.tasks.plumbing.task import Built, Task, TaskRequest

SOURCE = Source(
    hub="openai/gsm8k",
    config="main",
    revision="e53f048856ff4f594e959d75785d2c2d37b678ee",
    splits={"train": "train", "test": "test"},
    files={"train": ("gsm8k/train", "gsm8k/main/train"), "test": ("gsm8k/test", "gsm8k/main/test")},
)
_CALCULATOR = re.compile(r"<<[^<>]*>>")


def build(request: TaskRequest) -> Built:
    """All problems of a split."""
    return build_rows(SOURCE, request, _problem)


def _problem(row: Row, number: int, request: TaskRequest) -> Problem:
    solution, mark, gold = text(row, "answer").rpartition("####")
    if not mark or not gold.strip():
        raise row.error("answer", "no gold: expected a number after ####")
    steps = _CALCULATOR.sub("", solution).strip()
    aliases = (gold.strip().replace(",", ""),)
    return request.problem(number, text(row, "question"), aliases, **({"solution": steps} if steps else {}))


TASK = Task(
    name="gsm8k",
    about="grade-school word problems",
    sizes={"train": 7473, "test": 1319},
    verifier="math",
    instruction="Put the final number alone inside the answer tags, without units or words.",
    metrics="accuracy by math-verify",
    source=SOURCE,
    build=build,
)
