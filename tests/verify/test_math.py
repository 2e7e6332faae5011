"""Mathematical equality: what is equal, what is not, and whom to believe about it."""

import gzip
import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from math_verify import LatexExtractionConfig, parse
from math_verify import verify as math_verify
from tests.published import stored_rows

from rlcr.problem import Problem
from rlcr.verify._formula import formula, formulas
from rlcr.verify._math_pool import Job
from rlcr.verify.math import first_look, verify_math
from rlcr.verify.paper import verify_paper
from rlcr.verify.verdict import Verdict

RUNAWAY = r"\int_0^1 \frac{\ln(1+x)}{x^2+1} dx"  # small, but sympy does not find its value in any time


def verdicts(pairs: list[tuple[str, str]]) -> list[Verdict]:
    return verify_math(
        [Problem("", "", (gold,), "math") for gold, _ in pairs], [answer for _, answer in pairs]
    )


EQUAL = [
    ("9", "9"), ("9", "9."), ("9", " 9.0 "), ("9", r"\boxed{9}"), ("9", "$9$"), ("9", r"\(9\)"), ("9", "x = 9"),
    (r"\frac{1}{2}", "0.5"), (r"\frac{1}{2}", "1/2"), ("0.5", r"\dfrac12"), ("12", "12.0"), ("007", "7"), ("-0", "0"),
    ("0.5", r"50\%"), ("7", "700%"), ("50%", "50%"), (r"50\%", "0.5"), ("50%", "50"), ("12.5%", "12.5"), (r"\frac18", "12.5%"), ("12000", "12,000"), (r"\$36", "$36"), (r"\$32,\!348", "32348"),
    (r"\left( 3, \frac{\pi}{2} \right)", "(3, π/2)"), (r"\left( 3, \frac{\pi}{2} \right)", r"(3, $\frac{\pi}{2}$)"),
    ("5", "5 apples"), ("4", "4 inches per second"), (r"12\pi", "12π inches per second"), (r"15\mbox{ cm}^2", "15 cm^2"),
    ("5.4", r"5.4 \text{ cents}"), (r"90^\circ", "90 degrees"), (r"90^\circ", "90°"), ("3", "The side length is 3."),
    (r"3\sqrt{13}", "3 * sqrt(13)"), (r"3\sqrt{13}", "3√13"), (r"\frac{\sqrt{3}}{3}", "1 / sqrt(3)"), (r"\pi", "pi"),
    (r"-\frac{\pi}{6}", "-pi/6"), (r"(-\infty, 0]", "(-∞, 0]"), (r"(5,\infty)", "(5, infinity)"), ("8", "2**3"),
    ("0.0025", "2.5e-3"), (r"137 \frac{1}{2}", "137 1/2"), ("3, 5, 7", "x = 3, x = 5, and x = 7."), ("3, 5", "5 or 3"),
    (r"\text{Evelyn}", "evelyn"), (r"\text{(C)}", "C"), (r"\text{(C)}", r"\boxed{\text{(C)}}"), ("east", "East"),
    ("6 - 5i", "6 - 5i."), ("(x+1)^2", "x^2 + 2x + 1"), ("x + 1", "1 + x"), (r"\frac13", "0.333333"), ("120", "5!"),
    (r"x \in [-2,7]", "[-2, 7]"), (r"1 \pm \sqrt{19}", r"1+\sqrt{19}, 1-\sqrt{19}"), ("2ab", "2 ab"), ("abc", "cba"),
    ("-1", "$-1$"), (r"\begin{pmatrix} 1/5 \\ -18/5 \end{pmatrix}", r"\begin{pmatrix} \frac15 \\ -\frac{18}{5} \end{pmatrix}"),
]  # fmt: skip
DIFFERENT = [
    ("9", "8"), ("-1", "1"), ("1", "-1"), (r"\frac{1}{2}", "0.51"), ("12", "12π inches"), (r"16\sqrt{3}", "16"), ("2", "(a+5)(b+2)"),
    ("0", "(-∞, 0]"), ("5", "6 - 5i."), ("7", "x = 3, x = 5, and x = 7"), ("6", "5 or 6"), ("2k", "2"), ("x=5", "y=5"),
    ("(1, 2)", "(2, 1)"), (r"(-\infty, 0]", r"(-\infty, 0)"), (r"\frac13", "0.333"), ("east", "seat"), (r"\text{even}", "odd"),
    (r"\text{east}", "5"), ("14", "The radius is 14√2 inches."), ("5x - 7y = 0", "3x - 4y = 0"), ("1+2i", "-1+2i"), ("5", "no idea"),
    ("5", "\\"), ("5", "}{"), ("5", "$$"), ("5", "\x00"), ("5", r"\frac{"), ("50", "50%"), ("700", "700%"), ("12.5", "12.5%"), (r"50\%", "5000%"), (r"50\%", "0.005"), ("(10, 20)", r"(10\%, 20\%)"), ("10", "9.95 with a confidence level of 0.95"),
]  # fmt: skip


def test_equal():
    assert [
        pair for pair, verdict in zip(EQUAL, verdicts(EQUAL), strict=True) if verdict.outcome != "correct"
    ] == []


def test_different():
    found = verdicts(DIFFERENT)
    assert [pair for pair, verdict in zip(DIFFERENT, found, strict=True) if verdict.outcome != "wrong"] == []


def test_any_alias_is_enough():
    problem = Problem("1", "", (r"\text{none}", "0", r"\frac{1}{4}"), "math")
    answers = ["0.25", "None", "00", "1", "x"]
    assert [v.correct for v in verify_math([problem] * 5, answers)] == [True, True, True, False, False]


def test_absent_answers_and_golds():
    problem = Problem("1", "", ("5",), "math")
    assert [v.reason for v in verify_math([problem] * 3, [None, "", " \n"])] == ["no answer"] * 3
    assert [v.outcome for v in verify_math([Problem("1", "", (), "math")] * 2, ["5", None])] == [
        "unscorable"
    ] * 2


def test_gold_that_does_not_parse_is_unscorable_unless_the_text_is_equal():
    pairs = [(r"\frac{1}{", "5"), (r"\frac{1}{", r"\frac{1}{"), ("5", r"\frac{1}{")]
    assert [(v.outcome, v.reason) for v in verdicts(pairs)] == [
        ("unscorable", "gold does not parse"),
        ("correct", ""),
        ("wrong", "answer does not parse"),
    ]


# Each would keep sympy busy for longer than any limit, some while they are read.
ENDLESS = [
    r"\binom{1000000}{500000}", r"\Gamma(100000000)", r"\gcd(9^{9^9}, 3)", "e^{e^{e^{e^{e}}}}", "(x+1)^{9999}",
    "(x+y+z)^{2000}", r"\frac{1}{(x+1)^{500}}", r"(1+\sqrt{2})^{9999}", r"(1+\sqrt2+\sqrt3+\sqrt5)^{100}",
    "(x+1)(x+2)^{30}(y+z)^{30}", r"\sin(" * 9 + "1" + ")" * 9, r"\prod_{n=1}^{10^7} n", r"\sum_{n=1}^{10^9} n^n",
    r"\sum_{m=1}^{1000} \sum_{n=1}^{1000} \sin(mn)", r"\int_0^1 \int_0^1 e^{x^{x^x}} dx dx", r"\int e^{x^x} dx",
]  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("9^{9^{9^9}}", "answer is too large to evaluate"),
        ("10^{10^{10}}", "answer is too large to evaluate"),
        ("100000000!", "answer is too large to evaluate"),
        ("3!!!!", "answer is too large to evaluate"),
        ("1e999999999", "answer is too large to evaluate"),
        ("x^{10^{9}}", "answer is too large to evaluate"),
        *((text, "answer is too large to evaluate") for text in ENDLESS),
        ("1" * 1_000_000, "answer is longer than 2,000 characters"),
        ("(" * 50 + "2" + ")" * 50, "answer nests brackets more than 10 deep"),
        ("9**9**9**9", ""),
        ("9" * 1999, ""),
        ("-" * 1500 + "2", None),
        ("+".join(["2"] * 900), None),
    ],
)
def test_what_cannot_be_evaluated_is_wrong(answer, reason):
    verdict = verdicts([("2", answer)])[0]
    assert verdict.outcome == "wrong"
    assert reason is None or verdict.reason == reason


# Small, but no method of sympy comes to an end with them.
UNENDING = [
    r"\int \frac{1}{x^5+x+1} dx",
    r"\sum_{n=1}^{\infty}\frac{\sin n}{n^2}",
    r"\binom{x}{500}",
]


def test_an_answer_that_does_not_end_is_wrong():
    problems = [Problem("", "", ("2",), "math")] * 3
    assert verify_math(problems, UNENDING, time_limit=1) == [
        Verdict("wrong", "answer timed out after 1 s"),
    ] * len(problems)


@pytest.mark.parametrize("gold", [r"\left( 3, \frac{\pi}{2} \right)", "y = 2x + 1", r"x \in [-2,7]", "12.5%"])
def test_whatever_the_gold_is(gold):
    answers = [r"\binom{x}{500}", rf"{gold} + \binom{{x}}{{500}}"]
    found = verify_math([Problem("", "", (gold,), "math")] * 2, answers, time_limit=2)
    assert [v.outcome for v in found] == ["wrong", "wrong"]


@pytest.mark.parametrize("gold", [RUNAWAY, f"(3, {RUNAWAY})", f"y = {RUNAWAY}"])
def test_a_gold_that_does_not_end_is_unscorable(gold):
    problem = Problem("", "", (gold,), "math")
    answers = [gold.replace(RUNAWAY, "0.2721983"), f"${gold}$"]
    # A new process needs up to a second for the first formula that it reads.
    found = verify_math([problem] * 2, answers, time_limit=2)
    assert found == [Verdict("unscorable", "gold timed out after 2 s"), Verdict("correct")]


def test_another_alias_may_decide_before_one_that_does_not_end():
    problem = Problem("", "", (RUNAWAY, "2"), "math")
    found = verify_math([problem] * 2, ["2.0", "2.5"], time_limit=1)
    assert [v.outcome for v in found] == ["correct", "unscorable"]


def test_what_is_long_but_can_be_evaluated_is():
    pairs = [
        (r"\frac{2024}{2025}", r"\sum_{k=1}^{2024} \frac{1}{k(k+1)}"),
        ("2049300", r"\sum_{k=1}^{2024} k"),
        ("500000000500000000", r"\sum_{k=1}^{10^9} k"),
        ("120", r"\binom{10}{3}"),
        ("24", r"\Gamma(5)"),
        ("6", r"\gcd(12, 18)"),
        ("2", r"\int_0^\pi \sin(x) dx"),
        (r"\frac{\pi^2}{6}", r"\sum_{n=1}^\infty \frac{1}{n^2}"),
        ("(x+1)^{50}", "(1+x)^{50}"),
        ("(x+1)^{9999}", "(1+x)^{9999}"),
        (r"\binom{1000000}{500000}", r"$\binom{1000000}{500000}$"),
    ]
    assert [(*pair, v) for pair, v in zip(pairs, verdicts(pairs), strict=True) if not v.correct] == []


def test_large_golds():
    pairs = [
        ("9^{9^{9^9}}", "$9^{9^{9^9}}$"),
        ("9^{9^{9^9}}", "9"),
        ("2^{2024}", "4^{1012}"),
        ("2^{2^{n}}", "2^{(2^n)}"),
    ]
    assert [v.outcome for v in verdicts(pairs)] == ["correct", "unscorable", "correct", "correct"]


NUMBERS = ["0", "-0", "7", "007", "-7", "12", "12345678901234567890", "-1", "1", "000", "10", "100"]
SHORT = [
    *NUMBERS,
    "1/2",
    "0.5",
    r"\frac{1}{2}",
    "x",
    "2x",
    "(1,2)",
    "5%",
    r"\pi",
    "x=1",
    r"\sqrt{2}",
    "{1,2}",
    r"90^\circ",
]


def test_shortcuts_agree_with_math_verify():
    """Every pair that is settled without sympy, against math-verify reading the same two formulas."""
    settled = 0
    for gold in SHORT:
        for answer in SHORT:
            look = first_look([gold], answer)
            if isinstance(look, Verdict):
                settled += 1
                read_gold, read_answer = (
                    parse(f"${formula(text)}$", [LatexExtractionConfig()]) for text in (gold, answer)
                )
                assert look.correct == math_verify(read_gold, read_answer), (gold, answer)
            else:
                assert look == Job((gold,), answer)
    assert settled > 140


def test_formulas():
    assert formulas("The value is $x=3$ or $x=4$.") == ["x=3, x=4"]
    assert formulas("2 ab") == ["2", "2 ab"]
    assert formulas(r"\boxed{\frac{1}{2}} with confidence 0.9") == [r"\frac{1}{2}"]
    assert formulas(r"0 \text{ or } 1") == ["0, 1"]
    assert formulas(".5") == [".5"]
    assert formulas(" . ") == []
    assert formulas("unclosed \\boxed{5") == ["\\boxed{5"]


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=30), st.text(alphabet="0123456789+-*/^(){}[]\\$.,= xyabfracsqrtpi!%_|", max_size=20))
def test_any_text_has_a_verdict_and_equals_itself(plain, formulaic):
    for text, other in ((plain, formulaic), (formulaic, plain)):
        one, same = verdicts([(text, other), (text, text)])
        assert one.outcome in ("correct", "wrong", "unscorable")
        assert same.outcome != "wrong" or not text.strip()


def rows(path: Path) -> list[dict]:
    with (
        gzip.open(path, "rt", encoding="utf-8")
        if path.suffix == ".gz"
        else path.open(encoding="utf-8") as lines
    ):
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize(
    "name",
    ["math500/test.jsonl", "gsm8k/test.jsonl", "bigmath/rlcr_digits_test.jsonl"],
)
def test_every_gold_passes_its_own_verifier_and_a_wrong_answer_does_not(shared_data, name):
    golds = [row["answer"].split("####")[-1].strip() for row in rows(shared_data / name)]
    problems = [Problem(str(row), "", (gold,), "math") for row, gold in enumerate(golds)]
    # In a box the text differs, so that the gold has to be read.
    for answers, expected in (
        (golds, True),
        ([rf"\boxed{{{gold}}}" for gold in golds], True),
        (["-98765.25"] * len(golds), False),
    ):
        found = verify_math(problems, answers)
        assert [
            (p.id, p.gold, v) for p, v in zip(problems, found, strict=True) if v.correct is not expected
        ] == []


def stored(shared_data: Path, method: str) -> tuple[list[Problem], list[str], list[int]]:
    """The authors' stored MATH-500 outputs: problems, last answers and verdicts."""
    data = stored_rows(shared_data, "math-500")
    found = [re.findall(r"<answer>(.*?)</answer>", row[f"{method}-output_0"], re.DOTALL) for row in data]
    problems = [Problem(row["unique_id"], row["problem"], (row["answer"],), "math") for row in data]
    return (
        problems,
        [answers[-1] if answers else "" for answers in found],
        [row[f"{method}-evals"][0] for row in data],
    )


def test_a_bare_gold_is_a_percentage_where_the_question_asks_for_one():
    asked = Problem("1", "The sides shrink. By what percent does the area decrease?", ("10",), "math")
    other = Problem("2", "Prices rose by 20%. What does it cost now?", ("10",), "math")
    answers = ["10%", r"10\%", "10", "0.1", "11%"]
    assert [v.correct for v in verify_math([asked] * 5, answers)] == [True, True, True, False, False]
    assert [v.correct for v in verify_math([other] * 2, ["10%", "10"])] == [False, True]


def test_a_bare_gold_is_in_millions_where_the_question_asks_for_them():
    asked = Problem("1", "The town grew. How many million people live there now?", ("5",), "math")
    other = Problem("2", "Five million people live there. How many have cars?", ("5",), "math")
    answers = ["5 million", "5", "5 million people", "5 thousand", "5000000"]
    assert [v.correct for v in verify_math([asked] * 5, answers)] == [True, True, True, False, False]
    assert [v.correct for v in verify_math([other] * 2, ["5 million", "5"])] == [False, True]


@pytest.mark.parametrize("method", ["Base", "RLVR", "RLVR-Classifier", "Answer-Prob", "RLCR"])
def test_paper_grading_reproduces_every_stored_verdict(shared_data, method):
    problems, answers, evals = stored(shared_data, method)
    assert [int(v.outcome == "correct") for v in verify_paper(problems, answers)] == evals


@pytest.mark.parametrize(("method", "accuracy"), [("Base", 59.6), ("RLVR", 50.2), ("RLCR", 55.2)])
def test_strict_grading_of_the_stored_outputs(shared_data, method, accuracy):
    problems, answers, _ = stored(shared_data, method)
    found = verify_math(problems, answers)
    assert all(v.correct is not None for v in found)
    assert 100 * sum(bool(v.correct) for v in found) / len(found) == pytest.approx(accuracy)
