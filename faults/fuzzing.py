"""What the targets of fuzzing share: what a target is, pieces of text, and what an error may look like."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from rlcr.errors import RlcrError
from rlcr.terminal import one_line


@dataclass(frozen=True)
class Target:
    """``check`` gets an input and a folder for files. An input may take so many seconds of computing."""

    what: str
    inputs: st.SearchStrategy[Any]
    check: Callable[[Any, Path], None]
    seconds: float = 5.0


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Errors of ours are answers, if they are of a bounded length: they are printed on one line."""
    try:
        yield
    except RlcrError as error:
        if len(said := one_line(str(error))) > 10_000:
            raise AssertionError(f"an error of {len(said)} characters: {said[:200]}") from None


#: Any character, halves of surrogate pairs included.
TEXT = st.lists(st.integers(0, 0x10FFFF).map(chr), max_size=6).map("".join)


def many(piece: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Pieces after each other, some of them very often."""
    times = st.sampled_from([1, 1, 1, 1, 1, 2, 30, 1_000, 20_000])
    return st.lists(st.builds(lambda text, n: text * n, piece, times), max_size=8).map("".join)


NUMBERS = [
    "0",
    "1",
    "0.5",
    ".5",
    "1.",
    "-1",
    "1e308",
    "1e-400",
    "1e999999",
    "nan",
    "inf",
    "-inf",
    "٣",
    "½",
    "0x1p3",
    "1_000",
    "1,000",
    "50%",
    "−5",
    "0,5",
    "1/2",
    "7/0",
]
ODD = [
    "\x00",
    "\x1b[2J",
    "\u202e",
    "\ud800",
    "\ufeff",
    "\u2028",
    "日本",
    "🙂",
    "\t",
    "\n",
    "\r\n",
    " ",
    "\xa0",
]
