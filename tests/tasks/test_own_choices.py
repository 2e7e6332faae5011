"""Multiple choice from a file: every shape of options, every way to name the right one, and every fault."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlcr.errors import RlcrError
from rlcr.tasks import load

Write = Callable[..., Path]
TEXTS = ["bank", "library", "mall", "park"]


def built(write: Write, rows: list[dict[str, Any]], **settings: Any) -> list[tuple[dict[str, str], str]]:
    path = write("mine.jsonl", [{"question": f"Where {n}?", **row} for n, row in enumerate(rows)])
    task = load("file", path=path, verifier="choice", **{"choices": "options", **settings})
    for problem in task.problems:
        shown = [f"{letter}) {text}" for letter, text in problem.extras["choices"].items()]
        assert problem.question.splitlines()[1:] == shown
    return [(problem.extras["choices"], problem.gold[0][0]) for problem in task.problems]


@pytest.mark.parametrize(
    "options",
    [
        TEXTS, '["bank", "library", "mall", "park"]', "['bank', 'library', 'mall', 'park']",
        [f"{letter}) {text}" for letter, text in zip("ABCD", TEXTS, strict=True)],
        {"A": "bank", "B": "library", "C": "mall", "D": "park"}, {"text": TEXTS, "label": ["A", "B", "C", "D"]},
        {"text": TEXTS, "label": ["1", "2", "3", "4"]}, {"text": TEXTS, "label": [1, 2, 3, 4]},
        {"label": ["a", "b", "c", "d"], "text": TEXTS}, [{"label": str(n), "text": t} for n, t in enumerate(TEXTS)],
        {"opa": "bank", "opb": "library", "opc": "mall", "opd": "park", "ope": None},
    ],
)  # fmt: skip
def test_every_shape_of_options_becomes_letters(options: Any, write: Write) -> None:
    [(choices, gold)] = built(write, [{"options": options, "answer": "library"}])
    assert (list(choices), list(choices.values()), gold) == (["A", "B", "C", "D"], TEXTS, "B")


def test_a_column_for_each_option(write: Write) -> None:
    row = dict(zip("ABCD", TEXTS, strict=True))
    rows = [row | {"answer": "B"}, row | {"answer": "C", "D": ""}]
    assert [(len(choices), gold) for choices, gold in built(write, rows, choices="A,B,C,D")] == [
        (4, "B"),
        (3, "C"),
    ]


LABELLED = {"text": TEXTS, "label": ["1", "2", "3", "4"]}


@pytest.mark.parametrize(
    ("options", "golds"),
    [
        (TEXTS, ["B", "C"]), (TEXTS, ["(B)", "c"]), (TEXTS, ["B) library", "Option C which is : mall"]),
        (TEXTS, ["library", "The mall"]), (TEXTS, ["B", "mall"]), (LABELLED, ["2", "3"]), (LABELLED, [2, 3.0]),
        (LABELLED, ["B", "C"]), ({"opa": "bank", "opb": "library", "opc": "mall"}, ["opb", "opc"]),
    ],
)  # fmt: skip
def test_every_way_to_name_the_gold(options: Any, golds: list[Any], write: Write) -> None:
    rows = [{"options": options, "answer": gold} for gold in golds]
    assert [gold for _, gold in built(write, rows)] == ["B", "C"]


@pytest.mark.parametrize(("golds", "letters"), [([0, 1, 3], "ABD"), ([1, 2, 4], "ABD"), (["0", "1"], "AB")])
def test_places_count_from_0_or_1_as_the_whole_file_shows(
    golds: list[Any], letters: str, write: Write
) -> None:
    rows = [{"options": TEXTS, "answer": gold} for gold in golds]
    assert "".join(gold for _, gold in built(write, rows)) == letters


def test_golds_that_can_be_read_in_two_ways_must_be_told(write: Write) -> None:
    rows = [{"options": TEXTS, "answer": gold} for gold in (1, 2)]
    with pytest.raises(
        RlcrError,
        match=r"line 1, column answer: the gold '1' is option B as index and A as number.*--set gold_is=",
    ):
        built(write, rows)
    assert [gold for _, gold in built(write, rows, gold_is="index")] == ["B", "C"]
    assert [gold for _, gold in built(write, rows, gold_is="number")] == ["A", "B"]
    numbers = [{"options": ["2", "3", "1"], "answer": "1"}, {"options": ["0", "1", "2"], "answer": "0"}]
    with pytest.raises(RlcrError, match="is option C as text and B as index"):
        built(write, numbers)
    assert [gold for _, gold in built(write, numbers, gold_is="text")] == ["C", "A"]


def test_all_faults_are_told_at_once_with_their_lines(write: Write) -> None:
    rows: list[dict[str, Any]] = [{"options": TEXTS, "answer": "B"} for _ in range(30)]
    rows[3]["answer"], rows[7]["answer"], rows[8]["options"], rows[20]["answer"] = "E", "beach", [], ""
    with pytest.raises(RlcrError) as caught:
        built(write, rows)
    assert str(caught.value).endswith(
        "mine.jsonl, line 4, column answer: the gold 'E' is none of the options A, B, C, D"
        " (3 more rows are faulty: lines 8, 9, 21)"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["bank"], "1 options; expected 2 to 26"), (["bank", None, "mall"], "an option is empty"), ("bank", "expected options"),
        ({"text": ["a"], "label": ["A", "B"]}, "text and label must be lists of one length"),
        ([{"label": "1", "text": "a"}, {"label": "1", "text": "b"}], "two options have the same label"),
        (["bank", True], "expected a text, a number"),
    ],
)  # fmt: skip
def test_options_that_are_none(options: Any, message: str, write: Write) -> None:
    with pytest.raises(RlcrError, match=f"line 1, column options: {message}"):
        built(write, [{"options": options, "answer": "A"}])


def test_choice_and_options_come_together(write: Write) -> None:
    path = write("mine.jsonl", [{"question": "Where?", "answer": "A", "options": TEXTS, "how": "choice"}])
    with pytest.raises(RlcrError, match="the verifier choice needs options: give the setting choices"):
        load("file", path=path, verifier="choice")
    with pytest.raises(RlcrError, match="column how: choice: give the setting choices"):
        load("file", path=path, verifier_column="how")
    with pytest.raises(RlcrError, match=r"options are for the verifier choice \(or judge\), not exact"):
        load("file", path=path, choices="options")
    (problem,) = load("file", path=path, choices="options", verifier="judge").problems
    assert problem.gold == ("A) bank",)


def test_a_file_that_is_not_there_is_told_before_its_options() -> None:
    with pytest.raises(RlcrError, match=r"nowhere\.jsonl: no such file"):
        load("file", path="nowhere.jsonl", verifier="choice")


def test_a_question_that_shows_its_options_is_left_as_it_is(write: Write) -> None:
    shown = "Where?\n(A) bank\n(B) library"
    path = write("mine.jsonl", [{"question": shown, "answer": "A", "options": ["bank", "library"]}])
    assert load("file", path=path, choices="options", verifier="choice").problems[0].question == shown


def test_a_gold_that_mathematics_cannot_read_is_refused(write: Write) -> None:
    rows = [{"question": "q", "answer": answer} for answer in ("4", r"\frac{1}{2}", "((", "east")]
    with pytest.raises(
        RlcrError, match=r"line 3, column answer: the gold '\(\(' does not pass its own verifier"
    ):
        load("file", path=write("mine.jsonl", rows), verifier="math")
