"""An answer without what models put around it: a box, emphasis, tags, "The answer is", a full stop.

Pure text. What counts as the answer is decided by the verifiers: none of them needs any of this to be there.
"""

from __future__ import annotations

import re

_TAG = re.compile(r"</?\s*answer\s*>", re.IGNORECASE)
# Bold that stands for itself: in 2**3**4 the stars are powers.
_BOLD = re.compile(r"(?<![\w)\]}*])\*\*(?=\S)([^*\n]+)(?<=\S)\*\*(?![\w(*])")
_WRAPPED = re.compile(r"(\*|__?|\*\*\*)(?=\S)([^*_]+)(?<=\S)\1([.,;:!?]?)")
_LEAD_IN = re.compile(
    r"(?:(?:so|thus|hence|therefore),?\s+)?(?:(?:the|my|our)\s+)?(?:(?:final|correct|best|right)\s+)*"
    r"answer(?:\s+is\b(?:\s*:)?|\s*:)\s*",
    re.IGNORECASE,
)
_QUOTES = " \t\r\n\"'“”‘’"


def boxed(text: str) -> str:
    r"""The content of the last ``\boxed{…}`` with balanced braces, else the text itself."""
    start = text.rfind(r"\boxed{")
    if start < 0:
        return text
    start += len(r"\boxed{")
    level = 1
    for end in range(start, len(text)):
        level += {"{": 1, "}": -1}.get(text[end], 0)
        if level == 0:
            return text[start:end]
    return text


def unmarked(text: str) -> str:
    """Without answer tags and without the marks of emphasis and code.

    >>> unmarked("There are **17** apples."), unmarked("_17_"), unmarked("2**3**4")
    ('There are 17 apples.', '17', '2**3**4')
    """
    text = _BOLD.sub(r"\1", _TAG.sub(" ", text).replace("`", "")).strip()
    return "".join(whole.groups()[1:]) if (whole := _WRAPPED.fullmatch(text)) else text


def stated(text: str) -> str:
    """What a text without markup states as the answer: what follows "The answer is", if it begins so.

    >>> stated("The answer is Paris."), stated("Answer: “Paris”"), stated("Paris")
    ('Paris', 'Paris', 'Paris')
    """
    if lead_in := _LEAD_IN.match(text):
        text = text[lead_in.end() :]
    return text.strip(_QUOTES).removesuffix(".").strip(_QUOTES)
