"""Answers as models write them: in bold, boxed, in a sentence, with a unit. A reader would call them right."""

import pytest

from rlcr.evaluate.score import score
from rlcr.problem import Problem
from rlcr.verify import is_wrapped, verify

NUMBERS = [
    "17", "The answer is **17**.", "**17**", "17.", "Answer: 17", "**Answer:** 17", "**Answer: 17**", "*17*", "_17_",
    "`17`", "<ANSWER>17</ANSWER>", "<answer> 17", r"\boxed{17}", r"The final answer is: $\boxed{17}$.", r"\[\boxed{17}\]",
    "There are **17** apples.", "**17** apples", "17 apples", "$17", "$17.00", r"\$17", "€17", "17 €", "£17", "¥17", "US$17",
    "USD 17", "17 dollars", "Rs. 17", "17 km/h", "17 m/s", "17 m", "17 kg", "17 L", "17 °C", "17 cm^2", "17 square feet",
    "= 17", "x = 17", "~17", "approximately 17", "17 (seventeen)", r"\textbf{17}", r"17\text{ cm}",
]  # fmt: skip
OTHER_NUMBERS = [
    "18", "**18**", "The answer is **18**.", "17x", "17 x", "**17** or **18**", "17!", "17%", "-17", "$1.7", "1.7 km/h",
    "**1** **7**", "2**17", "17 V + 1", "17/s", "17 L or 18 L",
]  # fmt: skip


@pytest.mark.parametrize("gold", ["17", "17.0"])
def test_numbers_in_ordinary_text(gold: str) -> None:
    problem = Problem("1", "How many?", (gold,), "math")
    outcomes = [verdict.outcome for verdict in verify([problem] * len(NUMBERS), NUMBERS)]
    assert [text for text, outcome in zip(NUMBERS, outcomes, strict=True) if outcome != "correct"] == []
    outcomes = [verdict.outcome for verdict in verify([problem] * len(OTHER_NUMBERS), OTHER_NUMBERS)]
    assert [text for text, outcome in zip(OTHER_NUMBERS, outcomes, strict=True) if outcome != "wrong"] == []


def test_stars_may_be_powers_and_units_may_be_letters() -> None:
    def outcome(gold: str, answer: str) -> str:
        return verify([Problem("1", "?", (gold,), "math")], [answer])[0].outcome

    assert outcome("8", "2**3") == outcome("x^2", "x**2") == "correct"
    assert outcome("5V", "5V") == outcome("5x", "**5x**") == "correct"
    assert outcome("5x", "5") == outcome("5V", "5") == "wrong"
    assert outcome(r"\text{east}", "The answer is **east**.") == "correct"


TEXTS = [
    "Paris", "**Paris**", "Paris.", "The answer is Paris.", "The answer is **Paris**.", "Answer: Paris", "“Paris”",
    "**Answer:** Paris", "My final answer is Paris", "So the answer is: Paris", r"\boxed{Paris}", r"$\boxed{\text{Paris}}$",
    "<ANSWER>Paris</ANSWER>", "`Paris`",
]  # fmt: skip


@pytest.mark.parametrize("answer", TEXTS)
def test_texts_in_ordinary_text(answer: str) -> None:
    assert verify([Problem("1", "?", ("Paris",), "exact")], [answer])[0].outcome == "correct"


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("Paris", "Paris, Texas"),
        ("Paris", "The answer is not Paris"),
        ("Me", "Answer me"),
        ("Paris", "Paris or Rome"),
    ],
)
def test_exact_match_stays_exact(gold: str, answer: str) -> None:
    assert verify([Problem("1", "?", (gold,), "exact")], [answer])[0].outcome == "wrong"


def test_a_gold_may_begin_like_a_sentence() -> None:
    assert verify([Problem("1", "?", ("The answer is love",), "exact")], ["the answer is love"])[0].correct


OPTIONS = {"A": "bank", "B": "library", "C": "A - minus", "D": "E. coli"}


@pytest.mark.parametrize(
    ("letter", "answer"),
    [
        ("B", "(B)"), ("B", "B) library"), ("B", "**B**"), ("B", "**B**) library"), ("B", "B - library"), ("B", "B – library"),
        ("B", "B (library)"), ("B", "**Answer:** (B)"), ("B", "<answer>B</answer>"), ("B", r"\boxed{\text{B}}"),
        ("C", "A - minus"), ("D", "E. coli"), ("D", "**E. coli**"), ("C", "C) A - minus"),
    ],
)  # fmt: skip
def test_options_in_ordinary_text(letter: str, answer: str) -> None:
    problems = [Problem("1", "?", (gold,), "choice", extras={"choices": OPTIONS}) for gold in OPTIONS]
    right = [
        problem.gold[0]
        for problem, v in zip(problems, verify(problems, [answer] * 4), strict=True)
        if v.correct
    ]
    assert right == [letter]


def test_a_letter_and_a_text_cannot_be_compared_without_the_options() -> None:
    problem = Problem("1", "?", ("bank",), "choice")
    verdict = verify([problem], ["B"])[0]
    assert verdict.outcome == "unscorable"
    assert verdict.reason == "a letter against the bare text of an unknown option: give the choices"


@pytest.mark.parametrize(
    ("verifier", "answer", "wrapped"),
    [
        ("math", r"\frac{1}{2}", False), ("math", r"$\frac{1}{2}$", False), ("math", r"\text{east}", False),
        ("math", "17 dollars", True), ("math", "€17", True), ("math", "The answer is 17", True), ("exact", "Paris", False),
        ("exact", "Paris.", True), ("choice", "b", False), ("choice", "(B)", True), ("gym", "**1**", False),
    ],
)  # fmt: skip
def test_what_is_counted_as_wrapped(verifier: str, answer: str, wrapped: bool) -> None:
    assert is_wrapped(verifier, answer) is wrapped


def test_choice_without_options_is_not_graded_in_silence() -> None:
    told = score(["<answer>B</answer>"], ["B"], verifier="choice", resamples=0)
    assert told.warnings == [
        "1 answers were graded by the verifier choice without the options: --choices COL"
    ]
    silent = score(["<answer>B</answer>"], ["B"], verifier="choice", choices=[OPTIONS], resamples=0)
    assert silent.warnings == []


def test_lenient_reading_counts_what_it_accepts() -> None:
    texts = ["The answer is **17**.", "<ANSWER>17 apples</ANSWER>", "<think>t</think><answer>17.</answer>"]
    scores = score(texts, ["17"] * 3, format="rlvr", verifier="math", resamples=0)
    assert [record.correct for record in scores.records] == [True] * 3
    counted = {
        name: scores.tally.leniencies[name] for name in ("untagged-answer", "loose-tags", "wrapped-answer")
    }
    assert counted == {"untagged-answer": 1, "loose-tags": 1, "wrapped-answer": 2}
    assert [record.well_formed for record in scores.records] == [False, False, True]
