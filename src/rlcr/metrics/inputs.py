"""What the metrics accept. Anything else raises one line that names the index and the value."""

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlcr.errors import RlcrError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def check_correct(correct: ArrayLike, name: str = "correct") -> Ints:
    """Right (1) or wrong (0), one per row; None, NaN and every other value raise.

    >>> check_correct([True, False, 1, 0.0]).tolist()
    [1, 0, 1, 0]
    """
    array = _one_dimensional(correct, name)
    if array.dtype.kind not in "biuf":
        bad = next((i for i, x in enumerate(array.tolist()) if not _is_number(x) or x not in (0, 1)), None)
    else:
        bad = _first((array != 0) & (array != 1))
    if bad is not None:
        raise RlcrError(f"{name}[{bad}] is {_show(array, bad)}: expected 0, 1, True or False")
    return array.astype(np.int64)


def check_confidence(
    confidence: ArrayLike | Sequence[float | None],
    n: int | None = None,
    *,
    name: str = "confidence",
    missing: bool = False,
) -> Floats:
    """Confidences in [0, 1]; with `missing`, None and NaN stand for "gave none" (as NaN).

    >>> check_confidence([0.5, None], 2, missing=True).tolist()
    [0.5, nan]
    """
    array = _one_dimensional(confidence, name)
    if n is not None and len(array) != n:
        raise RlcrError(f"{name} has {len(array)} rows and correct has {n}: they must be the same rows")
    if array.dtype.kind not in "biuf":
        bad = next((i for i, x in enumerate(array.tolist()) if x is not None and not _is_number(x)), None)
        if bad is not None:
            raise RlcrError(f"{name}[{bad}] is {_show(array, bad)}: expected a number from 0 to 1")
    floats = _as_floats(array)
    # Written so that NaN is "not inside", and then forgiven where missing values are.
    bad = _first(~((floats >= 0) & (floats <= 1)) & ~(np.isnan(floats) & missing))
    if bad is not None:
        hint = " (leave the row out, or use summary(), which counts it)" if np.isnan(floats[bad]) else ""
        raise RlcrError(f"{name}[{bad}] is {_show(array, bad)}: expected a number from 0 to 1{hint}")
    return floats + 0.0  # -0.0 becomes 0.0, so that equal confidences are equal bits


def _as_floats(array: NDArray[Any]) -> Floats:
    """The numbers of an array; whole ones beyond the range of floats are infinite."""
    try:
        return array.astype(np.float64)
    except OverflowError:
        most = sys.float_info.max
        return np.array([x if x is None or abs(x) <= most else np.inf for x in array.tolist()], np.float64)


def question_codes(question: Iterable[Any], n: int, codes: dict[Any, int], name: str = "question") -> Ints:
    """Question labels as integers, in order of first appearance; `codes` is filled and may be shared.

    >>> question_codes(["b", "a", "b"], 3, {}).tolist()
    [0, 1, 0]
    """
    labels = question.tolist() if isinstance(question, np.ndarray) else list(question)
    if len(labels) != n:
        raise RlcrError(f"{name} has {len(labels)} rows and correct has {n}: they must be the same rows")
    try:
        return np.fromiter((codes.setdefault(label, len(codes)) for label in labels), np.int64, n)
    except TypeError as error:
        raise RlcrError(f"{name} labels must be hashable (strings or numbers): {error}") from error


def check_at_least(value: int, least: int, name: str) -> None:
    """A whole number that is large enough."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise RlcrError(f"{name} is {value!r}: expected a whole number of at least {least}")


def check_inside(value: float, low: float, high: float, name: str) -> None:
    """A number strictly between two others."""
    if not low < value < high:
        raise RlcrError(f"{name} is {value!r}: expected a number between {low:g} and {high:g}")


def _one_dimensional(values: object, name: str) -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise RlcrError(f"{name} is not a flat list of numbers: {error}") from error
    if array.ndim != 1:
        raise RlcrError(f"{name} has {array.ndim} dimensions: expected one value per row")
    if not len(array):
        raise RlcrError(f"{name} is empty: nothing to measure")
    return array


def _first(bad_N: NDArray[np.bool_]) -> int | None:
    return int(bad_N.argmax()) if bad_N.any() else None


def _is_number(value: object) -> bool:
    return isinstance(value, (bool, int, float, np.number, np.bool_))


def _show(array: NDArray[Any], index: int) -> str:
    return repr(array[index : index + 1].tolist()[0])
