import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.published import stored_rows

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
    assert verdict("not (A)").reason == "names an option only to deny it"
    assert verdict(None).reason == "no answer"


@pytest.mark.parametrize("answer", ["A", "bank", "A) bank", "Option A which is: bank", "A) the big bank"])
def test_without_choices_the_gold_says_what_is_known(answer):
    assert verdict(answer, "Option A which is : bank", None).outcome == "correct"
    assert verdict(answer, "Option B which is : library", None).outcome == "wrong"


def test_without_choices_a_gold_may_be_letter_or_text_alone():
    assert verdict("A) bank", "A", None).outcome == "correct"
    assert verdict("bank", "A", None).outcome == "unscorable"
    assert verdict("A) bank", "bank", None).outcome == "correct"
    assert verdict("A", "bank", None).outcome == "unscorable"


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


PLACES = {"A": "bank", "B": "library", "C": "mall", "D": "city or town", "E": "not at home"}
RIGHT = [
    "B", "b", "(B)", "[B]", "B.", "B)", "b)", "B:", "**B**", "`B`", "Answer: B", "answer: b", "The answer is B",
    "The answer is (B).", "The answer is (B) library.", "The answer is: **B) library**", "B) library", "B. library",
    "B: library", "(b) library", "**B. library**", r"\boxed{B}", r"\boxed{\text{B}}", r"$\boxed{B) library}$",
    r"The answer is \boxed{B}.", "library", "The library", "a library!", "Option B", "option B which is : library",
    "Option B, library", "Choice B", "My final answer is B", "The correct answer is B) library.", "B which is library",
    "I think it is B.", "It must be (B), since you can read there.", "B) library because a mall is too loud",
    "B) library, as you cannot talk there", "B) the quiet library", "(B) library is the right answer, not (C) mall.",
    "(B), not (C)", "B, not C", "B rather than C", "B instead of A", "not A, but B", "Not A but B", "not (A), (B)",
    "not (A) but (B)", "(A) is incorrect, so the answer is B", "(A) is wrong, so the answer is (B) library.",
    "(C) is not correct. (B) is.", "(A), (C), (D) and (E) are wrong, so (B)", "neither (A) nor (C), but (B)",
    "A or B? The answer is B.", "(B) or (C), but the answer is (B)", "not (A) or (C), so (B)", "No doubt it is (B).",
    "It could be A or B, so I pick B", "(A) is out because it isn't quiet; the answer is B", "(B) is not wrong",
    "not a mall, but a library", "It cannot be anything other than (B)", "I am not sure, but (B)",
    "The answer is B because C is loud and D is large", "B, because A is for money", "Unlike (A), (B) is quiet",
    "(B) library. A mall is loud, and a bank has no books.", "B) library. A is for money.", "B is the answer.",
    "The answer is B, which has vitamin C", "not (B)... no, the answer is (B)", "(B) isn't incorrect",
]  # fmt: skip
WRONG_ONES = [
    "not (B)", "not B", "Not B.", "(B) is incorrect", "(B) is incorrect, the answer is C", "B is wrong", "(B) isn't right",
    "B. library or C. mall", "b) or c)", "b) and c)", "(B) or (C)", "B or C", "B, C", "B/C", "B & C", "B and C", "BC",
    "B) library, C) mall", "B. library and mall", "B) library or mall", "Option B or option C", "Option B or C",
    "The answer is B or C", "The answer is B or the answer is C", "either (B) or (C)", "Both B and C", "B or maybe C",
    "neither (B) nor (C)", "The answer is not B", "The answer is not (B) library.", "It cannot be (B)", "It can't be B.",
    "It isn't (B)", "anything but (B)", "(A) rather than (B)", "A rather than B", "C, not B", "(C), not (B)", "not B, but C",
    "not (B) but (C)", "not (B), (C)", "(B) is not the answer", "(B) cannot be right, so (C)", "(B) library is wrong",
    "B) library is incorrect, so C", "(B)? No, (C)", "(B) does not fit", "(B), but it could be (C)", "B, but also C",
    "not library", "library or mall", "The answer is library or mall", "All but (B)? It is (C)", "(B): incorrect",
    "(A) and (B) are wrong, so (C)", "(A), (B) and (D) are incorrect", "The wrong answer is (B)", "every option except (B)",
    "Everything but B", "(B) is tempting, but (C) is right", "none of (A), (B), (C)", "I am torn between B and C",
    "I can't decide between (B) and (C)", "(B) mall", "B. mall", "C. library", "C", "(c)", "mall", "D) city or town",
    "city or town", "not at home", "E) not at home", "I don't think it is (B)", "I would rule out (B)", "A. B. C.",
]  # fmt: skip


@pytest.mark.parametrize("answer", RIGHT)
def test_sentences_that_choose_the_gold(answer):
    assert verdict(answer, "B", PLACES).outcome == "correct"


@pytest.mark.parametrize("answer", WRONG_ONES)
def test_sentences_that_do_not_choose_the_gold(answer):
    assert verdict(answer, "B", PLACES).outcome == "wrong"


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("not at home", "E"), ("E) not at home", "E"), ("(E) not at home, of course", "E"), ("E. Not at home", "E"),
        ("city or town", "D"), ("D) city or town", "D"), ("(D) city or town is right", "D"),
        ("The answer is city or town", "D"), ("The answer is (E) not at home, not (D) city or town.", "E"),
        ("(B) is incorrect, the answer is C", "C"), ("not (B), but (C)", "C"), ("(B)? No, (C)", "C"),
    ],
)  # fmt: skip
def test_words_inside_an_option_are_not_about_the_choice(answer, gold):
    assert verdict(answer, gold, PLACES).outcome == "correct"


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ("A and B", "correct"), ("D) A and B", "correct"), ("(D)", "correct"), ("(D) A and B, not (E)", "correct"),
        ("A", "wrong"), ("(A) and (B)", "wrong"), ("A or B", "wrong"), ("E) vitamin A", "wrong"), ("not (D)", "wrong"),
    ],
)  # fmt: skip
def test_options_that_speak_of_letters(answer, outcome):
    choices = {"A": "iron", "B": "zinc", "C": "neither", "D": "A and B", "E": "vitamin A"}
    assert verdict(answer, "D", choices).outcome == outcome


@pytest.mark.parametrize(
    "answer", ["not (B)", "(B) is incorrect, the answer is C", "b) or c)", "B. x or C. y"]
)
def test_denials_without_choices(answer):
    assert verdict(answer, "B", None).outcome == "wrong"
    assert verdict(answer, "Option B which is : library", None).outcome == "wrong"


@pytest.mark.parametrize(
    "part",
    ["A ", "(B) library ", "not (A), ", "option  ", "A      ", ". ", "A or ", "library or ", "is wrong (A) "],
)
def test_long_answers_take_no_longer_than_they_should(part):
    begun = time.process_time()
    verdict("(B) " + part * (50_000 // len(part)) + "x", "B", PLACES)
    assert time.process_time() - begun < 5


@pytest.mark.parametrize("method", ["Base", "RLVR", "RLCR"])
def test_against_the_authors_judge(shared_data, method):
    """The judge is the more lenient: it also accepts neighbouring options. It hardly ever rejects ours."""
    rows = stored_rows(shared_data, "commonsenseqa")
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
    agreed = sum(bool(verdict.correct) == judge for verdict, judge in zip(verdicts, judged, strict=True))
    assert agreed >= {"Base": 1053, "RLVR": 1119, "RLCR": 1114}[method]
    for wrong in "ABCDE":
        others = [p for p in problems if not p.gold[0].startswith(f"Option {wrong} ")]
        distinct = [p for p in others if p.extras["choices"][wrong] != p.gold[0].split(" : ")[1]]
        assert {verdict.outcome for verdict in verify_choice(distinct, [wrong] * len(distinct))} == {"wrong"}
    for form in (lambda p: p.gold[0], lambda p: p.gold[0].split()[1], lambda p: p.gold[0].split(" : ")[1]):
        assert {v.outcome for v in verify_choice(problems, [form(p) for p in problems])} == {"correct"}
