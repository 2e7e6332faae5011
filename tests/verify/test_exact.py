import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcr.problem import Problem
from rlcr.verify.exact import normalise, verify_exact


def outcome(answer: str | None, *golds: str) -> str:
    return verify_exact([Problem("1", "", golds, "exact")], [answer])[0].outcome


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("the Beatles", "Beatles"),
        ("  YES. ", "yes"),
        ("an  apple a day", "apple day"),
        ("U.S.A.", "USA"),
        ("1,000", "1000"),
        ("theatre", "Theatre"),
        ("-1", "1"),  # as HotpotQA's own script has it
        ("A", "a"),
        ("The", " the"),
        ("+", "+"),
    ],
)
def test_same(answer, gold):
    assert outcome(answer, gold) == "correct"


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("theatre", "atre"),
        ("A", "The"),
        ("+", "-"),
        ("the", "!"),
        ("", "the"),
        ("a", "apple"),
        ("naïve", "naive"),
    ],
)
def test_not_same(answer, gold):
    assert outcome(answer, gold) == "wrong"


def test_any_alias_is_enough():
    assert outcome("JFK", "John F. Kennedy", "jfk") == "correct"
    assert outcome("LBJ", "John F. Kennedy", "jfk") == "wrong"


def test_no_answer_is_wrong_and_no_gold_is_unscorable():
    assert verify_exact([Problem("1", "", ("x",), "exact")], [None])[0].reason == "no answer"
    assert outcome("x") == "unscorable"
    assert outcome(None, " ") == "unscorable"


def test_numbers_of_problems_and_answers_must_agree():
    with pytest.raises(ValueError, match="shorter"):
        verify_exact([Problem("1", "", ("x",), "exact")], [])


@given(st.text())
def test_normalise_is_idempotent(text):
    assert normalise(normalise(text)) == normalise(text)


@given(st.text(), st.text())
def test_any_text_has_a_verdict_and_equals_itself(answer, gold):
    assert outcome(answer, gold) in ("correct", "wrong", "unscorable")
    assert outcome(gold, gold) != "wrong"
