"""A second of fuzzing on each target of `make faults`, and the inputs that once broke something."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from faults.fuzz import fuzz
from faults.fuzzed import TARGETS
from faults.fuzzed_files import Damage, Edit, Swap
from faults.fuzzing import Target, one_line_errors
from hypothesis import strategies as st

from rlcr.errors import RlcrError

ROOT = Path(__file__).parents[2]


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
            with suppress(Exception):
                while True:
                    pass
        if drawn == 11:
            raise RlcrError("\x00" * 4_000)  # which are written out


def test_what_is_wrong_is_found(tmp_path: Path) -> None:
    """A crash, a hang and an endless message; an error of ours is none of them."""
    found = fuzz(Target("a test", st.integers(0, 60), _picky, seconds=0.1), 0.0, 0, tmp_path, least=200)
    assert sorted(kind.split()[0] for kind in found.failures) == ["AssertionError", "KeyError", "TooSlow"]
    assert sorted(found.failures.values()) == ["11", "7", "9"]


HUNGRY = """
import sys
from faults import fuzz
from faults.fuzzing import Target
from hypothesis import strategies as st
fuzz.TARGETS["hungry"] = Target("a test", st.integers(0, 1), lambda drawn, _: bytearray(drawn << 31))
fuzz.fuzz_into("hungry", 0.2, 0, sys.argv[1])
"""


def test_an_input_that_takes_too_much_memory_is_found(tmp_path: Path) -> None:
    """In a process of its own, since the limit stays."""
    subprocess.run([sys.executable, "-c", HUNGRY, str(tmp_path)], check=True, timeout=300, cwd=ROOT)
    found = json.loads((tmp_path / "found.json").read_text())
    assert [kind.split()[0] for kind in found["failures"]] == ["MemoryError"]


#: (target, input): what fuzzing has found, mended since.
FOUND: list[tuple[str, Any]] = [
    ("recipe", "updates: " + "x" * 120_000),
    ("recipe", "model: " + "!!python/object" * 1000),
    ("records", ([Edit(0.34052875885077066, 1, b"-1"), Edit(0.8, 100, b"-1")], True)),
    ("recipe", "like: " + "x" * 120_000),
    ("metrics", ([(True, 10**400, 0), (False, None, 1)], False, 0)),
    ("logs", ("20.jsonl", Damage(edits=[Edit(0.76, 0, b"9" * 12_000)]))),
    ("tables", ("t.parquet", [Edit(0.054221272639539256, 1, b"\xff")], False)),
    ("tables", ("t.csv", [Edit(0.99999, 0, b"9" * 20_000)], False)),
    ("logs", ("traces.jsonl", Damage(0, [Swap(9, [None])]))),
    ("logs", ("log.eval", Damage(9, [Swap(0, math.nan)]))),
    ("logs", ("log.eval", Damage(9, [Swap(9, math.nan)]))),
    ("logs", ("log.eval", Damage(packed=[Edit(0.6712938628856177, 1, b"\xcb")]))),
]


@pytest.mark.parametrize(("name", "drawn"), FOUND)
def test_what_was_found_stays_mended(name: str, drawn: Any, tmp_path: Path) -> None:
    TARGETS[name].check(drawn, tmp_path)
