r"""The unit of a number: ``5 cm``, ``12 square feet``, ``60 miles per hour``, ``$5``, ``25 °C``, ``101_2``.

Pure text. Units have one name for all their spellings, with their power: ``cm^2``, ``mi/h``. They are
compared and never converted. To these belong currencies, half-days (``9:00 a.m.``) and the base of a numeral.

Left out: two units behind each other (``3 ft 2 in``), prefixes and units that are in no everyday use. What is
unknown is a word (:mod:`rlcr.verify._formula`), and words are no part of the answer.
"""

from __future__ import annotations

import re

TEXT_COMMAND = re.compile(r"\\(?:text(?:bf|it|rm)?|mathrm|mbox)\s*\{([^{}]*)\}")
DELIMITER = re.compile(r"\\\$|\$|(?<!\\)\\[()\[\]]")

_UNITS = {
    spelling: names.split()[0]
    for names in (
        "mm millimeter millimeters millimetre millimetres",
        "cm centimeter centimeters centimetre centimetres",
        "m meter meters metre metres", "km kilometer kilometers kilometre kilometres", "in inch inches",
        "ft foot feet", "yd yard yards", "mi mile miles", "mi/h mph", "km/h kph kmh",
        "mg milligram milligrams", "g gram grams", "kg kilogram kilograms", "pound lb lbs pounds £",
        "oz ounce ounces", "s sec secs second seconds", "min mins minute minutes", "h hr hrs hour hours",
        "day days", "week weeks", "month months", "year years",
        "ml mL milliliter milliliters millilitre millilitres",
        "l L liter liters litre litres", "cent cents ¢", "dollar dollars usd $", "euro euros eur €", "yen ¥",
        "rupee rupees ₹", "radian radians rad", "J joule joules", "N newton newtons",
        "V volt volts", "W watt watts",
    )
    for spelling in names.split()
}  # fmt: skip
_LONG = "|".join(sorted((re.escape(name) for name in _UNITS if len(name) > 1), key=len, reverse=True))
# Letters may be unknowns, capitals less so where they stand apart.
_ONE = (
    r"(?:(square|sq|cubic|cu)\b\.?\s*)?"
    rf"((?i:{_LONG})(?![A-Za-z])|[mgshl](?![A-Za-z])|(?<=\s)[LJNVW](?![A-Za-z])|[€£¥₹¢])\.?"
    r"(?:\s*\^\s*\{?\s*([23])\s*\}?|([23²³])|\s+(squared|cubed))?"
)
_BEHIND = r"(?:(?<=[\d})π.!])|(?<=\\pi)|(?<=\\pi )|(?:(?<=illion)|(?<=thousand)|(?<=hundred))(?!s\b))\s*"
_MEASURED = re.compile(rf"{_BEHIND}{_ONE}(?:\s*(?:/|\bper\b)\s*{_ONE})?[\s.]*\Z")
_DEGREES = re.compile(
    r"(?:\s*\^\s*\{?\s*\\circ\s*\}?|\s*°|(?<=[\d})])\s*\bdegrees?\b)\s*(C|F|Celsius|Fahrenheit)?[\s.]*\Z",
    re.IGNORECASE,
)
_HALF_DAY = re.compile(r"(?<=\d)\s*([ap])\.?m\b\.?[\s.]*\Z", re.IGNORECASE)
_BASED = re.compile(r"\s*-?\d[\dA-F]*\s*_\s*\{?\s*(\d+)\s*\}?[\s.]*")
_PRICE = re.compile(
    r"(\\\$|[€£¥₹]|\$)\s*(-?\s*\.?\d(?:[\d.,]*\d|\\!|\{,\})*(?:\s*(?:hundred|thousand|[mb]illion|trillion))*)"
)
_PLAIN_NUMBER = re.compile(r"[-+]?\s*\d[\d.,\s]*")
_POWERS = {
    "square": 2,
    "sq": 2,
    "squared": 2,
    "²": 2,
    "2": 2,
    "cubic": 3,
    "cu": 3,
    "cubed": 3,
    "³": 3,
    "3": 3,
}


def split_unit(text: str) -> tuple[str, str | None]:
    r"""The text without the unit that it ends with or the currency before its number, and that unit.

    >>> split_unit("12 cm^2"), split_unit(r"\$15 per hour")
    (('12', 'cm^2'), ('15', 'dollar/h'))
    >>> split_unit("60 mph"), split_unit("x + 1"), split_unit("5 g")
    (('60', 'mi/h'), ('x + 1', None), ('5 g', 'g'))
    >>> split_unit("15 m^2"), split_unit("15m^2"), split_unit("x - 15 m^2")
    (('15', 'm^2'), ('15m^2', None), ('x - 15 m^2', None))
    """
    bare = TEXT_COMMAND.sub(r" \1 ", DELIMITER.sub(" ", _priced(text))).strip()
    if based := _BASED.fullmatch(bare):
        return text, f"base {based[1]}"
    if degrees := _DEGREES.search(bare):
        return bare[: degrees.start()], f"degree {degrees[1][0].upper()}" if degrees[1] else "degree"
    if half := _HALF_DAY.search(bare):
        return bare[: half.start()], f"{half[1].lower()}.m."
    found = _MEASURED.search(bare)
    if not found or _is_unknown(found):
        return text, None
    first, second = found.groups()[:5], found.groups()[5:]
    unit = "/".join(_named(*one) for one in (first, second) if one[1])
    # A letter that stands alone may be an unknown; of "m" alone math-verify has decided that it is none.
    kept = unit in ("g", "s", "h", "l") and first[1] == unit
    return (text if kept else bare[: found.start()]), unit


def _is_unknown(found: re.Match[str]) -> bool:
    """Whether a letter is rather an unknown: behind a formula, or with a power and no space before it."""
    by, name, power, raised, word, _, per, *_ = found.groups()
    if len(name) > 1 or not name.islower() or by or word or per:
        return False
    before, spaced = found.string[: found.start()], found[0][0].isspace()
    return not _PLAIN_NUMBER.fullmatch(before) or bool((power or raised) and not spaced)


def _priced(text: str) -> str:
    r"""The text with the sign of its last price as a word behind the number: ``\$5`` as 5 dollars.

    A dollar sign may also begin a formula, and then another one ends it.
    """
    dollars = text.replace("\\$", "").count("$") % 2
    prices = [price for price in _PRICE.finditer(text) if dollars or price[1] != "$"]
    if not prices:
        return text
    (sign, number), (start, end) = prices[-1].groups(), prices[-1].span()
    return f"{text[:start]} {number} {_UNITS[sign[-1]]} {text[end:]}"


def _named(by: str | None, name: str, *powers: str | None) -> str:
    power = _POWERS.get(by or next((power for power in powers if power), ""), 1)
    return (_UNITS.get(name) or _UNITS[name.lower()]) + (f"^{power}" if power > 1 else "")


def same_unit(one: str | None, other: str | None) -> bool:
    """Whether two units may be the same: one may be missing, and degrees may be of any kind.

    >>> same_unit("cm", "m"), same_unit("cm", None), same_unit("degree", "degree C")
    (False, True, True)
    """
    if one is None or other is None or one == other:
        return True
    return "degree" in (one, other) and one.startswith("degree") and other.startswith("degree")
