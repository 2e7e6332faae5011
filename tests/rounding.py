"""Numbers that processors compute alike but for their last digits."""

import re


def rounded(text: str) -> str:
    """The text with every long decimal number rounded to seven significant digits.

    >>> rounded("0.38064999999999993 and 0.25, n=(400, 400)")
    '0.38065 and 0.25, n=(400, 400)'
    """
    number = re.compile(r"-?\d+\.\d{8,}(?:e-?\d+)?|-?\d+\.\d+e-\d+")
    return number.sub(lambda found: f"{float(found[0]):.7g}", text)
