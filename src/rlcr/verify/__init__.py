"""Is an answer right? Correct, wrong or unscorable, by the verifier that the problem names.

``strict`` grading is the default. ``paper`` grading reproduces the authors' published numbers: it differs for
``exact`` and ``math``, which they graded by one and the same rule (:mod:`rlcr.verify.paper`), and not for
``choice``, which they left to a judge, and ``gym``, which they did not use. Importing this imports none of
sympy, math-verify and reasoning-gym.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal

from rlcr.errors import RlcrError, named, nearest
from rlcr.problem import Problem
from rlcr.verify._formula import has_words, without_markup
from rlcr.verify._plain import boxed, stated, unmarked
from rlcr.verify.choice import verify_choice
from rlcr.verify.exact import verify_exact
from rlcr.verify.gym import verify_gym
from rlcr.verify.judge import Message, make_judge
from rlcr.verify.math import verify_math
from rlcr.verify.paper import verify_paper
from rlcr.verify.verdict import CORRECT, WRONG, BadProblem, Verdict, Verifier, of_responses

log = logging.getLogger(__name__)

Grading = Literal["strict", "paper"]

VERIFIERS: dict[str, Verifier] = {
    "exact": verify_exact,
    "math": verify_math,
    "choice": verify_choice,
    "gym": verify_gym,
}
PAPER_VERIFIERS: dict[str, Verifier] = VERIFIERS | {"exact": verify_paper, "math": verify_paper}

_PLAIN = ("exact", "math", "choice")

_GRADINGS: dict[str, dict[str, Verifier]] = {"strict": VERIFIERS, "paper": PAPER_VERIFIERS}

__all__ = [
    "CORRECT",
    "PAPER_VERIFIERS",
    "VERIFIERS",
    "WRONG",
    "BadProblem",
    "Grading",
    "Message",
    "Verdict",
    "Verifier",
    "get_plain_verifier",
    "get_verifier",
    "is_wrapped",
    "make_judge",
    "of_responses",
    "verify",
]


def get_verifier(name: str, grading: Grading = "strict") -> Verifier:
    """The verifier of that name. ``judge`` is not among them: it needs a model (:func:`make_judge`)."""
    if grading not in _GRADINGS:
        raise RlcrError(f"unknown grading {grading!r}: {nearest(grading, list(_GRADINGS))}")
    verifiers = _GRADINGS[grading]
    if not isinstance(name, str) or name not in verifiers:  # rows of a table may name anything
        raise RlcrError(f"unknown verifier {name!r}: {nearest(str(name), list(verifiers))}")
    return verifiers[name]


def get_plain_verifier(name: str, use: str) -> Verifier:
    """A verifier that needs nothing of a problem but golds and choices, for a ``use`` that has no more.

    >>> get_plain_verifier("gym", "for a service")
    Traceback (most recent call last):
    rlcr.errors.RlcrError: the verifier gym is not for a service: its problems carry the data to score them \
with; choose exact, math or choice
    """
    if name == "gym":
        raise RlcrError(
            f"the verifier gym is not {use}: its problems carry the data to score them with;"
            f" choose {', '.join(_PLAIN[:-1])} or {_PLAIN[-1]}"
        )
    if name not in _PLAIN:
        raise RlcrError(f"unknown verifier {name!r}: {nearest(name, list(_PLAIN))}")
    return VERIFIERS[name]


def verify(
    problems: Sequence[Problem],
    answers: Sequence[str | None],
    *,
    grading: Grading = "strict",
    judge: Verifier | None = None,
    own: Mapping[str, Verifier] | None = None,
) -> list[Verdict]:
    """A verdict for each answer, in order, each by the verifier its own problem names.

    Problems whose verifier is ``judge`` need ``judge``, made by :func:`make_judge`; ``own`` are verifiers of
    the caller by their names (:mod:`rlcr.verify.own`). An answer on which its
    verifier raises is unscorable, with the exception as the reason; the others are not harmed. What the
    caller got wrong (a name, a missing judge: :class:`RlcrError`) is raised.

    >>> problem = Problem("1", "Who sang Yesterday?", ("The Beatles",), "exact")
    >>> verify([problem, problem], ["beatles", None])
    [Verdict(outcome='correct', reason=''), Verdict(outcome='wrong', reason='no answer')]
    """
    if len(problems) != len(answers):
        raise RlcrError(f"{len(problems)} problems but {len(answers)} answers")
    rows_of: defaultdict[str, list[int]] = defaultdict(list)
    for row, problem in enumerate(problems):
        rows_of[problem.verifier].append(row)
    # All names are looked up before any work is done: a typing error should not cost a finished batch.
    known = own or {}
    chosen = {
        name: known[name] if name in known else _choose(name, grading, judge, problems[rows[0]])
        for name, rows in rows_of.items()
    }
    verdicts: dict[int, Verdict] = {}
    for name, rows in rows_of.items():
        some = _verdicts(chosen[name], [problems[row] for row in rows], [answers[row] for row in rows])
        verdicts.update(zip(rows, some, strict=True))
    return [verdicts[row] for row in range(len(problems))]


def is_wrapped(verifier: str, answer: str) -> bool:
    r"""Whether an answer is more than the answer, so that its verifier had to look inside.

    >>> [is_wrapped("math", answer) for answer in ("17", "**17**", "17.", r"\boxed{17}", "17 km", "$17")]
    [False, True, True, True, True, True]
    >>> is_wrapped("choice", "B"), is_wrapped("choice", "B) library"), is_wrapped("exact", "Answer: Paris")
    (False, True, True)
    """
    answer = answer.strip()
    if verifier == "choice":
        return len(answer) > 1
    if verifier == "math":
        return stated(unmarked(boxed(answer))) != answer or has_words(answer)
    return verifier == "exact" and stated(without_markup(answer)) != answer


def _verdicts(
    verifier: Verifier, problems: Sequence[Problem], answers: Sequence[str | None]
) -> list[Verdict]:
    """What a verifier says, halving a batch on which it raises until only the answers to blame are left.

    By halves and not one by one, since the verifiers that are slow are fast on batches.
    """
    try:
        return verifier(problems, answers)
    except RlcrError:
        raise
    except Exception as error:
        if len(problems) == 1:
            reason = f"the verifier failed: {named(error)}"
            log.debug("problem %s: %s", problems[0].id, reason, exc_info=True)
            return [Verdict("unscorable", reason)]
        half = len(problems) // 2
        return [
            *_verdicts(verifier, problems[:half], answers[:half]),
            *_verdicts(verifier, problems[half:], answers[half:]),
        ]


def _choose(name: str, grading: Grading, judge: Verifier | None, example: Problem) -> Verifier:
    if name != "judge":
        return get_verifier(name, grading)
    if judge is None:
        raise RlcrError(f"problem {example.id} is graded by a judge: pass judge=make_judge(model)")
    return judge
