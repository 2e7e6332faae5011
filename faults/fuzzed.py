"""What is fuzzed: for each target, which inputs are made, and what must hold for any of them.

A check raises for what must not be. An :class:`~rlcr.errors.RlcrError` of one line is an answer, too.
"""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any, get_args

from hypothesis import strategies as st

from faults import fuzzed_files
from faults.fuzzing import NUMBERS, ODD, TEXT, Target, many, one_line_errors
from rlcr.metrics import summary
from rlcr.problem import Problem
from rlcr.response import FORMATS, Mode, parse
from rlcr.verify import verify

# --- parser --------------------------------------------------------------------------------------------

_TAGS = [
    "<think>",
    "</think>",
    "<answer>",
    "</answer>",
    "<analysis>",
    "</analysis>",
    "<confidence>",
    "</confidence>",
    "</answer",
    "<think/>",
    "<answer",
    "answer>",
    "<",
    ">",
    "\\boxed{",
    "}",
    "{",
    "####",
    "**",
    "Answer:",
    "confidence:",
]
_TAGS += ["<Answer >", "< answer>", "</ THINK>", "the answer is", "out of 10", "I am 90% sure"]


def _check_parser(drawn: tuple[str, str, Mode, bool], _: Path) -> None:
    text, tag_set, mode, think_open = drawn
    found = parse(text, tag_set, mode=mode, think_open=think_open)
    stated = found.confidence
    assert stated is None or (math.isfinite(stated) and 0 <= stated <= 1), stated
    assert found.answer is None or found.answer in text
    assert found == parse(text, tag_set, mode=mode, think_open=think_open)


# --- verifiers -----------------------------------------------------------------------------------------

_LATEX = [
    r"\frac{",
    r"\sqrt{",
    r"\left(",
    r"\right)",
    r"^{",
    r"_{",
    r"}",
    r"{",
    r"\text{",
    r"\begin{pmatrix}",
    r"\end{pmatrix}",
    r"\\",
    r"&",
    r"\cdot",
    r"\pi",
    r"\infty",
    r"x",
    r"y",
    r"+",
    r"-",
    r"*",
    r"/",
    r"^",
    r"!",
    r"=",
    r"<",
    r"\le",
    r"(",
    r")",
    r"[",
    r"]",
    r",",
    r"\sum_{i=1}^{",
    r"\int",
    r"\log",
    r"\sin",
    r"%",
    r"$",
    r"\boxed{",
    r"°",
    r"cm",
    r"\cup",
    r"\{",
    r"\}",
    r"|",
    r"**",
    r"9^9^9^9",
    r"\overline{3}",
    r"10!!",
    r"\binom{",
    r"lambda",
    r"__import__('os')",
    r"eval(",
    r"import",
]
_WORDS = [
    "the",
    "a",
    "an",
    "Paris",
    "paris.",
    "A",
    "B)",
    "(C)",
    "D:",
    "option",
    "both",
    "not",
    "or",
    "and",
    "Answer:",
]
_FORMULA = many(st.sampled_from([*_LATEX, *NUMBERS, *ODD, *_WORDS]))
_PLAIN = [*_WORDS, *NUMBERS, *ODD, "[", "]", "'", "-"]
_WORDING = many(st.one_of(st.sampled_from(_PLAIN), TEXT))


def _pairs(text: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[str, str]]:
    return st.one_of(st.tuples(text, text), text.map(lambda same: (same, same)))


def _verdicts(verifier: str, gold: str, answer: str, **extra: Any) -> None:
    with one_line_errors():
        problem = Problem("p", "What?", (gold,), verifier, extras=extra)
        for verdict in verify([problem, problem], [answer, None]):
            assert verdict.outcome in ("correct", "wrong", "unscorable")
            assert "\n" not in verdict.reason
            assert not verdict.reason.startswith("the verifier failed"), verdict.reason


def _check_exact(pair: tuple[str, str], _: Path) -> None:
    _verdicts("exact", *pair)


def _check_math(pair: tuple[str, str], _: Path) -> None:
    _verdicts("math", *pair)


_LETTERS = "ABCDEFGHIJ"


def _check_choice(drawn: tuple[list[str], str, int], _: Path) -> None:
    texts, answer, right = drawn
    choices = dict(zip(_LETTERS, texts, strict=False))
    _verdicts("choice", _LETTERS[right % len(_LETTERS)], answer, choices=choices)


_GYM = [
    "basic_arithmetic",
    "number_sorting",
    "spell_backward",
    "simple_equations",
    "countdown",
    "sudoku",
    "tower_of_hanoi",
]


@cache
def _puzzle(name: str) -> Problem:
    from rlcr.tasks import load

    return load("gym", size=1, dataset=name).problems[0]


def _check_gym(drawn: tuple[str, str], _: Path) -> None:
    name, answer = drawn
    with one_line_errors():
        (verdict,) = verify([_puzzle(name)], [answer])
        assert verdict.outcome in ("correct", "wrong", "unscorable")
        assert "\n" not in verdict.reason


# --- metrics -------------------------------------------------------------------------------------------

_CONFIDENCES = st.one_of(
    st.floats(0, 1), st.sampled_from([0, 1, 0.1, 0.3, 0.7, 1e-300, 1 - 1e-16, 5e-324, -0.0, True, None])
)
_BAD_CELLS = [10**400, -1, 2, 1 + 1e-15, [1], {}, b"1", 1j, math.nan, float("inf")]
_ANYTHING = st.one_of(st.floats(), st.integers(), st.none(), st.booleans(), TEXT, st.sampled_from(_BAD_CELLS))
_ROWS = st.lists(st.tuples(st.booleans(), _CONFIDENCES, st.integers(0, 5)), max_size=60)
_ODD_ROWS = st.lists(st.tuples(st.one_of(st.booleans(), _ANYTHING), _ANYTHING, _ANYTHING), max_size=5)


def _check_metrics(drawn: tuple[list[tuple[Any, Any, Any]], bool, int], _: Path) -> None:
    rows, by_question, resamples = drawn
    correct, stated, question = ([row[column] for row in rows] for column in range(3))
    with one_line_errors():
        found = summary(correct, stated, question=question if by_question else None, resamples=resamples)
        json.dumps(found.to_dict(), allow_nan=False)


TARGETS = {
    "parser": Target(
        "the parser, every tag set and mode",
        st.tuples(
            many(st.one_of(st.sampled_from([*_TAGS, *NUMBERS, *ODD]), TEXT)),
            st.sampled_from(list(FORMATS)),
            st.sampled_from(get_args(Mode)),
            st.booleans(),
        ),
        _check_parser,
    ),
    "exact": Target("the exact verifier", _pairs(_WORDING), _check_exact),
    "math": Target("the verifier of mathematics", _pairs(_FORMULA), _check_math, 60.0),
    "choice": Target(
        "the verifier of multiple choice",
        st.tuples(st.lists(_WORDING.map(lambda text: text[:2000]), max_size=6), _WORDING, st.integers(0, 9)),
        _check_choice,
    ),
    "gym": Target(
        "scorers of reasoning-gym, seven of them",
        st.tuples(st.sampled_from(_GYM), st.one_of(_WORDING, _FORMULA)),
        _check_gym,
        60.0,
    ),
    "metrics": Target(
        "metrics, with intervals and without",
        st.tuples(st.one_of(_ROWS, _ODD_ROWS), st.booleans(), st.sampled_from([0, 0, 20])),
        _check_metrics,
    ),
    **fuzzed_files.TARGETS,
}
