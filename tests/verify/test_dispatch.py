import subprocess
import sys
from collections.abc import Sequence

import pytest

from rlcr.errors import RlcrError
from rlcr.problem import Problem
from rlcr.verify import PAPER_VERIFIERS, VERIFIERS, Message, get_verifier, make_judge, verify


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
