"""Data nobody has prepared: files shaped like five public data sets become tasks, in one command each."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from rlcr.cli.commands import app
from rlcr.errors import RlcrError
from rlcr.problem import Problem
from rlcr.tasks import load, read_problems
from rlcr.verify import verify

run = CliRunner().invoke

SVAMP = [
    {"ID": "chal-1", "Body": "Tom had 8 {small} pens", "Question": "How many has he after losing 3?",
     "Equation": "( 8.0 - 3.0 )", "Answer": 5.0, "Type": "Subtraction"},
    {"ID": "chal-2", "Body": "Ann has 2 boxes of 12 eggs.", "Question": "How many eggs is that?",
     "Equation": "( 2.0 * 12.0 )", "Answer": 24.0, "Type": "Multiplication"},
]  # fmt: skip
ARC = [
    {"id": "Mercury_1", "question": "Which is a liquid?", "answerKey": "C",
     "choices": {"text": ["iron", "wood", "milk", "salt"], "label": ["A", "B", "C", "D"]}},
    {"id": "NYSEDREGENTS_2", "question": "Which body is the largest?", "answerKey": "2",
     "choices": {"text": ["the Moon", "the Sun", "the Earth", "Mars"], "label": ["1", "2", "3", "4"]}},
]  # fmt: skip
OPENBOOKQA = [
    {"id": "7-980", "answerKey": "B", "question": {"stem": "The Sun is", "choices": [
        {"text": "cold", "label": "A"}, {"text": "hot", "label": "B"}, {"text": "blue", "label": "C"}]}},
]  # fmt: skip
AQUA = [
    {"question": "Half of 43 is?", "options": ["A)21", "B)21.5", "C)22", "D)22.5", "E)23"], "rationale": "43 / 2",
     "correct": "B"},
]  # fmt: skip
NQ_OPEN = [
    {"question": "when was the last moon landing", "answer": ["14 December 1972 UTC", "December 1972"]}
]


def built(
    tmp_path: Path, rows: list[dict[str, Any]], *options: str, name: str = "mine.jsonl"
) -> list[Problem]:
    path = tmp_path / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return built_from(tmp_path, path, *options)


def built_from(tmp_path: Path, path: Path, *options: str) -> list[Problem]:
    out = tmp_path / "built.jsonl"
    result = run(app, ["tasks", "build", "file", "--set", f"path={path}", "--out", str(out), *options])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return read_problems(out)


def outcomes(problem: Problem, *answers: str) -> list[str]:
    return [verdict.outcome for verdict in verify([problem] * len(answers), answers)]


def test_svamp(tmp_path: Path) -> None:
    path = tmp_path / "SVAMP.json"
    path.write_text(json.dumps(SVAMP, indent=2))
    options = [
        "--template",
        "{Body}. {Question}",
        "--set",
        "gold=Answer",
        "--set",
        "id=ID",
        "--verifier",
        "math",
    ]
    first, second = built_from(tmp_path, path, *options)
    assert first.question == "Tom had 8 {small} pens. How many has he after losing 3?"
    assert (first.gold, first.id) == (("5.0",), "SVAMP.json/chal-1")
    assert second.extras == {"Equation": "( 2.0 * 12.0 )", "Type": "Multiplication"}
    assert outcomes(second, "24", "The answer is **24**.", "24 eggs", "12") == ["correct"] * 3 + ["wrong"]


CHOICE = ("--verifier", "choice", "--set", "choices=choices", "--set", "gold=answerKey", "--set", "id=id")


def test_arc_as_the_hub_has_it(tmp_path: Path) -> None:
    path = tmp_path / "arc.parquet"
    pq.write_table(pa.Table.from_pylist(ARC), path)
    first, second = built_from(tmp_path, path, *CHOICE)
    assert first.question == "Which is a liquid?\nA) iron\nB) wood\nC) milk\nD) salt"
    assert first.instruction == "Put the letter of the right option alone inside the answer tags."
    assert second.question.endswith("\nA) the Moon\nB) the Sun\nC) the Earth\nD) Mars")
    assert (
        outcomes(first, "C", "(C)", "C) milk", "**C**", "milk", "A", "iron")
        == ["correct"] * 5 + ["wrong"] * 2
    )
    assert outcomes(second, "B", "The Sun", "B) the Sun", "A", "C") == ["correct"] * 3 + ["wrong"] * 2


def test_openbookqa_with_fields_inside_of_objects(tmp_path: Path) -> None:
    settings = (
        "--set",
        "question=question.stem",
        "--set",
        "choices=question.choices",
        "--set",
        "gold=answerKey",
    )
    (problem,) = built(tmp_path, OPENBOOKQA, "--verifier", "choice", *settings)
    assert problem.question == "The Sun is\nA) cold\nB) hot\nC) blue"
    assert (problem.gold, problem.extras["bare_question"]) == (("B) hot",), "The Sun is")
    assert outcomes(problem, "B", "hot", "A") == ["correct", "correct", "wrong"]


def test_aqua(tmp_path: Path) -> None:
    settings = ("--set", "choices=options", "--set", "gold=correct", "--set", "solution=rationale")
    (problem,) = built(tmp_path, AQUA, "--verifier", "choice", *settings)
    assert problem.question.splitlines()[1:3] == ["A) 21", "B) 21.5"]
    assert problem.extras["solution"] == "43 / 2"
    assert outcomes(problem, "B", "21.5", "B) 21.5", "21", "E") == ["correct"] * 3 + ["wrong"] * 2


def test_nq_open(tmp_path: Path) -> None:
    (problem,) = built(tmp_path, NQ_OPEN)
    assert outcomes(problem, "december 1972", "The answer is 14 December 1972 UTC.", "1972") == [
        "correct", "correct", "wrong",
    ]  # fmt: skip


# --- templates and settings -------------------------------------------------------------------------


def test_braces_are_written_twice_and_unknown_columns_named(tmp_path: Path) -> None:
    (problem,) = built(tmp_path, SVAMP[:1], "--template", "{{{Body}}} {Question}", "--set", "gold=Answer")
    assert problem.question.startswith("{Tom had 8 {small} pens} How")
    with pytest.raises(RlcrError, match=r"line 1: no column Bodi; did you mean Body\?"):
        built(tmp_path, SVAMP, "--template", "{Bodi} {Question}", "--set", "gold=Answer")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--template", "{Body"], r"a single \{ at character 1; a column is \{name\}"),
        (["--template", "Body}"], r"a single \} at character 5"),
        (["--template", "Body"], "names no column"),
        (["--template", "{Body}", "--set", "question=Question"], "give question or template, not both"),
        (["--template", "{Body}", "--set", "template={Body}"], "template is given twice"),
        (["--set", "gold=Answer", "--set", "gold=ID"], "gold is given twice, also as 'Answer'"),
        (["--set", "gold_is=lable"], "did you mean label"),
    ],
)
def test_settings_that_cannot_be_meant(options: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(RlcrError, match=message):
        built(tmp_path, SVAMP, *options)


def test_an_empty_cell_of_a_template_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([["ctx", "q", "a"], ["", "Who?", "me"], ["Here.", "What?", "it"]])
    task = load("file", path=path, template="{ctx} {q}", gold="a")
    assert [problem.question for problem in task.problems] == ["Who?", "Here. What?"]
    assert task.notes == ("column ctx is empty in 1 rows: their questions go without it",)
    path.write_text("ctx,q,a\n,,me\n")
    with pytest.raises(RlcrError, match="line 2, column ctx and q: are all empty"):
        load("file", path=path, template="{ctx} {q}", gold="a")


def test_other_columns_are_kept_where_json_can_hold_them(tmp_path: Path) -> None:
    path = tmp_path / "mine.parquet"
    columns = {
        "question": ["q"],
        "answer": ["a"],
        "level": [3],
        "share": [float("nan")],
        "raw": [b"\0"],
        "solution": ["x"],
    }
    pq.write_table(pa.table(columns), path)
    task = load("file", path=path)
    assert task.problems[0].extras == {"level": 3, "share": None}
    assert [note.split(":")[0] for note in task.notes] == [
        "column raw is not kept in 1 rows", "column solution is not kept in 1 rows",
    ]  # fmt: skip
