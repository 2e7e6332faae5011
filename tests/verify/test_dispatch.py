import subprocess
import sys
from collections.abc import Sequence

import pytest

from rlcr.errors import RlcrError
from rlcr.problem import Problem
from rlcr.verify import (
    CORRECT,
    PAPER_VERIFIERS,
    VERIFIERS,
    WRONG,
    Message,
    Verdict,
    get_verifier,
    make_judge,
    verify,
)


def test_each_problem_by_its_own_verifier_and_in_order():
    class Agreeable:
        def complete(self, prompts: Sequence[Sequence[Message]]) -> list[str]:
            return ["YES"] * len(prompts)

    problems = [
        Problem("1", "", ("1/2",), "exact"),
        Problem("2", "", ("1/2",), "math"),
        Problem("3", "", ("A",), "choice", extras={"choices": {"A": "0.5", "B": "2"}}),
        Problem("4", "", ("1/2",), "judge"),
        Problem("5", "", ("1/2",), "math"),
        Problem("6", "", ("12",), "exact"),
    ]
    verdicts = verify(problems, ["0.5", "0.5", "0.5", "0.5", "5", "1/2"], judge=make_judge(Agreeable()))
    assert [verdict.correct for verdict in verdicts] == [False, True, True, True, False, True]


def test_grading_decides():
    problem = Problem("1", "", (r"\frac{1}{2}",), "math")
    assert [verify([problem], ["0.5"], grading=g)[0].correct for g in ("strict", "paper")] == [True, False]
    problem = Problem("1", "", ("-1",), "math")
    assert [verify([problem], ["1"], grading=g)[0].correct for g in ("strict", "paper")] == [False, True]


def test_empty():
    assert verify([], []) == []


def test_names():
    assert VERIFIERS.keys() == PAPER_VERIFIERS.keys() == {"exact", "math", "choice", "gym"}
    assert get_verifier("exact") is VERIFIERS["exact"]
    assert get_verifier("exact", "paper") is PAPER_VERIFIERS["exact"]
    with pytest.raises(RlcrError, match=r"'exat': did you mean exact\? Known: exact, math, choice, gym"):
        get_verifier("exat")
    with pytest.raises(RlcrError, match="did you mean paper"):
        get_verifier("exact", "papers")  # pyright: ignore[reportArgumentType]
    with pytest.raises(RlcrError, match="'maths'"):
        verify([Problem("1", "", ("1",), "exact"), Problem("2", "", ("1",), "maths")], ["1", "1"])


def test_a_judge_must_be_given():
    with pytest.raises(RlcrError, match="problem q7 is graded by a judge: pass judge="):
        verify([Problem("q7", "", ("1",), "judge")], ["1"])


class Fragile:
    """A judge that raises on any batch with a bad answer in it, and counts what it was asked."""

    def __init__(self, error: BaseException) -> None:
        self.error, self.batches = error, list[int]()

    def __call__(self, problems: Sequence[Problem], answers: Sequence[str | None]) -> list[Verdict]:
        self.batches.append(len(answers))
        if "bad" in answers:
            raise self.error
        return [
            CORRECT if answer in problem.gold else WRONG
            for problem, answer in zip(problems, answers, strict=True)
        ]


def test_a_verifier_that_raises_on_one_answer_is_asked_for_the_others_again():
    problems = [Problem(str(row), "", ("good",), "judge") for row in range(100)]
    answers = ["bad" if row in (37, 38, 99) else "good" if row % 2 else "other" for row in range(100)]
    judge = Fragile(KeyError("x"))
    verdicts = verify(problems, answers, judge=judge)
    assert {row: v.reason for row, v in enumerate(verdicts) if v.outcome == "unscorable"} == dict.fromkeys(
        (37, 38, 99), "the verifier failed: KeyError: 'x'"
    )
    assert all(v.correct == (row % 2 == 1) for row, v in enumerate(verdicts) if v.correct is not None)
    # In halves, not one by one: a batch is what makes the slow verifiers fast.
    assert len(judge.batches) < 50


@pytest.mark.parametrize("error", [RlcrError("the judge is not there"), KeyboardInterrupt(), SystemExit(1)])
def test_what_is_not_about_an_answer_ends_the_batch(error: BaseException):
    judge = Fragile(error)
    with pytest.raises(type(error)):
        verify([Problem("1", "", ("x",), "judge")] * 4, ["x", "bad", "x", "x"], judge=judge)
    assert judge.batches == [4]


def test_lengths_must_agree():
    with pytest.raises(RlcrError, match="1 problems but 2 answers"):
        verify([Problem("1", "", ("1",), "exact")], ["1", "2"])


def test_importing_is_light():
    heavy = {"sympy", "math_verify", "reasoning_gym", "torch"}
    code = f"import sys, rlcr.verify; print(sorted({heavy} & set(sys.modules)))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )
