"""Mathematical equality through math-verify, with both sides parsed.

Different from the authors' grading, which never parses the gold, so that 0.5 and 1/2 differ; theirs is
:mod:`rlcr.verify.paper`. Rules, first that applies, for each alias of the gold:

- An answer that is the gold, character for character, is correct; ``9m^2`` is ``9 m^2``.
- Two plain integers are compared as integers.
- A gold that is text (``\\text{east}``) is compared as text, as in :func:`rlcr.verify.exact.same_text`.
- An answer of more than 2,000 characters, or with brackets nested more than 10 deep, is wrong; so is one
  that is too large to evaluate (``9^{9^9}``, ``100000000!``, ``(x+1)^{9999}``, a sine of a sine of a sine…:
  the bounds are in :mod:`rlcr.verify._math_worker`) unless the gold is that same expression. Were they
  unscorable, a policy could write them to escape its penalty.
- Where gold and answer both name a unit (:mod:`rlcr.verify._units`), it must be the same: 5 cm is not 5 m.
  Units are not converted, and one may be missing. "not 5" and "less than 5" are not 5.
- Otherwise both are read as formulas (:mod:`rlcr.verify._formula`) and compared by math-verify: numbers to
  6 decimals where one side is a float, ``x = 5`` equals ``5``, ``x \\le 3`` equals ``(-\\infty, 3]``.
- A percentage is its value: ``700%`` equals 7 and not 700. Only where the gold is written as one (``50%``)
  may the sign be missing: 50 is then as good as 0.5 and ``50%``. And where the last sentence of the question
  asks for a percentage, a bare gold is one: "By what percent …?" with gold 10 accepts ``10%``. So it is with
  millions, dozens and the like: "How many millions …?" with gold 5 accepts "5 million".
- An answer that does not parse is wrong. A gold that does not parse is unscorable.
- An answer on which the comparison does not end in time, takes all memory or crashes is wrong, if the gold
  compares with itself and with a number; else that is unscorable. So it is when the processes that compare
  are killed from outside, and those that replace them too.

The comparison runs in another process (:mod:`rlcr.verify._math_pool`), which importing this does not start.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rlcr.problem import Problem
from rlcr.verify._formula import as_text, denies, depth, unit_of, without_markup
from rlcr.verify._math_pool import Job, settle
from rlcr.verify._plain import stated
from rlcr.verify._units import same_unit
from rlcr.verify.exact import same_text
from rlcr.verify.verdict import CORRECT, NO_ANSWER, WRONG, Verdict

#: Seconds of computing for one comparison.
TIME_LIMIT = 5.0
MAX_CHARACTERS = 2_000
MAX_DEPTH = 10

# int() refuses more than 4,300 digits; more than these are never needed.
_INTEGER = re.compile(r"-?[0-9]{1,400}")
_PLAIN_NUMBER = re.compile(r"\s*-?[0-9]+(?:\.[0-9]+)?\s*")
#: What a bare gold may be counted in, if the question asks for it and the answer says it.
_COUNTED = {
    "%": re.compile(r"\bper ?cent|%", re.IGNORECASE),
    **{
        name: re.compile(rf"\b{name}s?\b", re.IGNORECASE)
        for name in ("hundred", "thousand", "million", "billion", "trillion", "dozen")
    },
}
_SPACE_BEHIND_NUMBER = re.compile(r"(?<=\d)\s+(?=[A-Za-z])")
_SENTENCE_END = re.compile(r"(?<=[.?!])\s+")


def verify_math(
    problems: Sequence[Problem], answers: Sequence[str | None], *, time_limit: float = TIME_LIMIT
) -> list[Verdict]:
    """Correct when the answer equals any alias of the gold."""
    pairs = zip(problems, answers, strict=True)
    return settle([first_look(_golds(problem, answer), answer) for problem, answer in pairs], time_limit)


def _golds(problem: Problem, answer: str | None) -> Sequence[str]:
    """The golds, bare numbers also as the percentages or millions that they are where those are asked for."""
    if not answer or not (counted := [name for name, said in _COUNTED.items() if said.search(answer)]):
        return problem.gold
    asked = _SENTENCE_END.split(problem.question.strip())[-1]
    names = [name for name in counted if _COUNTED[name].search(asked)]
    plain = [gold for gold in problem.gold if _PLAIN_NUMBER.fullmatch(gold)]
    return [*problem.gold, *(f"{gold} {name}" for gold in plain for name in names)]


def _unspaced(text: str) -> str:
    return _SPACE_BEHIND_NUMBER.sub("", text)


def first_look(golds: Sequence[str], answer: str | None) -> Verdict | Job:
    r"""The verdict where it takes no sympy, else the job for a worker.

    >>> first_look(["12"], "13").outcome, first_look([r"\text{east}"], "East").outcome
    ('wrong', 'correct')
    >>> first_look(["1/2"], "0.5")
    Job(golds=('1/2',), answer='0.5', paper=False)
    """
    golds = [stripped for gold in golds if (stripped := gold.strip())]
    answer = (answer or "").strip()
    if not golds:
        return Verdict("unscorable", "the problem has no gold")
    if not answer:
        return NO_ANSWER
    if answer in golds or _unspaced(answer) in map(_unspaced, golds):
        return CORRECT
    if len(answer) > MAX_CHARACTERS:
        return Verdict("wrong", f"answer is longer than {MAX_CHARACTERS:,} characters")
    texts = [text for gold in golds if (text := as_text(gold)) is not None]
    plain = without_markup(answer) if texts else ""
    if any(same_text(form, text) for form in {plain, stated(plain)} for text in texts):
        return CORRECT
    unit = unit_of(answer)
    formulas = tuple(
        gold for gold in golds if as_text(gold) is None and (unit is None or same_unit(unit, unit_of(gold)))
    )
    if _INTEGER.fullmatch(answer):
        integers = [int(gold) for gold in formulas if _INTEGER.fullmatch(gold)]
        if int(answer) in integers:
            return CORRECT
        if len(integers) == len(formulas):
            return WRONG
    if not formulas:
        return WRONG
    if denies(answer) and not any(map(denies, golds)):
        return Verdict("wrong", "answer says what it is not")
    if depth(answer) > MAX_DEPTH:
        return Verdict("wrong", f"answer nests brackets more than {MAX_DEPTH} deep")
    return Job(formulas, answer)
