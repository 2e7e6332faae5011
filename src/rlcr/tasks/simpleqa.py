"""SimpleQA: short factual questions with one undisputed answer.

The metadata of a row (topic, answer type, links) is a Python literal; we keep topic and answer type.
"""

from __future__ import annotations

import ast
from typing import Any

from rlcr.problem import Problem
from rlcr.tasks.plumbing.source import Source, text
from rlcr.tasks.plumbing.tables import Row
from rlcr.tasks.plumbing.take import build_rows
from rlcr.tasks.plumbing.task import Built, Task, TaskRequest

SOURCE = Source(
    hub="basicv8vc/SimpleQA",
    splits={"test": "test"},
    files={"test": ("simpleqa/test", "simpleqa/simple_qa_test_set")},
)


def build(request: TaskRequest) -> Built:
    """All questions."""
    return build_rows(SOURCE, request, _problem)


def _problem(row: Row, number: int, request: TaskRequest) -> Problem:
    # A carrier renamed the columns, so that its `question` is upstream's `problem`.
    gold = text(row, "true_answer", "answer")
    return request.problem(number, text(row, "problem", "question"), (gold,), **_metadata(row))


def _metadata(row: Row) -> dict[str, Any]:
    literal = row.cells.get("metadata")
    if not literal:
        return {}
    try:
        metadata = ast.literal_eval(literal)
        return {name: metadata[name] for name in ("topic", "answer_type")}
    except (ValueError, SyntaxError, TypeError, KeyError):
        raise row.error("metadata", "expected a Python dict with topic and answer_type") from None


TASK = Task(
    name="simpleqa",
    about="short factual questions",
    sizes={"test": 4326},
    verifier="exact",
    also=("judge",),
    instruction="Put the short answer alone inside the answer tags: a name, a date or a number, no sentence.",
    metrics="the paper grades with a judge; exact match is stricter; by topic, answer_type",
    source=SOURCE,
    build=build,
)
