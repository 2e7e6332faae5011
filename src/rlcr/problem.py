"""What is asked and what counts as right."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

from rlcr.errors import RlcrError, described

_TEXT = frozenset({str})


@dataclass(frozen=True, slots=True)
class Problem:
    """One question with its accepted answers.

    ``gold`` lists the aliases of the right answer: matching any one of them is correct. A single text or
    number may be given for a list of one (:func:`as_texts`).
    ``verifier`` names how an answer is compared with them (see :mod:`rlcr.verify`).
    ``instruction`` is the line a task adds to the user message ("Answer with the letter only.").
    ``extras`` carries what a task or verifier needs beyond that, such as ``choices``
    (``{"A": "bank", …}``) for multiple choice, or attributes to split metrics by. A worked ``solution``, the
    steps to the answer without the answer itself, is what a warm-up can teach from.
    """

    id: str
    question: str
    gold: tuple[str, ...]
    verifier: str
    instruction: str = ""
    extras: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Nearly always a tuple of texts already, and there may be millions.
        if type(self.gold) is tuple and set(map(type, self.gold)) <= _TEXT:
            return
        try:
            object.__setattr__(self, "gold", as_texts(self.gold))
        except ValueError as error:
            raise RlcrError(f"problem {self.id}: as gold {error}") from None


def as_texts(value: object) -> tuple[str, ...]:
    """What a user gave as one text or several: a text is one, a number is its text, a list holds some.

    Raises ValueError for anything else. True is no number here, and neither is NaN, which in a table stands
    for an empty cell.

    >>> as_texts("42"), as_texts(42), as_texts(["42", 42.0])
    (('42',), ('42',), ('42', '42.0'))
    """
    values = value if isinstance(value, (list, tuple)) else (value,)
    return tuple(one if isinstance(one, str) else _number_text(one) for one in values)


def _number_text(value: object) -> str:
    # A whole number may be larger than any that `isfinite` takes.
    finite = isinstance(value, Integral) or (isinstance(value, Real) and math.isfinite(value))
    if finite and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"expected a text, a number or a list of these, found {described(value)}")
