"""What is asked and what counts as right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Problem:
    """One question with its accepted answers.

    ``gold`` lists the aliases of the right answer: matching any one of them is correct.
    ``verifier`` names how an answer is compared with them (see :mod:`rlcr.verify`).
    ``instruction`` is the line a task adds to the user message ("Answer with the letter only.").
    ``extras`` carries what a task or verifier needs beyond that, such as ``choices``
    (``{"A": "bank", …}``) for multiple choice, or attributes to split metrics by.
    """

    id: str
    question: str
    gold: tuple[str, ...]
    verifier: str
    instruction: str = ""
    extras: Mapping[str, Any] = field(default_factory=dict)
