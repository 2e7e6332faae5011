"""From the text of an answer to the formulas it may stand for. Pure text, no sympy.

math-verify reads one formula, delimited by ``$``. Golds in the usual datasets are bare LaTeX,
and models write anything from ``\\frac{1}{2}`` to "The area is 3 * sqrt(2) square feet." Left to find the
formula itself, math-verify takes the last number it sees: 2 from ``(a+5)(b+2)``, 0 from ``(-∞, 0]``, 12
from "12π inches". So the text is made into a formula here, by these rules:

1. The last ``\\boxed{…}`` is the answer, if there is one. Bold, code and answer tags are not part of it.
2. Math delimiters (``$``, ``\\(``, ``\\[``), which include the dollar sign of a price, are dropped; so are
   the signs of other currencies, "=" or "≈" at the beginning, and words in brackets: "17 (seventeen)".
3. Plain notation becomes LaTeX: ``√2``, ``sqrt(2)``, ``pi``, ``∞``, ``**``, ``<=``, ``50%``, ``1.5e3``,
   ``137 1/2``, ``∅``. ``1 000`` alone is a thousand, and ``0.\\overline{3}`` a third.
   "and" and "or" become commas, so that "3 or 5" is a set and not a lucky guess.
4. A full stop at the end is dropped, and so are units there: "km/h" and the like, "°C", and after a space
   the capitals L, J, N, V and W. Units that are words are words (5.), and math-verify knows "m" and "kg".
5. If there are words, the last stretch without words that holds a digit, an operator or a LaTeX command
   is the formula: 12π in "The area is 12π inches." Words of two letters may also be products ("2 ab"), so
   with no longer word than that the text as a whole is tried as well.
"""

from __future__ import annotations

import re

from rlcr.verify._plain import boxed, unmarked

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
        "²": "^2",
        "³": "^3",
        "½": r"\frac{1}{2}",
        "∅": r"\emptyset ",
    }
)

_DELIMITER = re.compile(r"\\\$|\$|(?<!\\)\\[()\[\]]")
_REPEATING = re.compile(r"(\d*)\.(\d*)\\(?:overline|bar|dot)\s*\{?(\d+)\}?")
_THOUSANDS = re.compile(r"([-+]?\d{1,3})((?:(?:\s|\\,|\\ |\{,\})\d{3})+)(\.\d+)?")
_NAME = r"(?<![\\A-Za-z])"  # the start of a name that is not a LaTeX command already
_REWRITES: list[tuple[re.Pattern[str], str]] = [
    (_DELIMITER, " "),
    (re.compile(r"[€£¥₹]"), " "),
    (re.compile(r"\A\s*[=≈~]"), ""),
    (re.compile(r"(?<=[\d})])\s+\([A-Za-z][A-Za-z-]{2,}(?:[ ,-]+[A-Za-z-]+)*\)"), " "),
    (re.compile(r"\\(?:text(?:bf|it|rm)?|math(?:bf|it|rm)|boldsymbol)\s*\{\s*([-+]?[\d.,/]+)\s*\}"), r"\1"),
    (re.compile(r"\\text\s*\{\s*(and|or)\s*\}"), r" \1 "),
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
    (re.compile(r",?\s+(?:and|or)\s+"), ", "),
]

_TEXT_COMMAND = re.compile(r"\\(?:text(?:bf|it|rm)?|mathrm|mbox)\s*\{([^{}]*)\}")
_BARE_WORDS = re.compile(r"[A-Za-z]{4,}(?:[ -][A-Za-z]+)*")
# A word stands alone; "cm^2" is one, too.
_WORD = re.compile(r"(?<!\S)([A-Za-z][A-Za-z'’-]+)(?:\^\{?[23]\}?)?(?=[\s.,:;!?)]|$)")
_UNIT = re.compile(_TEXT_COMMAND.pattern + r"(?:\^\{?[23]\}?)?")
_MEASURE = re.compile(
    r"(?<=[\d})])(?:\s*(?:\^\\circ\s*[CF]|[A-Za-zµ]{1,5}/(?:s|h|hr|min|day|[A-Za-zµ]?[glms])(?:\^?\{?[23]\}?)?)|\s+[LJNVW])"
    r"(?=[\s.]*\Z)"
)
# Read as products of letters, "no" would be "on".
_SHORT_WORDS = {"yes", "no", "on", "off", "odd", "all", "any", "one", "two", "six", "ten", "red"}
_UNITS = {
    spelling: names.split()[0]
    for names in (
        "mm millimeter millimeters millimetre millimetres",
        "cm centimeter centimeters centimetre centimetres",
        "m meter meters metre metres", "km kilometer kilometers kilometre kilometres", "inch inches in",
        "ft foot feet", "yd yard yards", "mi mile miles", "mg milligram milligrams", "g gram grams",
        "kg kilogram kilograms", "lb lbs pound pounds", "oz ounce ounces", "s sec secs second seconds",
        "min mins minute minutes", "h hr hrs hour hours", "day days", "week weeks",
        "month months", "year years",
        "ml milliliter milliliters", "l liter liters litre litres", "cent cents", "dollar dollars",
    )
    for spelling in names.split()
}  # fmt: skip
_LAST_UNIT = re.compile(r"[\d})]\s*(?:(?:square|cubic|sq)\.?\s+)?([A-Za-z]+)\.?(?:\s*\^\s*\{?\d\}?)?[\s.]*\Z")
_DENIAL = re.compile(
    r"\b(?:not|never|isn['’]t|cannot be)\s+(?:equal\s+to\s+|be\s+|exactly\s+)?[^A-Za-z]*\d[^A-Za-z]*\Z",
    re.IGNORECASE,
)
_MATHEMATICAL = re.compile(r"[0-9\\+*/^=-]")


def formula(text: str) -> str:
    r"""The whole text as LaTeX without delimiters, on one line: rules 1 to 4.

    >>> print(formula(r"(3, $\frac{\pi}{2}$)"))
    (3, \frac{\pi}{2} )
    """
    text = _REPEATING.sub(_fraction, unmarked(boxed(text)).translate(_SYMBOLS))
    if number := _THOUSANDS.fullmatch(_DELIMITER.sub(" ", text).strip(" .")):
        text = number[1] + re.sub(r"\D", "", number[2]) + (number[3] or "")
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    return _trim(_MEASURE.sub("", " ".join(text.split())))


def _fraction(repeating: re.Match[str]) -> str:
    r"""A repeating decimal as a fraction: ``0.1\overline{6}`` is 15/90."""
    whole, fixed, period = repeating.groups()
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


def as_text(text: str) -> str | None:
    r"""The words of a gold that is text and not a formula, else None.

    Text is what LaTeX marks so (``\text{east}``, ``\text{(C)}``) and bare words of which the first has
    four letters or more, or "no" and the like. Read as formulas, words are products of letters: "east" would
    equal "seat".

    >>> as_text(r"\text{(C)}"), as_text("ellipse"), as_text("abc"), as_text(r"5 \text{ cents}")
    ('(C)', 'ellipse', None, None)
    """
    text = text.strip()
    if marked := _TEXT_COMMAND.fullmatch(text):
        return marked[1].strip() if re.search(r"[A-Za-z]", marked[1]) else None
    return text if _BARE_WORDS.fullmatch(text) or text.lower() in _SHORT_WORDS else None


def unit_of(text: str) -> str | None:
    r"""The unit behind the number that a text is or ends with, by one name for all its spellings.

    >>> unit_of("5 cm"), unit_of(r"$12\text{ centimeters}^2$."), unit_of("5"), unit_of("5 m/s")
    ('cm', 'cm', None, None)
    """
    bare = _TEXT_COMMAND.sub(r" \1 ", _DELIMITER.sub(" ", unmarked(boxed(text))))
    found = _LAST_UNIT.search(bare)
    return _UNITS.get(found[1].lower()) if found else None


def denies(text: str) -> bool:
    """Whether a text says of the number at its end that this is not it: "not 5".

    >>> denies("not 5"), denies("It isn't equal to $5$."), denies("It is not 4, it is 5")
    (True, True, False)
    """
    return bool(_DENIAL.search(unmarked(boxed(text))))


def without_markup(text: str) -> str:
    r"""An answer without box, delimiters and text commands, to be compared with a gold that is text.

    >>> without_markup(r"$\boxed{\text{(C)}}$")
    '(C)'
    """
    return _TEXT_COMMAND.sub(r"\1", _DELIMITER.sub(" ", unmarked(boxed(text)))).strip()


def has_words(text: str) -> bool:
    r"""Whether an answer with a number in it says more than a formula: words, units, a currency.

    >>> has_words("17 apples"), has_words("£17"), has_words(r"$\frac{17}{2}$"), has_words("x = 17")
    (True, True, False, False)
    """
    money = text.count("$") % 2 or re.search("[€£¥₹]", text)
    return bool(re.search(r"\d", text) and (money or _WORD.search(_UNIT.sub(" a unit ", formula(text)))))


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
