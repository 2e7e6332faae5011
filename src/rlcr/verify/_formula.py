"""From the text of an answer to the formulas it may stand for. Pure text, no sympy.

math-verify reads one formula, delimited by ``$``. Golds in the usual datasets are bare LaTeX,
and models write anything from ``\\frac{1}{2}`` to "The area is 3 * sqrt(2) square feet." Left to find the
formula itself, math-verify takes the last number it sees: 2 from ``(a+5)(b+2)``, 0 from ``(-∞, 0]``, 12
from "12π inches". So the text is made into a formula here, by these rules:

1. The last ``\\boxed{…}`` is the answer, if there is one. Bold, code and answer tags are not part of it.
2. Math delimiters (``$``, ``\\(``, ``\\[``), which include the dollar sign of a price, are dropped; so are
   the signs of other currencies, "=" or "≈" at the beginning, and words in brackets: "17 (seventeen)".
3. Plain notation becomes LaTeX: ``√2``, ``sqrt(2)``, ``pi``, ``∞``, ``**``, ``<=``, ``50%``, ``1.5e3``,
   ``137 1/2``, ``∅``, ``x⁴``, ``¾``. ``1 000`` alone is a thousand, and ``0.\\overline{3}`` and "0.333..." a
   third; "negative 3", "5 squared", "5 million", "5 percent" are what they say, and so is "three" alone.
   "and" and "or" become commas, so that "3 or 5" is a set and not a lucky guess, and "x < 2 or x > 5" a union
   of intervals.
4. A full stop at the end is dropped, and so is the unit there (:mod:`rlcr.verify._units`).
5. If there are words, the last stretch without words that holds a digit, an operator or a LaTeX command
   is the formula: 12π in "The area is 12π inches." Words of two letters may also be products ("2 ab"), so
   with no longer word than that the text as a whole is tried as well.
"""

from __future__ import annotations

import re
import unicodedata

from rlcr.verify._plain import boxed, stated, unmarked
from rlcr.verify._units import DELIMITER, TEXT_COMMAND, split_unit

_FRACTIONS = "¼½¾⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"
_SYMBOLS = str.maketrans(
    {
        "π": r"\pi ",
        "∞": r"\infty ",
        "−": "-",
        "–": "-",
        "×": r"\times ",
        "·": r"\cdot ",
        "÷": "/",
        "±": r"\pm ",
        "≤": r"\le ",
        "≥": r"\ge ",
        "≠": r"\ne ",
        "∪": r"\cup ",
        "∩": r"\cap ",
        "∈": r"\in ",
        "°": r"^\circ ",
        "∅": r"\emptyset ",
        "ℝ": r"\mathbb{R}",
        "⟨": r"\langle ",
        "⟩": r"\rangle ",
        **{
            sign: re.sub(r"(.+)⁄(.+)", r"\\frac{\1}{\2}", unicodedata.normalize("NFKC", sign))
            for sign in _FRACTIONS
        },
    }
)
_RAISED = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+")
_LOWERED = re.compile("[₀₁₂₃₄₅₆₇₈₉]+")

_REPEATING = re.compile(r"(\d*)\.(\d*)\\(?:overline|bar|dot)\s*\{?(\d+)\}?")
# One digit thrice; more of them twice behind the point, and thrice behind others: e is 2.718281828...
_GOING_ON = re.compile(
    r"(\d*)\.(\d{0,9}?)(?:(\d)\3{2,}|(?<=\.)(\d{2,9}?)\4+|(\d{2,9}?)\5{2,})(?:\.\.\.|…|\\[lc]?dots)"
)
_THOUSANDS = re.compile(r"([-+]?\d{1,3})((?:(?:\s|\\,|\\ |\{,\})\d{3})+)(\.\d+)?")
_NAME = r"(?<![\\A-Za-z])"  # the start of a name that is not a LaTeX command already
_NUMBER_NEXT = r"(?=[\d.\\(√])"
_AFTER_NUMBER = r"(?<=[\d)}])\s*"
_ROOT = r"(?:the\s+)?(?:positive\s+|principal\s+)?{}\s+root\s+of\s+"
_SCALES = {"hundred": "10^{2}", "dozen": "12", "thousand": "10^{3}", "million": "10^{6}", "billion": "10^{9}",
           "trillion": "10^{12}"}  # fmt: skip
# Left as words, these would be no part of the formula: "negative 3" would be 3.
_SPOKEN: list[tuple[re.Pattern[str], str]] = [
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        (rf"\b(?:minus|negative)\s+{_NUMBER_NEXT}", "-"),
        (rf"{_AFTER_NUMBER}\bplus\s+{_NUMBER_NEXT}", "+"),
        (rf"{_AFTER_NUMBER}\b(?:times|multiplied\s+by)\s+{_NUMBER_NEXT}", r"\\times "),
        (rf"{_AFTER_NUMBER}\b(?:over|divided\s+by)\s+{_NUMBER_NEXT}", "/"),
        (rf"{_AFTER_NUMBER}\bsquared\b", "^2"),
        (rf"{_AFTER_NUMBER}\bcubed\b", "^3"),
        (rf"\b{_ROOT.format('square')}(\d+(?:\.\d+)?|[A-Za-z]\b)", r"\\sqrt{\1}"),
        (rf"\b{_ROOT.format('cube')}(\d+(?:\.\d+)?|[A-Za-z]\b)", r"\\sqrt[3]{\1}"),
        (rf"\b{_ROOT.format('square')}(?=[\\(])", r"\\sqrt"),
        (rf"{_AFTER_NUMBER}(?:percent|per\s?cent)\b", r"\\%"),
        (r"(?<=\d)\s+x\s+(?=\d)|(?<=\d)\s*x\s*(?=10\s*(?:\^|\*\*))", r"\\times "),
        (r"\A\W*(?:the\s+set\s+of\s+)?all\s+real(?:s|\s+numbers?)\W*\Z", r"\\mathbb{R}"),
        *((rf"{_AFTER_NUMBER}{name}s?\b", rf"\\times {value}") for name, value in _SCALES.items()),
    )
]
_REWRITES: list[tuple[re.Pattern[str], str]] = [
    (DELIMITER, " "),
    (re.compile(r"[€£¥₹]"), " "),
    *_SPOKEN,
    (re.compile(r"\A\s*[=≈~]"), ""),
    (re.compile(r"(?<=[\d})])\s+\([A-Za-z][A-Za-z-]{2,}(?:[ ,-]+[A-Za-z-]+)*\)"), " "),
    (re.compile(r"\\(?:text(?:bf|it|rm)?|math(?:bf|it|rm)|boldsymbol)\s*\{\s*([-+]?[\d.,/]+)\s*\}"), r"\1"),
    (re.compile(r"\\text\s*\{\s*(and|or)\s*\}"), r" \1 "),
    (re.compile(r"\\(?:text|math(?:rm|it))\s*\{([ie])\}"), r"\1"),
    (re.compile(r"(?:\\left\s*)?\\langle"), "("),
    (re.compile(r"(?:\\right\s*)?\\rangle"), ")"),
    # A time of the day; were it a ratio, 9:00 would be 8:00, both divided by nothing.
    (re.compile(r"(?<![\d:])(\d{1,2}):(0\d)(?![\d:])"), r"(\1,\2)"),
    (re.compile(rf"{_NAME}sqrt\s+(\d+(?:\.\d+)?)"), r"\\sqrt{\1}"),
    (re.compile(rf"{_NAME}(sin|cos|tan|cot|sec|csc|log|ln)\s+(?=[\d\\])"), r"\\\1 "),
    (re.compile(r"√\s*(\d+(?:\.\d+)?|[A-Za-z])"), r"\\sqrt{\1}"),
    (re.compile(r"√"), r"\\sqrt"),
    (re.compile(rf"{_NAME}(sqrt|sin|cos|tan|cot|sec|csc|arcsin|arccos|arctan|log|ln|exp)\s*\("), r"\\\1("),
    (re.compile(r"\\sqrt\s*\(([^()]*)\)"), r"\\sqrt{\1}"),
    (re.compile(rf"{_NAME}pi(?![A-Za-z])"), r"\\pi "),
    (re.compile(rf"{_NAME}(?:infinity|inf|oo)(?![A-Za-z])"), r"\\infty "),
    (re.compile(r"\\varnothing(?![A-Za-z])"), r"\\emptyset"),
    (re.compile(r"\*\*"), "^"),
    (re.compile(r"<="), r"\\le "),
    (re.compile(r">="), r"\\ge "),
    (re.compile(r"(?<!\\)%"), r"\\%"),
    (re.compile(r"(?<=\d)[eE]([+-]?\d+)(?![\d.])"), r"\\times 10^{\1}"),
    (re.compile(r"(?<![\d.,/^])(\d+)\s+(\d+)/(\d+)(?![\d.])"), r"\1\\frac{\2}{\3}"),
]
_JOINED = re.compile(r",?\s+(and|or)\s+")
_CONDITION = re.compile(r"([A-Za-z])\s*(<|>|\\[lg]eq?(?![A-Za-z]))\s*([^<>=,]+)")

_BARE_WORDS = re.compile(r"[A-Za-z]{4,}(?:[ -][A-Za-z]+)*")
# A word stands alone; "cm^2" is one, too.
_WORD = re.compile(r"(?<!\S)([A-Za-z][A-Za-z'’-]+)(?:\^\{?[23]\}?)?(?=[\s.,:;!?)]|$)")
_UNIT = re.compile(TEXT_COMMAND.pattern + r"(?:\^\{?[23]\}?)?")
_MEASURE = re.compile(
    r"(?<=[\d})])\s*[A-Za-zµ]{1,5}/(?:s|h|hr|min|day|[A-Za-zµ]?[glms])(?:\^?\{?[23]\}?)?(?=[\s.]*\Z)"
)
# Read as products of letters, "no" would be "on".
_SHORT_WORDS = {"yes", "no", "on", "off", "odd", "all", "any", "red"}
_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_NUMERALS = {
    **{name: value for value, name in enumerate(_ONES.split())},
    **{name: 10 * tens for tens, name in enumerate(_TENS.split(), start=2)},
}
_DENIAL = re.compile(
    r"\b(?:(?:not|never|isn['’]t|cannot be)(?:\s+equal\s+to|\s+be|\s+exactly)?"
    r"|(?<!\bno )(?<!\bnot )(?:less|fewer|smaller|lower|more|greater|larger|higher)\s+than)"
    r"\s+[^A-Za-z]*\d[^A-Za-z]*\Z",
    re.IGNORECASE,
)
_MATHEMATICAL = re.compile(r"[0-9\\+*/^=-]")


def formula(text: str) -> str:
    r"""The whole text as LaTeX without delimiters, on one line: rules 1 to 4.

    >>> print(formula(r"(3, $\frac{\pi}{2}$)"))
    (3, \frac{\pi}{2} )
    """
    return _latex(split_unit(unmarked(boxed(text)))[0])


def _latex(text: str) -> str:
    if (number := _NUMERALS.get(stated(text).lower())) is not None:
        return str(number)
    text = _RAISED.sub(lambda small: f"^{{{_large(small)}}}", text)
    text = _LOWERED.sub(lambda small: f"_{{{_large(small)}}}", text).translate(_SYMBOLS)
    text = _GOING_ON.sub(_fraction, _REPEATING.sub(_fraction, text))
    if number := _THOUSANDS.fullmatch(DELIMITER.sub(" ", text).strip(" .")):
        text = number[1] + re.sub(r"\D", "", number[2]) + (number[3] or "")
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    text = _trim(" ".join(text.split()))
    return _trim(_MEASURE.sub("", _conditions(text) or _JOINED.sub(", ", text)))


def _large(small: re.Match[str]) -> str:
    return unicodedata.normalize("NFKC", small[0]).replace("−", "-")


def _conditions(text: str) -> str | None:
    r"""Conditions on one unknown, joined by "or" or "and", as intervals.

    >>> print(_conditions(r"x < 2 or x \ge 5"))
    (-\infty, 2) \cup [5, \infty)
    """
    pieces = _JOINED.split(text)
    conditions = [_CONDITION.fullmatch(piece) for piece in pieces[::2]]
    if len(conditions) < 2 or len(set(pieces[1::2])) > 1:
        return None
    intervals, unknowns = [], set()
    for condition in conditions:
        if condition is None:
            return None
        unknown, relation, bound = condition.groups()
        unknowns.add(unknown)
        if relation[-1] in "<>":
            left, right = "(", ")"
        else:
            left, right = "[", "]"
        above = relation.startswith((">", r"\g"))
        intervals.append(
            rf"{left}{bound.strip()}, \infty)" if above else rf"(-\infty, {bound.strip()}{right}"
        )
    sign = r" \cup " if pieces[1] == "or" else r" \cap "
    return sign.join(intervals) if len(unknowns) == 1 else None


def _fraction(repeating: re.Match[str]) -> str:
    r"""A repeating decimal as a fraction: ``0.1\overline{6}`` is 15/90."""
    whole, fixed, *periods = repeating.groups()
    period = next(filter(None, periods))
    until = int(f"{whole or 0}{fixed}")
    value = int(f"{whole or 0}{fixed}{period}") - until
    return rf"\frac{{{value}}}{{{10 ** len(fixed) * (10 ** len(period) - 1)}}}"


def formulas(text: str) -> list[str]:
    r"""The formulas an answer may stand for, likeliest first: rules 1 to 5.

    >>> formulas("The area is 12π inches.")
    ['12\\pi']
    """
    whole = formula(text)
    # split() gives the stretches between the words and, in between, the words.
    pieces = _WORD.split(_UNIT.sub(" ", whole))
    stretches, words = pieces[::2], pieces[1::2]
    last = [_trim(stretch) for stretch in stretches if _MATHEMATICAL.search(stretch)][-1:]
    if last and any(len(word) > 2 for word in words):
        return last
    return [*last, whole] if words else [whole] if whole else []


def long_words(text: str) -> bool:
    """Whether there are words of four letters or more, which are no products of letters.

    >>> long_words("20 students"), long_words("2 abc")
    (True, False)
    """
    return any(len(word) > 3 for word in _WORD.split(_UNIT.sub(" ", formula(text)))[1::2])


def as_text(text: str) -> str | None:
    r"""The words of a gold that is text and not a formula, else None.

    Text is what LaTeX marks so (``\text{east}``, ``\text{(C)}``) and bare words of which the first has
    four letters or more, or "no" and the like. Read as formulas, words are products of letters: "east" would
    equal "seat".

    >>> as_text(r"\text{(C)}"), as_text("ellipse"), as_text("abc"), as_text(r"5 \text{ cents}")
    ('(C)', 'ellipse', None, None)
    """
    text = text.strip()
    if marked := TEXT_COMMAND.fullmatch(text):
        return marked[1].strip() if re.search(r"[A-Za-z]", marked[1]) else None
    words = _BARE_WORDS.fullmatch(text) or text.lower() in _SHORT_WORDS
    return text if words and text.lower() not in _NUMERALS else None


def unit_of(text: str) -> str | None:
    r"""The unit behind the number that a text is or ends with, by one name for all its spellings.

    >>> unit_of("5 cm"), unit_of(r"$12\text{ centimeters}^2$."), unit_of("5"), unit_of("5 m/s")
    ('cm', 'cm^2', None, 'm/s')
    """
    return split_unit(unmarked(boxed(text)))[1]


def denies(text: str) -> bool:
    """Whether a text says of the number at its end that this is not it: "not 5", "less than 5 cm".

    >>> denies("not 5"), denies("It isn't equal to $5$."), denies("It is not 4, it is 5"), denies("up to 5")
    (True, True, False, False)
    """
    return bool(_DENIAL.search(split_unit(unmarked(boxed(text)))[0]))


def without_markup(text: str) -> str:
    r"""An answer without box, delimiters and text commands, to be compared with a gold that is text.

    >>> without_markup(r"$\boxed{\text{(C)}}$")
    '(C)'
    """
    return TEXT_COMMAND.sub(r"\1", DELIMITER.sub(" ", unmarked(boxed(text)))).strip()


def has_words(text: str) -> bool:
    r"""Whether an answer with a number in it says more than a formula: words, units, a currency.

    >>> has_words("17 apples"), has_words("£17"), has_words(r"$\frac{17}{2}$"), has_words("x = 17")
    (True, True, False, False)
    """
    money = text.count("$") % 2 or re.search("[€£¥₹]", text)
    return bool(
        re.search(r"\d", text)
        and (money or _WORD.search(_UNIT.sub(" a unit ", _latex(unmarked(boxed(text))))))
    )


def depth(text: str) -> int:
    """How deeply brackets of any kind nest."""
    deepest = level = 0
    for character in text:
        if character in "([{":
            level += 1
            deepest = max(deepest, level)
        elif character in ")]}":
            level -= 1
    return deepest


def _trim(text: str) -> str:
    """Without punctuation at the edges. A full stop may begin a number, and "5!" is 120."""
    return text.strip(" ,:;?").removeprefix(". ").lstrip().rstrip(" ,:;?.")
