"""What a task is called wherever it is shown: the stem of its file, or the name that it is given."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.evaluate.capitals import capitals, good_reply, records_of
from tests.servers import ModelServer

from rlcr.errors import RlcrError
from rlcr.evaluate import Settings, evaluate
from rlcr.evaluate.export import export
from rlcr.problem import Problem
from rlcr.tasks import load, named_apart, write_problems


def test_a_file_is_called_by_its_stem_or_by_a_name(tmp_path: Path) -> None:
    path = capitals(tmp_path)
    assert load(path).task == "capitals"
    named = load(f"towns={path}")
    assert (named.task, named.settings) == ("towns", {"path": path})
    strange = tmp_path / "a=b.jsonl"
    write_problems(strange, [Problem("p", "q", ("g",), "exact")])
    assert load(str(strange)).task == "a=b"


def test_names_are_told_apart_by_folders() -> None:
    assert named_apart(["x/a/test.jsonl", "x/b/test.jsonl", "gsm8k"]) == ["a/test", "b/test", "gsm8k"]
    assert named_apart(["a/x/test.jsonl", "b/x/test.jsonl"]) == ["a/x/test", "b/x/test"]
    assert named_apart(["one=x/test.jsonl", "two=y/test.jsonl", "z/test.jsonl"]) == ["one", "two", "test"]
    for twice in (["gsm8k", "gsm8k"], ["a/test.jsonl", "a/test.jsonl"], ["one=a.jsonl", "one=b.jsonl"]):
        with pytest.raises(RlcrError, match="a task is named twice"):
            named_apart(twice)


def test_tables_and_exports_have_the_name_and_not_the_path(tmp_path: Path) -> None:
    with ModelServer(good_reply) as server:
        results = evaluate(
            Settings(server.url, (f"towns={capitals(tmp_path, 1)}",), "rlcr"), tmp_path / "run"
        )
    assert list(results.tasks) == ["towns"]
    assert {record["task"] for record in records_of(tmp_path / "run")} == {"towns"}
    assert "| towns |" in (tmp_path / "run" / "results.md").read_text()
    stored = json.loads((tmp_path / "run" / "run.json").read_text())["settings"]["tasks"]["towns"]
    assert stored["settings"]["path"].endswith("capitals.jsonl")
    assert [path.name for path in export(tmp_path / "run", tmp_path / "out")] == [
        "results.json",
        "samples_towns.jsonl",
    ]


def test_files_that_are_not_built_problems_say_how_to_build_them(tmp_path: Path) -> None:
    raw = tmp_path / "raw.jsonl"
    raw.write_text('{"question": "q", "answer": "a"}\n')
    with pytest.raises(
        RlcrError, match=r"not a file of built problems; `rlcr tasks build file --set path=.*raw\.jsonl --out"
    ):
        load(str(raw))
    with pytest.raises(RlcrError, match=r"mine\.csv: not a file of built problems; `rlcr tasks build file"):
        load("mine.csv")


def test_built_multiple_choice_must_hold_its_options(tmp_path: Path) -> None:
    write_problems(tmp_path / "old.jsonl", [Problem("p", "Where?", ("A",), "choice")])
    with pytest.raises(
        RlcrError, match="problem p has no options, which the verifier choice needs: build it again"
    ):
        load(str(tmp_path / "old.jsonl"))
