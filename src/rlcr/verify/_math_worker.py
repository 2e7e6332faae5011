"""The process in which sympy runs: a comparison in, its outcome and the reason out.

Run as ``python -m rlcr.verify._math_worker`` by :mod:`rlcr.verify._math_pool`, under the limits of
:mod:`rlcr.verify._process`. Nothing that happens here can hurt the parent.

Cheap bounds on the formula (:func:`too_large`) predict what would take sympy forever: an answer of that kind
is wrong, not unscorable, so that it is no way to escape a penalty. The bounds are on size, not on difficulty.
What remains ends as a time-out: a small formula on which a method of sympy itself does not end (an integral
without a known value, a limit, an infinite sum), and a sum or product of powers whose exponents grow with the
index. Then :func:`check_gold` finds out whose fault it is.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import sympy
from latex2sympy2_extended.latex2sympy2 import _Latex2Sympy
from math_verify import LatexExtractionConfig, parse, verify
from sympy.core.relational import Relational

from rlcr.verify._formula import formula, formulas, long_words
from rlcr.verify._process import serve

MEMORY_BYTES = 2 * 1024**3
#: Formulas beyond any of these are not evaluated: digits of a number, terms of an expansion, functions in
#: functions.
MAX_DIGITS = 10_000
MAX_TERMS = 200
MAX_NESTING = 4
# A step of a sum of fractions costs less than a term of an expansion; a term of a denominator costs more.
_FRACTIONS_A_TERM = 20
_TERMS_A_DENOMINATOR_TERM = 4
# An integral is as hard as several functions, one in the other.
_INTEGRAL_NESTING = 3

UNREADABLE_GOLD = "gold does not parse"
TOO_LARGE_GOLD = "gold is too large to evaluate"

_FORMULA = (LatexExtractionConfig(),)
# What a percent sign is read as, and what golds are compared with to see how long that takes.
_PERCENT = sympy.UnevaluatedExpr(sympy.Rational(1, 100))
_NUMBER = sympy.Float("98765.4321")
# Numbers that may be read as letters.
_LETTERS = {"i": sympy.I, "e": sympy.E}


Reply = tuple[str, str]


def compare(golds: Iterable[str], answer: str) -> Reply:
    """Outcome and reason for an answer against the aliases of a gold, both sides read as formulas."""
    read_golds = [read for gold in golds if (read := _read_gold(gold)) is not None]
    if not read_golds:
        return "unscorable", UNREADABLE_GOLD
    read_answers = [read for text in formulas(answer) if (read := _read(text)) is not None]
    if not read_answers:
        return "wrong", "answer does not parse"
    # Equal as trees needs no evaluation, and is the only way for what is too large to evaluate.
    if not {_unordered(gold) for gold in read_golds}.isdisjoint(map(_unordered, read_answers)):
        return "correct", ""
    small_answers = [answer for answer in read_answers if not too_large(answer)]
    small_golds = [gold for gold in read_golds if not too_large(gold)]
    if not small_answers:
        return "wrong", "answer is too large to evaluate"
    if any(_equal(gold, answer) for gold in small_golds for answer in small_answers):
        return "correct", ""
    return ("wrong", "") if small_golds else ("unscorable", TOO_LARGE_GOLD)


def check_gold(gold: str) -> Reply:
    """Whether a gold can be compared, as "correct": then an answer that cannot be is itself to blame.

    The gold is compared with itself and, since that takes no evaluation, each part of it with a number.
    """
    read = _read_gold(gold)
    if read is None:
        return "unscorable", UNREADABLE_GOLD
    if too_large(read):
        return "unscorable", TOO_LARGE_GOLD
    if not _equal(read, read):
        return "unscorable", "gold does not equal itself"
    for part in _parts(read):
        simple = isinstance(part, Relational)
        _equal(part, part.func(sympy.Symbol("x"), _NUMBER, evaluate=False) if simple else _NUMBER)
    return "correct", ""


def _parts(tree: Any) -> Iterator[sympy.Basic]:
    """The relations in a formula, and the expressions that those, sets, tuples and matrices are made of."""
    if isinstance(tree, Relational):
        yield tree
    if isinstance(tree, sympy.Expr) and not isinstance(tree, sympy.MatrixBase):
        yield tree
    else:
        for argument in tree if isinstance(tree, sympy.MatrixBase) else _arguments(tree):
            yield from _parts(argument)


def compare_as_authors(golds: Iterable[str], answer: str) -> Reply:
    """The authors' call: the gold is left a string, so only strings can be equal to it."""
    read = parse(answer, parsing_timeout=None)  # pyright: ignore[reportArgumentType]
    correct = any(verify(gold, read, timeout_seconds=None) for gold in golds)
    return ("correct", "") if correct else ("wrong", "")


# --- bounds -----------------------------------------------------------------------------------------


def too_large(tree: sympy.Basic) -> bool:
    """Whether evaluating the formula could take very long, by its size."""
    return digits(tree) > MAX_DIGITS or nesting(tree) > MAX_NESTING or terms(tree) > MAX_TERMS


def digits(tree: sympy.Basic) -> float:
    """A cheap upper bound of the number of digits that evaluating the formula would need.

    A symbol counts as one digit, so that ``x^{10^9}``, which no simplification survives, is large too.
    ``2^{2^n}`` is not: with a symbol in the exponent there is nothing to evaluate.
    """
    arguments = [digits(argument) for argument in _arguments(tree)]
    try:
        match tree:
            case sympy.Rational():
                return math.log10(max(abs(int(tree.p)), int(tree.q), 1))
            case sympy.Float():
                return abs(float(sympy.log(abs(tree), 10))) if tree else 0.0
            case sympy.NumberSymbol():
                return max(0.0, math.log10(float(tree)))
            case sympy.Pow() if not tree.exp.free_symbols:
                return max(*arguments, arguments[0] * 10 ** arguments[1])
            case sympy.exp() if not tree.free_symbols:
                return max(arguments[0], math.log10(math.e) * 10 ** arguments[0])
            case sympy.factorial() | sympy.gamma():
                return math.lgamma(10 ** arguments[0] + 1) / math.log(10)
            case sympy.binomial():
                return max(*arguments, arguments[0] * 10 ** min(arguments))
            case sympy.Add() | sympy.Mul():
                return sum(arguments)
    except OverflowError:
        return math.inf
    return max(arguments, default=1.0)


def terms(tree: sympy.Basic) -> float:
    """A cheap upper bound of the number of terms that expanding the formula would give, 0 for a number.

    The steps of a sum or product count too, unless sympy has a closed form. A denominator that by itself is
    too large for its place has infinitely many.
    """
    arguments = [terms(argument) for argument in _arguments(tree)]
    try:
        match tree:
            case sympy.Rational() | sympy.Float():
                return 0
            case sympy.Add():
                return sum(arguments) + (0 in arguments and any(arguments))
            case sympy.Mul() if any(arguments):
                return math.prod(max(argument, 1) for argument in arguments)
            case sympy.Pow() if arguments[0] > 1 and not tree.exp.free_symbols:
                count = max(arguments[1], _multinomial(arguments[0], 10 ** digits(tree.exp)))
                below = tree.exp.could_extract_minus_sign()
                return math.inf if below and count * _TERMS_A_DENOMINATOR_TERM > MAX_TERMS else count
            case sympy.Pow() if not isinstance(tree.exp, sympy.Integer):
                return max(1, *arguments)
            case sympy.Sum() if _summand(tree).is_polynomial(*tree.variables):
                return max(arguments)
            case sympy.Sum() | sympy.Product():
                fractions = _summand(tree).is_rational_function(*tree.variables)
                return max(*arguments, _steps(tree) / (_FRACTIONS_A_TERM if fractions else 1))
    except OverflowError:
        return math.inf
    return max(arguments, default=1)


def nesting(tree: sympy.Basic) -> int:
    """How deeply functions, and powers with a symbol in the exponent, are nested in each other."""
    inner = max(map(nesting, _arguments(tree)), default=0)
    if isinstance(tree, sympy.Integral):
        return inner + _INTEGRAL_NESTING
    power = isinstance(tree, sympy.Pow) and bool(tree.exp.free_symbols)
    return inner + (power or isinstance(tree, sympy.Function))


def _arguments(tree: sympy.Basic) -> tuple[sympy.Basic, ...]:
    return getattr(tree, "args", ())


def _summand(tree: sympy.Sum | sympy.Product) -> Any:
    return tree.function


def _multinomial(summands: float, power: float) -> float:
    """The number of terms of a power of a sum."""
    return math.exp(math.lgamma(power + summands) - math.lgamma(power + 1) - math.lgamma(summands))


def _steps(tree: sympy.Basic) -> float:
    """How many steps all sums and products within take; a range without end, or with a symbol, takes none."""
    ranges = [limit[1:] for loop in tree.atoms(sympy.Sum, sympy.Product) for limit in loop.limits]
    finite = [ends for ends in ranges if not any(end.free_symbols or end.is_infinite for end in ends)]
    return math.prod(sum(10 ** digits(end) for end in ends) for ends in finite)


def _unordered(tree: sympy.Basic) -> Any:
    """The formula regardless of the order of summands and factors."""
    if isinstance(tree, sympy.Add | sympy.Mul):
        return tree.func, frozenset(Counter(map(_unordered, tree.args)).items())
    if isinstance(tree, sympy.MatrixBase):
        return sympy.ImmutableMatrix(tree)
    return (tree.func, *map(_unordered, tree.args)) if _arguments(tree) else tree


# --- what is evaluated while it is read -------------------------------------------------------------


def _leave_large_ones(function: Any) -> None:
    """Have sympy leave this function as it stands where its value would be too large."""
    evaluate = function.eval

    def evaluate_small(_: Any, *arguments: Any) -> Any:
        whole = function(*arguments, evaluate=False)
        return None if digits(whole) > MAX_DIGITS else evaluate(*arguments)

    function.eval = classmethod(evaluate_small)


def _leave_large_divisors() -> None:
    """The same for gcd and lcm, which the reader of LaTeX works out itself."""
    work_out = _Latex2Sympy.handle_gcd_lcm

    def work_out_small(self: Any, f: str, args: Any) -> Any:
        large = max(map(digits, args), default=0) > MAX_DIGITS
        return sympy.Function(f)(*args) if large else work_out(self, f, args)

    _Latex2Sympy.handle_gcd_lcm = work_out_small


_leave_large_ones(sympy.binomial)
_leave_large_ones(sympy.gamma)
_leave_large_divisors()


# --- reading ----------------------------------------------------------------------------------------


def _read(latex: str) -> sympy.Basic | None:
    # Both of math-verify's time limits are off: they are signals, and the parent's limit covers all.
    read = parse(f"${latex}$", _FORMULA, "no_fallback", parsing_timeout=None)  # pyright: ignore[reportArgumentType]
    return read[0] if read else None  # pyright: ignore[reportReturnType]


@lru_cache(maxsize=4096)
def _read_gold(gold: str) -> sympy.Basic | None:
    """A gold is read whole where that is possible, else as an answer; with words, as an answer first."""
    texts = [formula(gold), *formulas(gold)]
    return next(
        (
            read
            for text in (reversed(texts) if long_words(gold) else texts)
            if (read := _read(text)) is not None
        ),
        None,
    )


def _equal(gold: sympy.Basic, answer: sympy.Basic) -> bool:
    """By math-verify, except for percentages: to it 700% is 7 and, without the sign, 700.

    A gold that is written as a percentage may be answered without the sign.
    """
    if not gold.has(_PERCENT):
        return _same(gold, _with_percent(answer, 100))
    golds = [_with_percent(gold, 100), *([] if answer.has(_PERCENT) else [_with_percent(gold, 1)])]
    return any(_same(gold, _with_percent(answer, 100)) for gold in golds)


def _with_percent(tree: sympy.Basic, divisor: int) -> sympy.Basic:
    """The formula with every percent sign as a division by ``divisor``."""
    return tree.xreplace({_PERCENT: sympy.Rational(1, divisor)}) if tree.has(_PERCENT) else tree


def _same(gold: sympy.Basic, answer: sympy.Basic) -> bool:
    gold, answer = (one.doit() if isinstance(one, sympy.Intersection) else one for one in (gold, answer))
    return (
        verify(gold, answer, timeout_seconds=None)
        or _same_interval(gold, answer)
        or _same_complex(gold, answer)
    )


def _same_interval(gold: sympy.Basic, answer: sympy.Basic) -> bool:
    """A condition on one unknown, and the interval of its solutions."""
    sets = [one for one in (gold, answer) if isinstance(one, sympy.Interval | sympy.Union)]
    conditions = [condition for one in (gold, answer) for condition in _conditions(one)]
    if not sets or not conditions or len(conditions[0].free_symbols) != 1:
        return False
    try:
        return any(condition.as_set() == sets[0] for condition in conditions)
    except (NotImplementedError, TypeError, ValueError, AttributeError):
        return False


def _conditions(tree: Any) -> list[Any]:
    """The condition that a formula is; of several behind commas, that all hold and that one does."""
    if isinstance(tree, Relational | sympy.And | sympy.Or):
        return [tree]
    several = tree.args if isinstance(tree, sympy.FiniteSet | sympy.Tuple) else ()
    conditions = [one for one in several if isinstance(one, Relational)]
    if not conditions or len(conditions) < len(several):
        return []
    return [sympy.And(*conditions), sympy.Or(*conditions)]


def _same_complex(gold: sympy.Basic, answer: sympy.Basic) -> bool:
    """Numbers of which one is written with i, which is read as a letter in an exponent."""
    if not all(isinstance(one, sympy.Expr) for one in (gold, answer)):
        return False
    letters = [
        {symbol: _LETTERS[str(symbol)] for symbol in one.free_symbols if str(symbol) in _LETTERS}
        for one in (gold, answer)
    ]
    values = [one.xreplace(letter) for one, letter in zip((gold, answer), letters, strict=True)]
    if not any(letters) or any(one.free_symbols for one in values):
        return False
    try:
        return abs(complex(sympy.N(values[0])) - complex(sympy.N(values[1]))) < 1e-9
    except (TypeError, ValueError, OverflowError, AttributeError):
        return False


def answer(job: dict[str, Any]) -> Reply:
    """The reply to one job of :mod:`rlcr.verify._math_pool`.

    Without memory the process ends, and the next job gets a new one: much of it may still be taken.
    """
    if "check" in job:
        return check_gold(job["check"])
    kind = compare_as_authors if job["paper"] else compare
    try:
        return kind(job["golds"], job["answer"])
    except RecursionError:  # a thousand minus signs, say: nesting without brackets
        return "wrong", "answer is nested too deeply"


def fault() -> str | None:
    """The self-test: one equal pair and one that is not."""
    for given, expected in (("0.5", "correct"), ("0.6", "wrong")):
        outcome, reason = answer({"golds": [r"\frac{1}{2}"], "answer": given, "paper": False})
        if outcome != expected:
            verdict = f"{outcome}, {reason}" if reason else outcome
            return (
                f"{given} against 1/2 should be {expected} and is {verdict}; math-verify does not work here"
                " (too little memory, see `ulimit -v`, or packages that do not fit together)"
            )
    return None


if __name__ == "__main__":
    # math-verify warns, once for each worker, that its own time limits are off.
    logging.disable(logging.CRITICAL)
    serve(answer, memory=MEMORY_BYTES, fault=fault)
