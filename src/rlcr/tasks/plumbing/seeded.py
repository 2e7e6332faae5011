"""Choosing and shuffling that gives the same result on every machine and Python version.

The order of things is the order of SHA-256 hashes of the seed and the thing's own name. Streams of
``random`` and ``numpy`` are the same between versions only by policy, and depend on how many numbers
were drawn before; a hash depends on nothing else. So a smaller draw is the beginning of a larger one,
and a row that is dropped does not reshuffle the others.
"""

from __future__ import annotations

import hashlib
import heapq
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


def rank(*parts: str | int) -> int:
    """A number that looks random and depends on ``parts`` only, in [0, 2**128).

    >>> rank(0, "a") == rank(0, "a"), rank(0, "a") == rank(1, "a")
    (True, False)
    """
    return _number(hashlib.sha256(_joined(parts)))


def _joined(parts: Iterable[str | int]) -> bytes:
    # The separator keeps ("ab", "c") apart from ("a", "bc").
    return "\x1f".join(map(str, parts)).encode("utf-8", "surrogatepass")


def _number(digest: hashlib._Hash) -> int:
    return int.from_bytes(digest.digest()[:16], "big")


def draw(items: Iterable[T], size: int | None, rank_of: Callable[[T], int]) -> list[T]:
    """The ``size`` items of lowest rank, in the order of their ranks; the first of those of equal rank.

    It holds no more than ``size`` items at a time, so a source may be larger than memory.

    >>> draw([3, 1, 2, 1], 2, lambda item: item)
    [1, 2]
    """
    kept: dict[int, T] = {}
    heap: list[int] = []  # of negated ranks: the highest kept rank is on top
    for item in items:
        place = rank_of(item)
        if place in kept or (size is not None and len(heap) >= size and place > -heap[0]):
            continue
        kept[place] = item
        heapq.heappush(heap, -place)
        if size is not None and len(heap) > size:
            del kept[-heapq.heappop(heap)]
    return [kept[place] for place in sorted(kept)]


def shuffled(items: Sequence[T], *parts: str | int) -> list[T]:
    """The items in an order that depends on ``parts`` and their number only: that of ``rank(*parts, index)``.

    >>> shuffled("abcd", 0, "x") == sorted("abcd", key=lambda item: rank(0, "x", "abcd".index(item)))
    True
    """
    common = hashlib.sha256(_joined([*parts, ""]))

    def place(index: int) -> int:
        digest = common.copy()  # hashing the common beginning once is what makes this fast
        digest.update(b"%d" % index)
        return _number(digest)

    return [items[index] for index in sorted(range(len(items)), key=place)]


_QUOTES = re.compile("[\"'`´‘’“”„«»]")
_LOOSE_PUNCTUATION = re.compile(r"[.,;:!?…]+(?=\s|$)")


def same_question_key(question: str) -> str:
    """Two questions with the same key are the same question.

    Case, white space, quotation marks and punctuation at the end of words do not count. Everything
    else does, above all the signs of mathematics: 2 + 2 is not 2 - 2, and 1.5 is not 15.

    >>> same_question_key("Who  wrote “Emma”?") == same_question_key("who wrote Emma")
    True
    """
    text = unicodedata.normalize("NFC", question).casefold()
    return " ".join(_LOOSE_PUNCTUATION.sub("", _QUOTES.sub("", text)).split())
