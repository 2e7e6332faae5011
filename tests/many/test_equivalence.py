"""Which answers are the same answer: by normal form where that decides, by the verifier where it does not."""

from itertools import permutations

import pytest

from rlcr.many.equivalence import Memory, group_many
from rlcr.problem import Problem


def of(verifier: str, **extras: object) -> Problem:
    return Problem("1", "?", ("gold",), verifier, extras=extras)


@pytest.mark.parametrize(
    ("problem", "answers", "groups"),
    [
        (of("exact"), ["The Beatles", "beatles.", "Abba", None, " ", "The"], [0, 0, 1, -1, -1, 2]),
        (of("judge"), ["Paris", "paris", "Paris, France"], [0, 0, 1]),
        (of("choice", choices={"A": "bank", "B": "library"}), ["A", "a bank", "(B)", "The answer is B."], [0, 0, 1, 1]),
        (of("choice", choices={"A": "bank"}), ["A and B", "both", "A"], [0, 1, 2]),
        (of("choice"), ["A", "(a)", "B"], [0, 0, 1]),
        (of("math"), ["1/2", "0.5", r"\frac{1}{2}", r"$\dfrac12$", "0.50", "2"], [0, 0, 0, 0, 0, 1]),
        (of("math"), ["-3", "3", "- 3", "1/0", "east", r"\text{east}", "west"], [0, 1, 0, 2, 3, 3, 4]),
        (of("math"), ["x = 5", "5", r"\sqrt{8}", r"2\sqrt{2}", "(1, 2)", "(2, 1)"], [0, 0, 1, 1, 2, 3]),
        (of("math"), ["5 cm", "5 m", "5 centimeters", "5 meters", "5.0 cm"], [0, 1, 0, 1, 0]),
        (of("math"), ["17 km/h", "17 mph", "17", "three", "3"], [0, 1, 0, 2, 2]),
    ],
)  # fmt: skip
def test_groups(problem: Problem, answers: list[str | None], groups: list[int]) -> None:
    assert group_many([(problem, answers)]) == [groups]


def test_a_percentage_does_not_make_two_numbers_one() -> None:
    assert group_many([(of("math"), ["0.5", "50", "50%"])]) == [[0, 1, 0]]
    assert group_many([(of("math"), ["50", "0.5", "50%"])]) == [[0, 1, 1]]


def test_only_what_no_form_decides_is_compared() -> None:
    memory: Memory = {}
    numbers = [str(n) for n in range(60)]
    group_many([(of("math"), [*numbers, "0.5", "1/2", "east"])], memory)
    group_many([(of("math"), [f"${n}" for n in numbers])], memory)  # a unit makes them no less different
    assert memory == {}
    group_many([(of("math"), ["7", "8", "x = 8"])], memory)
    assert memory == {("7", "x = 8"): False, ("x = 8", "7"): False, ("8", "x = 8"): True}


@pytest.mark.parametrize(
    "answers",
    [
        [r"\{1,2\}", "1,2", r"\{2,1\}", "(1,2)"],
        ["x>5", r"(5,\infty)", "5<x"],
        ["5 dollars", "5"],
        ["0.333333", "1/3", r"\frac{2}{6}", "x = 1/3"],
    ],
)
def test_groups_do_not_depend_on_the_order_of_answers(answers: list[str]) -> None:
    memory: Memory = {}
    partitions = set()
    for order in permutations(answers):
        (numbers,) = group_many([(of("math"), order)], memory)
        groups = (
            frozenset(a for a, n in zip(order, numbers, strict=True) if n == number)
            for number in set(numbers)
        )
        partitions.add(frozenset(groups))
    assert len(partitions) == 1


def test_a_comparison_that_cannot_be_made_leaves_answers_apart() -> None:
    memory: Memory = {}
    huge, larger = "9^{9^{9^9}}", "9^{9^{9^{10}}}"
    assert group_many([(of("math"), [huge, larger, huge])], memory) == [[0, 1, 0]]
    assert memory == {(huge, larger): False, (larger, huge): False}
