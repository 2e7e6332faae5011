"""What a reader of the answers asks for: the filters of the page, read from an address and checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: Cards on a page, by the way in which they are shown.
SIZES = {"one": 10, "side": 4}
SORTS = ("newest", "wrong", "unsure", "long", "question")
VERDICTS: tuple[str, ...] = ("right", "wrong", "unscorable")
_REPAIRED = {"": None, "yes": True, "no": False}
_LONGEST_WORDS = 1000


class BadQuery(ValueError):
    """An address that asks for nothing we have; the text says what is wrong with it."""


@dataclass(frozen=True)
class Query:
    """Which answers, in which order, and which page of them."""

    run: int | None = None
    task: str = ""
    question: str | None = None
    """One question, by its id."""
    sample: int | None = None
    verdicts: tuple[str, ...] = VERDICTS
    repaired: bool | None = None
    low: float = 0.0
    high: float = 1.0
    words: str = ""
    sort: str = "wrong"
    view: str = "one"
    page: int = 0

    @property
    def every_confidence(self) -> bool:
        """Whether answers that state none are wanted too."""
        return self.low <= 0 and self.high >= 1


def read_query(fields: Mapping[str, Sequence[str]]) -> Query:
    """The query of an address; what is not named is as it is on a fresh page.

    >>> read_query({"verdicts": ["wrong,unscorable"], "page": ["2"]}).verdicts
    ('wrong', 'unscorable')
    >>> read_query({"page": ["-1"]})
    Traceback (most recent call last):
    rlcr.report.live.query.BadQuery: page must be a whole number from 0 to 1000000000
    """
    unknown = [name for name in fields if name not in _READERS]
    if unknown:
        raise BadQuery(f"no such field; there are {', '.join(_READERS)}")
    values: dict[str, Any] = {name: _READERS[name](name, texts[-1]) for name, texts in fields.items()}
    return Query(**values)


def _whole(name: str, text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise BadQuery(f"{name} must be a whole number from 0 to 1000000000")
    return int(text)


def _number(name: str, text: str) -> int | None:
    return _whole(name, text) if text else None


def _share(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise BadQuery(f"{name} must be a number from 0 to 1")
    return value


def _words(_: str, text: str) -> str:
    return text.strip().lower()[:_LONGEST_WORDS]


def _one_of(names: Sequence[str]) -> Callable[[str, str], str]:
    def read(name: str, text: str) -> str:
        if text not in names:
            raise BadQuery(f"{name} must be one of {', '.join(names)}")
        return text

    return read


def _repaired(name: str, text: str) -> bool | None:
    if text not in _REPAIRED:
        raise BadQuery(f"{name} must be yes, no or empty")
    return _REPAIRED[text]


def _verdicts(name: str, text: str) -> tuple[str, ...]:
    names = tuple(text.split(",")) if text else ()
    if any(verdict not in VERDICTS for verdict in names):
        raise BadQuery(f"{name} must be some of {', '.join(VERDICTS)}, with commas between them")
    return names


def _text(_: str, text: str) -> str:
    return text


_READERS: dict[str, Callable[[str, str], object]] = {
    "run": _number,
    "task": _text,
    "question": _text,
    "sample": _number,
    "verdicts": _verdicts,
    "repaired": _repaired,
    "low": _share,
    "high": _share,
    "words": _words,
    "sort": _one_of(SORTS),
    "view": _one_of(tuple(SIZES)),
    "page": _whole,
}
