"""Multiple choice: which option does an answer name?

Options come from ``problem.extras["choices"]`` (``{"A": "bank", …}``); without them, the gold's own letter
and text are all that is known. A gold is a letter ("A"), the text of an option ("bank"), or both, as in the
authors' "Option A which is : bank". An answer may be any of these, boxed, in bold, after "The answer is" or
"Option", or a sentence that chooses one option by its letter, as in "It must be B) library."

- A letter alone may be small. Before text it must be marked ("A) bank", "A. bank", "(a) bank"), since
  "a bank" is text. ("A - bank" and "A (bank)" are marked, too.)
- Texts are compared as in :func:`rlcr.verify.exact.same_text`.
- Letter and text together: the letter decides, unless the text is that of another option. Such a
  contradiction ("A) library" where A is bank) is wrong.
- A text that is word for word that of an option names this one, even where it is the same as another's but
  for an article ("ground" and "the ground" do occur in one question).
- Options with word for word the same text are the same option.
- A text against a gold that is a letter, or a letter against one that is a text, is unscorable where the
  options are not known.
- More than one option ("A and B", "A) bank, C) mall") is wrong, and so is an answer that names none or only
  denies one ("not (B)"). "(A) is incorrect, so the answer is B" chooses B: :mod:`rlcr.verify._mentions`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rlcr.problem import Problem
from rlcr.verify._formula import without_markup
from rlcr.verify._mentions import chosen
from rlcr.verify.exact import same_text
from rlcr.verify.verdict import CORRECT, NO_ANSWER, WRONG, Verdict

_EDGES = " \t\r\n*_`\"'“”‘’.,;:!"
_LEAD_IN = re.compile(
    r"(?:(?:so |the |my |final |correct |best |right )*(?:answer|option|choice)\b(?: is\b)?[\s:*]*)+",
    re.IGNORECASE,
)
_UNKNOWN = "a {} against the bare {} of an unknown option: give the choices"
_LETTER = re.compile(r"[(\[]?([A-Za-z])[)\]]?")
#: A marked letter, then text. A small letter needs a bracket, since "i.e. …" is no option.
_LETTER_THEN_TEXT = re.compile(
    r"(?:\(?([A-Za-z])\s*\)|([A-Z])(?:\s*[.:]|\s+[-–—](?=\s)|\s+(?=\()|\s+(?=which is\b)))"
    r"\s*(?:which is\s*:?\s*)?(.+)",
    re.DOTALL,
)


class Named(NamedTuple):
    """What a text names: an option by letter, by text, or by both."""

    letter: str | None
    text: str | None


def verify_choice(problems: Sequence[Problem], answers: Sequence[str | None]) -> list[Verdict]:
    """Correct when the answer names the gold's option and no other."""
    return [_verify_one(problem, answer) for problem, answer in zip(problems, answers, strict=True)]


def read(text: str) -> Named:
    """Take a text apart into letter and option text.

    >>> read("The answer is **B**."), read("Option A which is : bank")
    (Named(letter='B', text=None), Named(letter='A', text='bank'))
    >>> read("a bank")
    Named(letter=None, text='a bank')
    """
    text = without_markup(text).strip(_EDGES)
    stripped = text[lead_in.end() :].strip(_EDGES) if (lead_in := _LEAD_IN.match(text)) else text
    if letter := _LETTER.fullmatch(stripped):
        return Named(letter[1].upper(), None)
    if both := _LETTER_THEN_TEXT.fullmatch(stripped):
        return Named((both[1] or both[2]).upper(), both[3].strip(_EDGES))
    return Named(None, stripped or text)


def _verify_one(problem: Problem, answer: str | None) -> Verdict:
    golds = [read(gold) for gold in problem.gold if gold.strip()]
    if not golds:
        return Verdict("unscorable", "the problem has no gold")
    choices = {str(key).upper(): str(text) for key, text in problem.extras.get("choices", {}).items()}
    if choices and not any(_letters(gold, choices) & choices.keys() for gold in golds):
        return Verdict("unscorable", "the gold names none of the choices")
    known = bool(choices)
    choices = choices or {gold.letter: gold.text for gold in golds if gold.letter and gold.text}
    if answer is None or not answer.strip():
        return NO_ANSWER
    if answer.strip() in map(str.strip, problem.gold):
        return CORRECT
    return _compare(answer, golds, choices, known)


def _compare(answer: str, golds: Sequence[Named], choices: Mapping[str, str], known: bool) -> Verdict:
    named, fault = _settled(answer, choices, known)
    if fault:
        return Verdict("wrong", fault)
    letters = _letters(named, choices)
    for gold in golds:
        gold_letters = _letters(gold, choices)
        if letters & gold_letters:
            return CORRECT
        # Where the options are not known, a gold may be a text and nothing else.
        if not gold_letters and named.text and gold.text and same_text(named.text, gold.text):
            return CORRECT
    if letters:
        known_letters = any(gold.letter for gold in golds) or bool(choices)
        return WRONG if known_letters else Verdict("unscorable", _UNKNOWN.format("letter", "text"))
    if not choices and named.text and not any(gold.text for gold in golds):
        return Verdict("unscorable", _UNKNOWN.format("text", "letter"))
    return Verdict("wrong", "names no option")


def option_of(answer: str, choices: Mapping[str, str]) -> frozenset[str]:
    """The option that an answer names, by its letters; empty where it names none or more than one.

    >>> sorted(option_of("It must be B) library.", {"A": "bank", "B": "library"}))
    ['B']
    """
    choices = {str(key).upper(): str(text) for key, text in choices.items()}
    named, fault = _settled(answer, choices, bool(choices))
    return frozenset() if fault else frozenset(_letters(named, choices))


def _settled(answer: str, choices: Mapping[str, str], known: bool) -> tuple[Named, str]:
    """What an answer names, and why it is no one option, if so; ``known``: these are all the choices."""
    named = read(answer)
    # Options such as "A - minus" or "E. coli" look like a letter and a text.
    if _with_very_text(whole := without_markup(answer).strip(_EDGES), choices) and len(whole) > 1:
        named = Named(None, whole)
    by_text = _with_text(named.text, choices)
    if named.letter and by_text and named.letter not in by_text:
        return named, "letter and text disagree"
    if by_text or (named.letter and not named.text):
        return named, ""
    letters = chosen(without_markup(answer), choices, only_these=known)
    if letters is None:
        return named, ""
    if len(letters) != 1:
        return named, "names more than one option" if letters else "names an option only to deny it"
    return Named(letters.pop(), named.text), ""


def _letters(named: Named, choices: Mapping[str, str]) -> set[str]:
    """The option named. Several letters only where the question gives several options the same text."""
    if named.letter:
        return {named.letter} | _with_very_text(choices.get(named.letter), choices)
    return _with_very_text(named.text, choices) or _with_text(named.text, choices)


def _with_text(text: str | None, choices: Mapping[str, str]) -> set[str]:
    return {letter for letter, choice in choices.items() if text and same_text(text, choice)}


def _with_very_text(text: str | None, choices: Mapping[str, str]) -> set[str]:
    return {letter for letter, choice in choices.items() if text and text.strip() == choice.strip()}
