"""How multiple choice looks to a model, the same for every task that has it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rlcr.problem import Problem
from rlcr.tasks.plumbing.task import TaskRequest

INSTRUCTION = "Put the letter of the right option alone inside the answer tags."


def choice_problem(
    request: TaskRequest, key: str | int, stem: str, choices: Mapping[str, str], gold: str, **extras: str
) -> Problem:
    """The question with its lettered options, one a line."""
    return request.problem(
        key,
        with_options(stem, choices),
        (letter_and_text(gold, choices),),
        choices=dict(choices),
        bare_question=stem,
        **extras,
    )


def with_options(stem: str, choices: Mapping[str, str]) -> str:
    """The question and its options, one a line; as it is where it shows them already.

    >>> print(with_options("Where?", {"A": "bank", "B": "mall"}))
    Where?
    A) bank
    B) mall
    """
    shown = (rf"\b{letter}\W{{1,3}}{re.escape(option)}" for letter, option in choices.items())
    if all(re.search(option, stem) for option in shown):
        return stem
    return "\n".join([stem, *(f"{letter}) {option}" for letter, option in choices.items())])


def letter_and_text(letter: str, choices: Mapping[str, str]) -> str:
    """The gold, "A) bank": letter and text, because a judge sees nothing else of the right option."""
    return f"{letter}) {choices[letter]}"
