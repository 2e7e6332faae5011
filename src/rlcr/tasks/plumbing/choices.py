"""How multiple choice looks to a model, the same for every task that has it."""

from __future__ import annotations

from collections.abc import Mapping

from rlcr.problem import Problem
from rlcr.tasks.plumbing.task import TaskRequest

INSTRUCTION = "Put the letter of the right option alone inside the answer tags."


def choice_problem(
    request: TaskRequest, key: str | int, stem: str, choices: Mapping[str, str], gold: str, **extras: str
) -> Problem:
    """The question with its lettered options, one a line.

    The gold names letter and text, "A) bank", because a judge sees nothing else of the right option.
    """
    question = "\n".join([stem, *(f"{letter}) {option}" for letter, option in choices.items())])
    return request.problem(
        key, question, (f"{gold}) {choices[gold]}",), choices=dict(choices), bare_question=stem, **extras
    )
