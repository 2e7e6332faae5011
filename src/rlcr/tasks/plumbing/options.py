"""Options of multiple choice as data sets store them, and the gold that names one of them.

A model always sees letters. Options that the data labels otherwise (1 to 4, or by the names of columns) get
letters in their order. A gold may be a letter, a label, the text of an option or its place, from 0 (index) or
from 1 (number). Which of these it is, is decided for the whole file, never row by row: of options 3, 4 and 5
the gold 4 may be a text and a place. Where two ways to read all golds differ, the user must say which.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from rlcr.problem import as_texts
from rlcr.verify.choice import read
from rlcr.verify.exact import same_text

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_EXPECTED = 'options: a list, {"A": "…", …} or {"text": […], "label": […]}'
_MARKED = re.compile(r"\s*\(?([A-Z])\s*[).:]\s*(.*\S)\s*", re.DOTALL)
_WHOLE = re.compile(r"\s*([0-9]{1,3})(?:\.0)?\s*")


@dataclass(frozen=True)
class Options:
    """The texts of the options by letter, and what the data calls each letter."""

    texts: dict[str, str]
    labels: dict[str, str]

    @property
    def labelled(self) -> bool:
        """Whether the data has labels of its own."""
        return bool(self.labels)


def options_of(value: Any) -> Options:
    """The options in a cell; ValueError, which says what was expected, where it holds none.

    >>> options_of({"text": ["bank", "mall"], "label": ["1", "2"]})
    Options(texts={'A': 'bank', 'B': 'mall'}, labels={'A': '1', 'B': '2'})
    >>> options_of(["A)21", "B)22"]).texts, options_of('["bank", "mall"]').texts
    ({'A': '21', 'B': '22'}, {'A': 'bank', 'B': 'mall'})
    """
    value = _decoded(value)
    if isinstance(value, Mapping) and set(value) == {"text", "label"}:
        texts, labels = value["text"], value["label"]
        if not isinstance(texts, list) or not isinstance(labels, list) or len(texts) != len(labels):
            raise ValueError("text and label must be lists of one length")
        return _labelled(list(zip(labels, texts, strict=True)))
    if isinstance(value, Mapping):
        return _labelled(list(value.items()))
    if isinstance(value, (list, tuple)) and value:
        if all(isinstance(one, Mapping) and {"text", "label"} <= set(one) for one in value):
            return _labelled([(one["label"], one["text"]) for one in value])
        return _unlabelled(value)
    raise ValueError(f"expected {_EXPECTED}")


def _decoded(value: Any) -> Any:
    """A cell of CSV holds options as JSON, or as Python writes them."""
    if isinstance(value, str):
        with suppress(ValueError, RecursionError):
            return json.loads(value)
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            return ast.literal_eval(value.strip())
    return value


def _unlabelled(values: Sequence[Any]) -> Options:
    texts = _texts(values)
    marked = [_MARKED.fullmatch(text) for text in texts]
    if all(match and match[1] == letter for match, letter in zip(marked, LETTERS, strict=False)):
        texts = [match[2] for match in marked if match]
    return Options(dict(zip(LETTERS, texts, strict=False)), {})


def _labelled(pairs: Sequence[tuple[Any, Any]]) -> Options:
    texts = _texts([text for _, text in pairs])
    labels = [label.strip() for label in as_texts([label for label, _ in pairs])][: len(texts)]
    if len(set(labels)) < len(labels):
        raise ValueError("two options have the same label")
    capitals = [label.upper() for label in labels]
    lettered = set(capitals) <= set(LETTERS) and len(set(capitals)) == len(labels)
    letters = capitals if lettered else LETTERS
    return Options(dict(zip(letters, texts, strict=False)), dict(zip(letters, labels, strict=False)))


def _texts(values: Sequence[Any]) -> list[str]:
    """The texts of the options; the last may be empty, as in a table with room for more."""
    kept = list(values)
    while kept and _is_empty(kept[-1]):
        kept.pop()
    if any(map(_is_empty, kept)):
        raise ValueError("an option is empty")
    if not 2 <= len(kept) <= len(LETTERS):
        raise ValueError(f"{len(kept)} options; expected 2 to {len(LETTERS)}")
    return [text.strip() for text in as_texts(kept)]


def _is_empty(value: Any) -> bool:
    return value is None or value != value or (isinstance(value, str) and not value.strip())


class TwoWays(ValueError):
    """The golds of a file can be read in two ways, and differ in a row."""

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row = row


# --- golds ------------------------------------------------------------------------------------------


def _by_label(gold: str, options: Options) -> str | None:
    whole = _WHOLE.fullmatch(gold)  # a column of numbers may hold 1.0 for the label 1
    for letter, label in options.labels.items():
        if label in (gold, whole and whole[1]):
            return letter
    named = read(gold)
    if named.letter not in options.texts:
        return None
    both = named.text is None or same_text(named.text, options.texts[named.letter])
    return named.letter if both else None


def _by_text(gold: str, options: Options) -> str | None:
    very = [letter for letter, option in options.texts.items() if option == gold]
    same = [letter for letter, option in options.texts.items() if same_text(option, gold)]
    # Options with word for word the same text are one option.
    return very[0] if very else same[0] if len(same) == 1 else None


def _by_place(gold: str, options: Options, *, first: int) -> str | None:
    place = _WHOLE.fullmatch(gold)
    number = int(place[1]) - first if place else -1
    return list(options.texts)[number] if 0 <= number < len(options.texts) else None


_Way = Callable[[str, Options], str | None]
WAYS: dict[str, _Way] = {
    "label": _by_label,
    "text": _by_text,
    "index": partial(_by_place, first=0),
    "number": partial(_by_place, first=1),
}


def read_golds(
    golds: Sequence[Sequence[str]], options: Sequence[Options], way: str = ""
) -> list[tuple[str, ...] | None]:
    """The letters that each gold stands for; None where it is none of the options.

    ``way`` is one of :data:`WAYS`; without it, the way that fits every row, or else the labels and texts.
    """
    read = {
        name: [_all(names, gold, of) for gold, of in zip(golds, options, strict=True)]
        for name, names in WAYS.items()
    }
    if way:
        return read[way]
    fitting = {name: letters for name, letters in read.items() if None not in letters}
    if "label" in fitting and all(one.labelled for one in options):
        # Labels are there to be named; places that happen to fit mean nothing.
        fitting = {name: letters for name, letters in fitting.items() if name in ("label", "text")}
    for name, letters in fitting.items():
        for other, others in fitting.items():
            if letters != others:
                raise _two_ways(name, other, golds, letters, others)
    if fitting:
        return next(iter(fitting.values()))
    mixed = [_either(*pair) for pair in zip(read["label"], read["text"], strict=True)]
    return min([mixed, read["index"], read["number"]], key=lambda letters: letters.count(None))


def named_option(golds: Sequence[str], options: Options) -> tuple[str, ...] | None:
    """The letters of golds that are labels or texts of options, of one row alone; None where they are not."""
    return _either(_all(_by_label, golds, options), _all(_by_text, golds, options))


def _all(way: _Way, golds: Sequence[str], options: Options) -> tuple[str, ...] | None:
    letters = [letter for gold in golds if (letter := way(gold, options)) is not None]
    return tuple(letters) if letters and len(letters) == len(golds) else None


def _either(a: tuple[str, ...] | None, b: tuple[str, ...] | None) -> tuple[str, ...] | None:
    return (a or b) if a is None or b is None or a == b else None


def _two_ways(
    name: str,
    other: str,
    golds: Sequence[Sequence[str]],
    letters: Sequence[tuple[str, ...] | None],
    others: Sequence[tuple[str, ...] | None],
) -> TwoWays:
    row = next(n for n in range(len(golds)) if letters[n] != others[n])
    here, there = ((read[row] or "?")[0] for read in (letters, others))
    return TwoWays(
        row,
        f"the gold {golds[row][0][:40]!r} is option {here} as {name} and {there} as {other}, and both fit"
        f" every row: say which, --set gold_is={name} or {other} (index counts from 0, number from 1)",
    )
