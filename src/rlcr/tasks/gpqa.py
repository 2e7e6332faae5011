"""GPQA main: graduate-level science, four options, shuffled with the seed.

The dataset is gated, so the hub asks for a login of your own, and its text must not be spread: it is in
no file of ours.
"""

from __future__ import annotations

from rlcr.problem import Problem
from rlcr.tasks.plumbing.choices import INSTRUCTION, choice_problem
from rlcr.tasks.plumbing.seeded import shuffled
from rlcr.tasks.plumbing.source import Source, text
from rlcr.tasks.plumbing.tables import Row
from rlcr.tasks.plumbing.take import build_rows
from rlcr.tasks.plumbing.task import Built, Task, TaskRequest

SOURCE = Source(
    hub="Idavidrein/gpqa",
    config="gpqa_main",
    revision="633f5ee89ab8ad4522a9f850766b73f62147ffdd",
    splits={"test": "train"},
    files={"test": ("gpqa/gpqa_main",)},
)
_OPTIONS = ("Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")


def build(request: TaskRequest) -> Built:
    """All questions."""
    return build_rows(SOURCE, request, _problem)


def _problem(row: Row, number: int, request: TaskRequest) -> Problem:
    stem = text(row, "Question")
    order = shuffled(_OPTIONS, request.seed, "options", stem)
    choices = {letter: text(row, column) for letter, column in zip("ABCD", order, strict=True)}
    gold = "ABCD"[order.index("Correct Answer")]
    key = row.cells.get("Record ID") or number
    domain = {"domain": text(row, "High-level domain")} if row.cells.get("High-level domain") else {}
    return choice_problem(request, key, stem, choices, gold, **domain)


TASK = Task(
    name="gpqa",
    about="graduate-level science, four options",
    sizes={"test": 448},
    verifier="choice",
    also=("judge",),
    instruction=INSTRUCTION,
    metrics="the paper grades with a judge; by domain",
    source=SOURCE,
    build=build,
)
