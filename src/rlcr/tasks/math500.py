"""MATH-500: 500 competition problems; golds are LaTeX expressions."""

from __future__ import annotations

from rlcr.problem import Problem
from rlcr.tasks.plumbing.source import Source, text
from rlcr.tasks.plumbing.tables import Row
from rlcr.tasks.plumbing.take import build_rows
from rlcr.tasks.plumbing.task import Built, Task, TaskRequest

SOURCE = Source(
    hub="HuggingFaceH4/MATH-500",
    revision="6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be",
    splits={"test": "test"},
    files={"test": ("math500/test",)},
)


def build(request: TaskRequest) -> Built:
    """All problems."""
    return build_rows(SOURCE, request, _problem)


def _problem(row: Row, number: int, request: TaskRequest) -> Problem:
    key = text(row, "unique_id").removeprefix("test/").removesuffix(".json")
    extras = {name: row.cells[name] for name in ("subject", "level") if name in row.cells}
    return request.problem(key, text(row, "problem"), (text(row, "answer"),), **extras)


TASK = Task(
    name="math500",
    about="competition mathematics",
    sizes={"test": 500},
    verifier="math",
    instruction="Put the final expression alone inside the answer tags, without words; LaTeX is welcome.",
    metrics="accuracy by math-verify; the paper left golds unparsed (grading: paper); by subject, level",
    source=SOURCE,
    build=build,
)
