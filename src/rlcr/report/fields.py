"""Fields of files that may hold anything: what is not what it should be becomes NaN, 0, None or a note."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError
from rlcr.runs.lines import cells_of, object_of
from rlcr.runs.record import CODES, UNSCORABLE


def verdict_code(value: Any) -> int:
    """CORRECT, WRONG, or UNSCORABLE for anything else."""
    return CODES.get(value, UNSCORABLE) if isinstance(value, str) else UNSCORABLE


def sample_number(value: Any) -> int:
    """The number of a sample, 0 for anything else."""
    return value if isinstance(value, int) and 0 <= value < 1 << 53 else 0


def number_of(value: Any) -> float:
    """A number that can be drawn, NaN for anything else."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and abs(value) < 1e15 else math.nan


def interval_of(estimate: Mapping[str, Any]) -> tuple[float, float]:
    """The ends of an estimate's interval, NaN where there is none."""
    ends = estimate.get("ci95")
    low, high = ends if isinstance(ends, list) and len(ends) == 2 else (None, None)
    return number_of(low), number_of(high)


def share(value: Any) -> float:
    """A confidence, NaN for anything else."""
    number = number_of(value)
    return number if 0 <= number <= 1 else math.nan


def texts_of(value: Any) -> list[str]:
    """The texts of a list of JSON, none for anything else."""
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def mapping_of(value: Any) -> dict[str, Any]:
    """An object of JSON, empty for anything else."""
    return dict(value) if isinstance(value, Mapping) else {}


def read_json(path: Path, notes: list[str], advice: str = "") -> dict[str, Any] | None:
    """The object of a JSON file. Without the file, or with another thing in it, None and a note."""
    try:
        return object_of(path.read_bytes())
    except FileNotFoundError:
        where = path.name if not path.parent.name.startswith("update-") else f"{path.parent.name}/{path.name}"
        notes.append(f"no {where}" + (f": {advice}" if advice else ""))
        return None
    except ValueError as error:
        notes.append(f"{path.name} is left out: {error}")
        return None
    except OSError as error:
        raise RlcrError(f"{path}: cannot be read: {error.strerror or error}") from None


def read_objects(path: Path) -> Iterator[tuple[int, dict[str, Any] | None, int]]:
    """Number, object (None where the line is damaged) and offset of each line of a JSONL file."""
    offset, has = 0, False
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    value, has = cells_of(line, has)
                except ValueError:
                    value = None
                yield number, value, offset
                offset += len(line)
    except FileNotFoundError:
        return
    except OSError as error:
        raise RlcrError(f"{path}: cannot be read: {error.strerror or error}") from None
