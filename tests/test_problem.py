"""What counts as right may be given as a text, a number, or several of them, and as nothing else."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from rlcr.errors import RlcrError
from rlcr.problem import Problem
from rlcr.verify import verify


def problem(gold: Any, verifier: str = "math") -> Problem:
    return Problem("1", "6 x 7?", gold, verifier)


@pytest.mark.parametrize("verifier", ["exact", "math"])
def test_a_single_text_is_one_gold_and_not_its_letters(verifier: str) -> None:
    one = problem("42", verifier)
    assert one.gold == ("42",)
    assert [verdict.correct for verdict in verify([one, one], ["42", "4"])] == [True, False]


@pytest.mark.parametrize(
    ("gold", "texts"),
    [
        (("a", "b"), ("a", "b")),
        (["a", "b"], ("a", "b")),
        ([], ()),
        (42, ("42",)),
        (0.5, ("0.5",)),
        ([1, "one", 1.0], ("1", "one", "1.0")),
        (np.int64(7), ("7",)),
        (np.float64(0.5), ("0.5",)),
        (np.str_("x"), ("x",)),
        (Fraction(1, 2), ("1/2",)),
    ],
)
def test_golds(gold: Any, texts: tuple[str, ...]) -> None:
    assert problem(gold).gold == texts


@pytest.mark.parametrize(
    "gold", [None, True, [False], float("nan"), float("inf"), 1j, b"42", {"a": 1}, {"42"}, [["42"]], [None]]
)
def test_anything_else_is_an_error(gold: Any) -> None:
    with pytest.raises(RlcrError, match="problem 1: as gold expected a text, a number or a list of these"):
        problem(gold)
