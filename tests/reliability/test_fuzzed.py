"""A second of fuzzing on each target of `make faults`, and the inputs that once broke something."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from faults.fuzz import fuzz
from faults.fuzzed import TARGETS
from faults.fuzzing import Target, one_line_errors
from hypothesis import strategies as st

from rlcr.errors import RlcrError


@pytest.mark.parametrize("name", TARGETS)
def test_a_second_of_each(name: str, tmp_path: Path) -> None:
    found = fuzz(TARGETS[name], 1.0, 7, tmp_path)
    assert found.failures == {}
    assert found.inputs >= 5


def _picky(drawn: int, _: Path) -> None:
    with one_line_errors():
        if drawn > 50:
            raise RlcrError("too large")
        if drawn == 7:
            raise KeyError(drawn)
        while drawn == 9:
            pass
        if drawn == 11:
            raise RlcrError("x" * 20_000)


def test_what_is_wrong_is_found(tmp_path: Path) -> None:
    """A crash, a hang and an endless message; an error of ours is none of them."""
    found = fuzz(Target("a test", st.integers(0, 60), _picky, seconds=0.1), 0.0, 0, tmp_path, least=200)
    assert sorted(kind.split()[0] for kind in found.failures) == ["AssertionError", "KeyError", "TooSlow"]
    assert sorted(found.failures.values()) == ["11", "7", "9"]


#: (target, input): what fuzzing has found, mended since.
FOUND: list[tuple[str, Any]] = []


@pytest.mark.parametrize(("name", "drawn"), FOUND)
def test_what_was_found_stays_mended(name: str, drawn: Any, tmp_path: Path) -> None:
    TARGETS[name].check(drawn, tmp_path)
