"""The three things a verifier can say about an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rlcr.errors import RlcrError
from rlcr.problem import Problem
from rlcr.response import Response

Outcome = Literal["correct", "wrong", "unscorable"]

#: More unscorable answers than this share are not left to a column of counts: something is broken.
UNSCORABLE_SHARE = 0.02


class BadProblem(RlcrError):
    """A problem lacks what its verifier needs of it: the fault of that one, not of the settings."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Correct, wrong or unscorable, with the reason where it is not obvious.

    Unscorable means that *we* could not tell (a gold that does not parse, a verifier that was killed or
    raised, a judge that said neither yes nor no). It is never counted as wrong. An answer that is absent, is
    not an answer, or that no verifier can finish reading is wrong: that is the model's doing.
    """

    outcome: Outcome
    reason: str = ""

    @property
    def correct(self) -> bool | None:
        """True, False, or None when unscorable."""
        return None if self.outcome == "unscorable" else self.outcome == "correct"


def unscorable_warning(reasons: Mapping[str, int], total: int) -> str | None:
    """What to say where too many of ``total`` answers are unscorable; None where few are.

    >>> unscorable_warning({"gold does not parse": 20}, 1000) is None
    True
    >>> unscorable_warning({"gold does not parse": 20, "the judge is silent": 10}, 1000)
    '30 of 1,000 answers (3.0%) are unscorable and count for nothing, most often: gold does not parse'
    """
    lost = sum(reasons.values())
    if lost <= UNSCORABLE_SHARE * total:
        return None
    reason = max(reasons, key=lambda reason: (reasons[reason], reason))
    share = f"{lost:,} of {total:,} answers ({lost / total:.1%}) are unscorable and count for nothing"
    return f"{share}, most often: {reason or 'no reason is given'}"


#: A verifier compares answers with the golds of their problems, a whole batch at once.
#: ``None`` stands for "the response holds no answer".
Verifier = Callable[[Sequence[Problem], Sequence[str | None]], list[Verdict]]

CORRECT = Verdict("correct")
WRONG = Verdict("wrong")
NO_ANSWER = Verdict("wrong", "no answer")


def of_responses(responses: Sequence[Response], verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts on responses, from those on their answers.

    They differ where the parser failed: such a response has no answer, but it is unscorable, not wrong.
    """
    return [
        Verdict("unscorable", response.error) if response.error else verdict
        for response, verdict in zip(responses, verdicts, strict=True)
    ]
