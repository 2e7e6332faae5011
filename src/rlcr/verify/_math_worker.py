"""The process in which sympy runs: a comparison in, its outcome and the reason out.

Run as ``python -m rlcr.verify._math_worker`` by :mod:`rlcr.verify._math_pool`, under the limits of
:mod:`rlcr.verify._process`. Nothing that happens here can hurt the parent.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import sympy
from math_verify import LatexExtractionConfig, parse, verify

from rlcr.verify._formula import formula, formulas
from rlcr.verify._process import serve

MEMORY_BYTES = 2 * 1024**3
#: Numbers of more digits than this are not evaluated.
MAX_DIGITS = 10_000

_FORMULA = (LatexExtractionConfig(),)

Reply = tuple[str, str]


def compare(golds: Iterable[str], answer: str) -> Reply:
    """Outcome and reason for an answer against the aliases of a gold, both sides read as formulas."""
    read_golds = [read for gold in golds if (read := _read_gold(gold)) is not None]
    if not read_golds:
        return "unscorable", "gold does not parse"
    read_answers = [read for text in formulas(answer) if (read := _read(text)) is not None]
    if not read_answers:
        return "wrong", "answer does not parse"
    # Equal as trees needs no evaluation, and is the only way for two numbers too large to evaluate.
    if any(gold == answer for gold in read_golds for answer in read_answers):
        return "correct", ""
    small_answers = [answer for answer in read_answers if digits(answer) <= MAX_DIGITS]
    small_golds = [gold for gold in read_golds if digits(gold) <= MAX_DIGITS]
    if not small_answers:
        return "wrong", "answer is too large to evaluate"
    if any(_equal(gold, answer) for gold in small_golds for answer in small_answers):
        return "correct", ""
    return ("wrong", "") if small_golds else ("unscorable", "gold is too large to evaluate")


def compare_as_authors(golds: Iterable[str], answer: str) -> Reply:
    """The authors' call: the gold is left a string, so only strings can be equal to it."""
    read = parse(answer, parsing_timeout=None)  # pyright: ignore[reportArgumentType]
    correct = any(verify(gold, read, timeout_seconds=None) for gold in golds)
    return ("correct", "") if correct else ("wrong", "")


def digits(tree: sympy.Basic) -> float:
    """A cheap upper bound of the number of digits that evaluating the formula would need.

    A symbol counts as one digit, so that ``x^{10^9}``, which no simplification survives, is large too.
    ``2^{2^n}`` is not: with a symbol in the exponent there is nothing to evaluate.
    """
    arguments = [digits(argument) for argument in getattr(tree, "args", ())]
    try:
        match tree:
            case sympy.Rational():
                return math.log10(max(abs(int(tree.p)), int(tree.q), 1))
            case sympy.Float():
                return abs(float(sympy.log(abs(tree), 10))) if tree else 0.0
            case sympy.Pow() if not tree.exp.free_symbols:
                return max(*arguments, arguments[0] * 10 ** arguments[1])
            case sympy.factorial():
                return math.lgamma(10 ** arguments[0] + 1) / math.log(10)
            case sympy.Add() | sympy.Mul():
                return sum(arguments)
    except OverflowError:
        return math.inf
    return max(arguments, default=1.0)


def _read(latex: str) -> sympy.Basic | None:
    # Both of math-verify's time limits are off: they are signals, and the parent's limit covers all.
    read = parse(f"${latex}$", _FORMULA, "no_fallback", parsing_timeout=None)  # pyright: ignore[reportArgumentType]
    return read[0] if read else None  # pyright: ignore[reportReturnType]


@lru_cache(maxsize=4096)
def _read_gold(gold: str) -> sympy.Basic | None:
    """A gold is read whole where that is possible, else by the rules for answers."""
    return next(
        (read for text in (formula(gold), *formulas(gold)) if (read := _read(text)) is not None), None
    )


def _equal(gold: sympy.Basic, answer: sympy.Basic) -> bool:
    return verify(gold, answer, timeout_seconds=None)


def answer(job: dict[str, Any]) -> Reply:
    """The reply to one job of :mod:`rlcr.verify._math_pool`."""
    kind = compare_as_authors if job["paper"] else compare
    try:
        return kind(job["golds"], job["answer"])
    except RecursionError:  # a thousand minus signs, say: nesting without brackets
        return "wrong", "answer is nested too deeply"
    except MemoryError:
        return "unscorable", "verifier ran out of memory"


if __name__ == "__main__":
    # math-verify warns, once for each worker, that its own time limits are off.
    logging.disable(logging.CRITICAL)
    serve(answer, memory=MEMORY_BYTES)
