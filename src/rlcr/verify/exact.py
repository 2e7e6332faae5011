"""Exact match after SQuAD/HotpotQA normalisation.

Left out: HotpotQA's special treatment of yes, no and noanswer, which concerns its F1 score only.
Different from the official script: texts that normalise to nothing are compared as written, see
:func:`same_text`; and an answer may be boxed or stand after "The answer is" (:mod:`rlcr.verify._plain`).
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

from rlcr.problem import Problem
from rlcr.verify._formula import without_markup
from rlcr.verify._plain import stated
from rlcr.verify.verdict import CORRECT, NO_ANSWER, WRONG, Verdict

_DROP_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")


def normalise(text: str) -> str:
    """Lower case, without ASCII punctuation, without the words a, an and the, single spaces.

    >>> normalise("The  Beatles!")
    'beatles'
    """
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_DROP_PUNCTUATION)).split())


def same_text(answer: str, gold: str) -> bool:
    """Equal after normalisation; where that leaves nothing of either side, equal as written, ignoring case.

    Normalisation empties "The", "A" and "+", and without the second rule they would all be the same
    answer. It also drops the minus sign, as HotpotQA's own script does, so "-1" matches "1" here: use
    the math verifier where numbers are the answer.

    >>> same_text("the Beatles", "Beatles"), same_text("A", "The"), same_text(" a", "A")
    (True, False, True)
    """
    plain_answer, plain_gold = normalise(answer), normalise(gold)
    if plain_answer or plain_gold:
        return plain_answer == plain_gold
    return answer.strip().casefold() == gold.strip().casefold()


def verify_exact(problems: Sequence[Problem], answers: Sequence[str | None]) -> list[Verdict]:
    """Correct when the answer is the same text as any alias of the gold. An empty answer is wrong."""
    return [_verify_one(problem, answer) for problem, answer in zip(problems, answers, strict=True)]


def _verify_one(problem: Problem, answer: str | None) -> Verdict:
    if not any(gold.strip() for gold in problem.gold):
        return Verdict("unscorable", "the problem has no gold")
    if answer is None or not answer.strip():
        return NO_ANSWER
    forms = {answer, stated(without_markup(answer))}
    return CORRECT if any(same_text(form, gold) for form in forms for gold in problem.gold) else WRONG
