"""Which answers to a question are the same answer? By the task's own equality, without the gold.

Each answer has a normal form, and equal forms are the same answer:

    exact, judge, gym   the text after normalisation (:mod:`rlcr.verify.exact`)
    choice              the option that is named, else the text
    math                a number (1/2, 0.5, \\frac12), words, or else the formula as it stands

For all but mathematics that is the whole of it. Formulas of different forms go to the math verifier, in its
own processes and with its time limit; numbers and words never do, since their forms decide. The verifier
reads a gold otherwise than an answer, so that each is taken for the gold once: two answers are the same if
either way says so. One that does not end, or that the verifier cannot make, leaves two answers apart.

Sameness is made transitive by joining groups, whatever the order of the answers. Only a join that would put
two different numbers, words or units into one group is refused (taken for the gold, 50% equals 0.5 and 50; 5
equals 5 cm and 5 m): there the first to be compared are joined.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from rlcr.problem import Problem
from rlcr.verify import verify
from rlcr.verify._formula import as_text, formula, unit_of, without_markup
from rlcr.verify._units import same_unit
from rlcr.verify.choice import option_of
from rlcr.verify.exact import normalise

#: The group of a response without an answer.
NO_GROUP = -1

#: Pairs of formulas that were compared, and whether they are the same.
Memory = dict[tuple[str, str], bool]

_NUMBER = re.compile(r"(-?)(?:(\d{1,400})|(\d{0,400}\.\d{1,400})|(\d{1,400})/(\d{1,400}))")
_FRACTION = re.compile(r"(-?)\\[dt]?frac\s*(?:\{\s*(-?\d{1,400})\s*\}\s*\{\s*(\d{1,400})\s*\}|(\d)(\d))")
# The verifier compares numbers to six decimals.
_CLOSE = Fraction(2, 10**6)


def group_many(
    questions: Iterable[tuple[Problem, Sequence[str | None]]], memory: Memory | None = None
) -> list[list[int]]:
    """For each question a number for each answer, the same for the same answers, by first appearance.

    A response without an answer is in no group: -1. All comparisons share the verifier's processes;
    ``memory`` holds what was compared before and is added to.

    >>> group_many([(Problem("1", "Who?", ("x",), "exact"), ["The Beatles", "abba", None, "beatles!"])])
    [[0, 1, -1, 0]]
    """
    asked = [_Question.of(problem, answers) for problem, answers in questions]
    memory = {} if memory is None else memory
    # All questions together, so that the processes have much to do at once; turned, only what is still apart.
    for turned in (False, True):
        _compare((pair for question in asked for pair, _ in question.undecided(turned)), memory)
        for question in asked:
            question.join(turned, memory)
    return [question.numbers() for question in asked]


def _compare(pairs: Iterable[tuple[str, str]], memory: Memory) -> None:
    new = [pair for pair in dict.fromkeys(pairs) if pair not in memory]
    problems = [Problem("", "", (gold,), "math") for gold, _ in new]
    verdicts = verify(problems, [answer for _, answer in new])
    memory.update((pair, verdict.outcome == "correct") for pair, verdict in zip(new, verdicts, strict=True))


@dataclass(frozen=True)
class _Form:
    """The normal form of an answer. ``number`` where it is one, ``open`` where only the verifier can tell."""

    key: object
    text: str
    number: Fraction | None = None
    open: bool = False
    unit: str | None = None

    def differs(self, other: _Form) -> bool:
        """Whether the two forms are known to be different answers without asking."""
        if not same_unit(self.unit, other.unit):
            return True
        if self.number is not None and other.number is not None:
            return abs(self.number - other.number) > _CLOSE
        return not (self.open or other.open)


@dataclass
class _Question:
    """The answers to one question on their way into groups."""

    answers: Sequence[str | None]
    form_of: Mapping[str, _Form]
    forms: list[_Form]
    open_pairs: list[tuple[int, int]]
    """The places of forms that only the verifier can tell apart."""
    group_of: list[int]
    """The group of each form, at first one of its own."""

    @classmethod
    def of(cls, problem: Problem, answers: Sequence[str | None]) -> _Question:
        texts = dict.fromkeys(answer.strip() for answer in answers if answer and answer.strip())
        form_of = {text: _form(problem, text) for text in texts}
        forms: dict[object, _Form] = {}
        for form in form_of.values():
            # Of several texts always the same one is compared, whichever came first.
            known = forms.setdefault(form.key, form)
            if (len(form.text), form.text) < (len(known.text), known.text):
                forms[form.key] = form
        distinct = list(forms.values())
        return cls(answers, form_of, distinct, _open_pairs(distinct), list(range(len(distinct))))

    def undecided(self, turned: bool) -> Iterator[tuple[tuple[str, str], tuple[int, int]]]:
        """Pairs of texts, gold and answer, to ask the verifier about, with the places of their forms."""
        for first, second in self.open_pairs:
            if self.group_of[first] != self.group_of[second]:
                gold, answer = (second, first) if turned else (first, second)
                yield (self.forms[gold].text, self.forms[answer].text), (first, second)

    def join(self, turned: bool, memory: Memory) -> None:
        """Join the groups of forms that are the same, unless different numbers or words would be joined."""
        for pair, (first, second) in self.undecided(turned):
            if not memory[pair]:
                continue
            here, there = (
                [n for n, group in enumerate(self.group_of) if group == self.group_of[place]]
                for place in (first, second)
            )
            if not any(self.forms[a].differs(self.forms[b]) for a in here for b in there):
                for place in there:
                    self.group_of[place] = self.group_of[first]

    def numbers(self) -> list[int]:
        group_of = {form.key: group for form, group in zip(self.forms, self.group_of, strict=True)}
        renumbered: dict[int, int] = {}
        numbers = []
        for answer in self.answers:
            form = self.form_of.get(answer.strip()) if answer else None
            place = None if form is None else group_of[form.key]
            numbers.append(NO_GROUP if place is None else renumbered.setdefault(place, len(renumbered)))
        return numbers


def _open_pairs(forms: Sequence[_Form]) -> list[tuple[int, int]]:
    """The pairs of forms that :meth:`_Form.differs` does not tell apart, without looking at all of them."""
    pairs = {
        (min(place, other), max(place, other))
        for place, form in enumerate(forms)
        if form.open
        for other in range(len(forms))
        if other != place
    }
    numbers = sorted((form.number, place) for place, form in enumerate(forms) if form.number is not None)
    for at, (number, place) in enumerate(numbers):
        for other_number, other in numbers[at + 1 :]:
            if other_number - number > _CLOSE:
                break
            pairs.add((min(place, other), max(place, other)))
    return sorted(pairs)


def _form(problem: Problem, text: str) -> _Form:
    if problem.verifier == "math":
        return _math_form(text)
    if problem.verifier == "choice" and (letters := option_of(text, problem.extras.get("choices", {}))):
        return _Form(letters, text)
    return _Form(_plain(text), text)


def _plain(text: str) -> str:
    """Texts that normalise to nothing ("The", "+") are compared as they are, as in exact match."""
    return normalise(text) or f" {text.casefold()}"


def _math_form(text: str) -> _Form:
    r"""The form of a mathematical answer.

    >>> _math_form("0.50").key == _math_form(r"$\frac{1}{2}$").key == Fraction(1, 2)
    True
    >>> _math_form("x = 5").open, _math_form(r"\text{east}").key
    (True, 'east')
    """
    words = as_text(without_markup(text))
    if words is not None:
        return _Form(_plain(words), text)
    whole, unit = formula(text), unit_of(text)
    number = _number(whole)
    if unit is not None:  # 5 cm may be 5, and is not 5 m
        return _Form(("measured", whole, unit), text, number, open=number is None, unit=unit)
    return _Form(number, text, number) if number is not None else _Form(("formula", whole), text, open=True)


def _number(text: str) -> Fraction | None:
    if match := _NUMBER.fullmatch(text):
        sign, integer, decimal, above, below = match.groups()
        if below is not None:
            value = Fraction(int(above), int(below)) if int(below) else None
        else:
            value = Fraction(integer or decimal)
    elif match := _FRACTION.fullmatch(text):
        sign, above, below = match[1], match[2] or match[4], match[3] or match[5]
        value = Fraction(int(above), int(below)) if int(below) else None
    else:
        return None
    return -value if sign and value is not None else value
