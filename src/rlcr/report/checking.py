"""Reading files of a documented shape: a value of another shape raises, and the text says where it is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rlcr.report.fields import interval_of, number_of


class ShapeError(ValueError):
    """The file is not of the documented shape; the text says where."""


def mapping(value: Any, where: str) -> dict[str, Any]:
    """An object."""
    if not isinstance(value, Mapping):
        raise ShapeError(f"{where} must be an object")
    return dict(value)


def items(value: Any, where: str) -> list[Any]:
    """A list."""
    if not isinstance(value, list):
        raise ShapeError(f"{where} must be a list")
    return value


def numbers(value: Any, where: str) -> list[float]:
    """A list of finite numbers."""
    return [finite(item, where) for item in items(value, where)]


def maybe_numbers(value: Any, where: str) -> list[float]:
    """A list of numbers, NaN where one is null."""
    return [math.nan if item is None else finite(item, where) for item in items(value, where)]


def finite(value: Any, where: str) -> float:
    """A finite number."""
    number = number_of(value)
    if math.isnan(number):
        raise ShapeError(f"{where} must hold finite numbers")
    return number


def estimate(value: Any, where: str) -> tuple[float, float, float]:
    """A number, or an object with a value and its interval; without one its ends are NaN."""
    if not isinstance(value, Mapping):
        return finite(value, where), math.nan, math.nan
    return finite(value.get("value"), where), *interval_of(value)
