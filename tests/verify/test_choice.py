import gzip
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcr.problem import Problem
from rlcr.verify.choice import verify_choice

CHOICES = {"A": "bank", "B": "library", "C": "department store", "D": "mall", "E": "new york"}


def verdict(answer: str | None, gold: str = "A", choices: dict[str, str] | None = CHOICES):
    return verify_choice(
        [Problem("1", "", (gold,), "choice", extras={"choices": choices} if choices else {})], [answer]
    )[0]


@pytest.mark.parametrize("gold", ["A", "bank", "Option A which is : bank"])
@pytest.mark.parametrize(
    "answer",
    [
        "A", "(A)", "A.", "A)", "[A]", "A:", "a", "A) bank", "A ) bank", "A. bank", "(A) bank", "(a) Bank", "A: bank",
        "Option A", "Option A which is: bank", "option A which is : bank", "bank", "a bank", "The bank.", "**A**",
        "The answer is A", "The correct answer is: A) bank.", "Answer: A", r"\boxed{A}", r"$\boxed{\text{A}}$",
        '"A"', "It must be A) bank, for security.", "A) a big bank", "A which is bank",
    ],
)  # fmt: skip
def test_correct(answer, gold):
    assert verdict(answer, gold).outcome == "correct"


@pytest.mark.parametrize("gold", ["A", "bank", "Option A which is : bank"])
@pytest.mark.parametrize(
    "answer",
    [
        "B", "library", "B) library", "A library", "A and B", "A or B", "A, B", "AB", "bank or library", "a", "F", "no",
        "A) bank, B) library", "(A) and (B)", "It is A) bank or B) library.", "I cannot tell.", "A) library", "B) bank",
    ],
)  # fmt: skip
def test_wrong(answer, gold):
    expected = "correct" if answer == "a" else "wrong"
    assert verdict(answer, gold).outcome == expected


def test_reasons():
    assert verdict("A) library").reason == "letter and text disagree"
    assert verdict("A) bank, B) library").reason == "names more than one option"
    assert verdict("I cannot tell.").reason == "names no option"
    assert verdict(None).reason == "no answer"


@pytest.mark.parametrize("answer", ["A", "bank", "A) bank", "Option A which is: bank", "A) the big bank"])
def test_without_choices_the_gold_says_what_is_known(answer):
    assert verdict(answer, "Option A which is : bank", None).outcome == "correct"
    assert verdict(answer, "Option B which is : library", None).outcome == "wrong"


def test_without_choices_a_gold_may_be_letter_or_text_alone():
    assert verdict("A) bank", "A", None).outcome == "correct"
    assert verdict("bank", "A", None).outcome == "unscorable"
    assert verdict("A) bank", "bank", None).outcome == "correct"
    assert verdict("A", "bank", None).outcome == "wrong"


def test_options_with_one_text_are_one_option():
    choices = {"A": "mortal", "B": "dying", "C": "mortal"}
    assert [verdict(answer, "C", choices).outcome for answer in ("A", "C", "mortal", "A) mortal", "B")] == [
        "correct", "correct", "correct", "correct", "wrong",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "gold", "outcome"),
    [
        ("A", "D", "wrong"), ("A", "D) ground", "wrong"), ("D", "A", "wrong"), ("A", "ground", "wrong"),
        ("A) the ground", "D", "wrong"), ("A) ground", "D) ground", "wrong"), ("A) ground", "A", "correct"),
        ("D", "D", "correct"), ("D) ground", "D", "correct"), ("D) the ground", "D", "correct"), ("D", "ground", "correct"),
        ("ground", "D", "correct"), ("the ground", "D", "wrong"), ("The Ground!", "D", "correct"),
        ("the ground", "A", "correct"), ("ground", "A", "wrong"), ("C", "D", "wrong"), ("B) ground", "D", "wrong"),
    ],
)  # fmt: skip
def test_the_letter_decides_between_options_that_differ_by_an_article(answer, gold, outcome):
    choices = {"A": "the ground", "B": "bus stop", "C": "air", "D": "ground"}
    assert verdict(answer, gold, choices).outcome == outcome


def test_gold_that_names_no_choice_is_unscorable():
    assert verdict("A", "beach").outcome == "unscorable"
    assert verdict("A", "Z").outcome == "unscorable"
    assert verdict("A", " ").outcome == "unscorable"


@given(st.text(), st.text())
def test_any_text_has_a_verdict_and_equals_itself(answer, gold):
    assert verdict(answer, gold).outcome in ("correct", "wrong", "unscorable")
    assert verdict(answer, gold, None).outcome in ("correct", "wrong", "unscorable")
    assert verdict(gold, gold).outcome != "wrong"
    assert verdict(gold, gold, None).outcome != "wrong"


@pytest.mark.parametrize("method", ["Base", "RLVR", "RLCR"])
def test_against_the_authors_judge(shared_data, method):
    """The judge is the more lenient: it also accepts neighbouring options. It hardly ever rejects ours."""
    path = shared_data / "rlcr_outputs" / "hotpot_models_commonsenseqa.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    problems, answers = [], []
    for row in rows:
        choices = dict(re.findall(r"^([A-E])\) (.*)$", row["problem"], re.MULTILINE))
        problems.append(
            Problem(str(row["id"]), row["problem"], (row["answer"],), "choice", extras={"choices": choices})
        )
        found = re.findall(r"<answer>(.*?)</answer>", row[f"{method}-output_0"], re.DOTALL)
        answers.append(found[-1] if found else None)
    verdicts = verify_choice(problems, answers)
    judged = [row[f"{method}-evals"][0] == 1 for row in rows]
    assert all(verdict.correct is not None for verdict in verdicts)
    assert (
        sum(bool(verdict.correct) and not judge for verdict, judge in zip(verdicts, judged, strict=True)) <= 2
    )
    unread = sum(v.reason == "names no option" and judge for v, judge in zip(verdicts, judged, strict=True))
    assert unread <= 10
    for wrong in "ABCDE":
        others = [p for p in problems if not p.gold[0].startswith(f"Option {wrong} ")]
        distinct = [p for p in others if p.extras["choices"][wrong] != p.gold[0].split(" : ")[1]]
        assert {verdict.outcome for verdict in verify_choice(distinct, [wrong] * len(distinct))} == {"wrong"}
    for form in (lambda p: p.gold[0], lambda p: p.gold[0].split()[1], lambda p: p.gold[0].split(" : ")[1]):
        assert {v.outcome for v in verify_choice(problems, [form(p) for p in problems])} == {"correct"}
