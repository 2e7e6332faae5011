"""What every task has in common: names, sizes, seeds, verifiers, files, and clear errors."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlcr.errors import RlcrError
from rlcr.problem import Problem
from rlcr.tasks import TASKS, load, overlap, read_problems, write_problems

Write = Callable[..., Path]


@pytest.fixture
def gsm8k(write: Write, data_dir: Path) -> Path:
    write("gsm8k/test.jsonl", [{"question": f"Question {n}?", "answer": f"#### {n}"} for n in range(50)])
    return data_dir


def test_the_dict_says_the_name_of_each_task() -> None:
    assert all(task.name == name for name, task in TASKS.items())
    assert all(task.about and task.metrics and task.origin for task in TASKS.values())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "gsm8"}, "unknown task 'gsm8': did you mean gsm8k"),
        ({"name": "gsm8k", "split": "tset"}, "gsm8k has no split 'tset': did you mean test"),
        ({"name": "gsm8k", "verifier": "exact"}, "gsm8k has no verifier 'exact': known: math"),
        ({"name": "gsm8k", "bogus": 1}, "gsm8k has no setting 'bogus': it has none"),
        ({"name": "bigmath-digits", "max_rate": 1}, "did you mean max_solve_rate"),
        ({"name": "gsm8k", "size": 0}, "size must be at least 1"),
        ({"name": "gsm8k", "size": 51}, "gsm8k: 51 problems asked for, but the test source holds 50"),
        ({"name": "gsm8k", "data_dir": "nowhere"}, "--data-dir: nowhere is not a directory"),
        ({"name": "file"}, "file: give the setting path"),
        ({"name": "gym"}, "gym: give the setting dataset"),
        ({"name": "file", "path": 5}, "file: path must be text, got 5"),
        ({"name": "bigmath-digits", "max_solve_rate": "abc"}, "max_solve_rate must be a number, got 'abc'"),
        ({"name": "bigmath-digits", "max_solve_rate": [0.5]}, "max_solve_rate must be a number, got [0.5]"),
        ({"name": "triviaqa", "max_aliases": "foo"}, "max_aliases must be a whole number, got 'foo'"),
        ({"name": "triviaqa", "max_aliases": True}, "max_aliases must be a whole number, got True"),
        ({"name": "arms", "prior": [1, "x"]}, "arms: prior must be a number, got [1, 'x']"),
        ({"name": "absent.jsonl"}, "absent.jsonl: no such file"),
    ],
)
def test_mistakes_get_one_clear_line(arguments: dict[str, Any], message: str, gsm8k: Path) -> None:
    with pytest.raises(RlcrError) as caught:
        load(**{"data_dir": gsm8k, **arguments})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_sample_is_seeded_nested_and_in_the_order_of_the_source(gsm8k: Path) -> None:
    small, large = (load("gsm8k", size=n, data_dir=gsm8k).problems for n in (10, 30))
    other = load("gsm8k", size=10, seed=1, data_dir=gsm8k).problems
    assert {p.id for p in small} < {p.id for p in large}
    assert {p.id for p in small} != {p.id for p in other}
    numbers = [int(problem.gold[0]) for problem in large]
    assert numbers == sorted(numbers)


def test_data_directory_from_the_environment(gsm8k: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLCR_DATA", str(gsm8k))
    assert load("gsm8k").source == "gsm8k/test.jsonl"


def test_provenance_is_json_and_changes_with_the_source(gsm8k: Path, write: Write) -> None:
    before = load("gsm8k", data_dir=gsm8k)
    assert json.loads(json.dumps(before.provenance()))["size"] == 50
    assert before.notes == ("all 50 problems at hand instead of the paper's 1,319",)
    write("gsm8k/test.jsonl", [{"question": "Another?", "answer": "#### 1"}])
    after = load("gsm8k", data_dir=gsm8k)
    assert before.source_sha256 != after.source_sha256
    assert before.sha256 != after.sha256


# --- bad files --------------------------------------------------------------------------------------


def test_a_broken_gzip(gsm8k: Path) -> None:
    whole = gzip.compress((gsm8k / "gsm8k" / "test.jsonl").read_bytes())
    (gsm8k / "gsm8k" / "test.jsonl").unlink()
    (gsm8k / "gsm8k" / "test.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RlcrError, match=r"test\.jsonl\.gz, after line \d+: damaged gzip file"):
        load("gsm8k", data_dir=gsm8k)


def test_an_unknown_column(write: Write, data_dir: Path) -> None:
    write("gsm8k/test.jsonl", [{"qestion": "q", "answer": "#### 1"}])
    with pytest.raises(RlcrError, match=r"line 1: no column question; did you mean qestion"):
        load("gsm8k", data_dir=data_dir)


def test_an_empty_question(write: Write, data_dir: Path) -> None:
    write("gsm8k/test.jsonl", [{"question": " ", "answer": "#### 1"}])
    with pytest.raises(RlcrError, match="line 1, column question: is empty"):
        load("gsm8k", data_dir=data_dir)


def test_a_broken_parquet(data_dir: Path) -> None:
    (data_dir / "gsm8k").mkdir()
    (data_dir / "gsm8k" / "test.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(RlcrError, match="not a readable Parquet file"):
        load("gsm8k", data_dir=data_dir)


def array_file(data_dir: Path, content: str) -> None:
    (data_dir / "gsm8k").mkdir()
    (data_dir / "gsm8k" / "test.json").write_text(content)


def test_an_array_with_a_row_longer_than_a_block(data_dir: Path) -> None:
    rows = [{"question": "q" * size, "answer": "#### 1"} for size in (1, 5_000_000, 2)]
    array_file(data_dir, json.dumps(rows))
    assert [len(problem.question) for problem in load("gsm8k", data_dir=data_dir).problems] == [
        1,
        5_000_000,
        2,
    ]


def test_a_broken_array_is_not_read_again_and_again(data_dir: Path) -> None:
    array_file(data_dir, '[{"question": "q", "answer": "#### 1"}, {"question" 7},' + " " * 50_000_000 + "]")
    started = time.process_time()
    with pytest.raises(RlcrError, match=r"test\.json, row 2: not JSON, or cut short: Expecting ':'"):
        load("gsm8k", data_dir=data_dir)
    assert time.process_time() - started < 5


def test_an_array_nested_too_deeply(data_dir: Path) -> None:
    array_file(data_dir, '[{"question": ' + "[" * 200_000)
    with pytest.raises(RlcrError, match=r"test\.json, row 1: JSON nested too deeply"):
        load("gsm8k", data_dir=data_dir)


# --- built files ------------------------------------------------------------------------------------


def test_built_problems_come_back_and_hash_alike(gsm8k: Path, tmp_path: Path) -> None:
    tasks = load("gsm8k", data_dir=gsm8k)
    out = tmp_path / "deep" / "built.jsonl"
    write_problems(out, tasks.problems)
    assert tuple(read_problems(out)) == tasks.problems
    back = load(str(out))
    assert back.sha256 == back.source_sha256 == tasks.sha256
    assert back.verifier == "math"
    assert len(load(str(out), size=7).problems) == 7
    with pytest.raises(RlcrError, match="verifier cannot be set"):
        load(str(out), verifier="judge")


def test_a_failed_build_leaves_the_earlier_one(gsm8k: Path, tmp_path: Path) -> None:
    out = tmp_path / "built.jsonl"
    write_problems(out, load("gsm8k", data_dir=gsm8k).problems)
    before = out.read_bytes()
    unwritable = Problem("x", "q", ("g",), "exact", extras={"value": float("nan")})
    with pytest.raises(ValueError, match="JSON"):
        write_problems(out, [unwritable])
    assert out.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_out_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RlcrError, match="cannot be written"):
        write_problems(tmp_path / "file" / "out.jsonl", [])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gold": []}, "column gold"),
        ({"extras": 3}, "column extras"),
        ({"id": 3}, "column id: expected text"),
    ],
)
def test_a_file_that_was_not_built_here(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    row = {"id": "1", "question": "q", "gold": ["g"], "verifier": "exact", "instruction": "", "extras": {}}
    (tmp_path / "built.jsonl").write_text(json.dumps({**row, **change}) + "\n")
    with pytest.raises(RlcrError, match=message):
        read_problems(tmp_path / "built.jsonl")


# --- the user's own file ----------------------------------------------------------------------------


def test_own_csv_with_aliases_and_a_verifier_a_row(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text('q,a,how,key\nWho?,"[""Me"", ""I""]",exact,x\n2 + 2?,4,math,y\n')
    tasks = load("file", path=str(path), question="q", gold="a", verifier_column="how", id="key")
    assert [problem.gold for problem in tasks.problems] == [("Me", "I"), ("4",)]
    assert [problem.id for problem in tasks.problems] == ["mine.csv/x", "mine.csv/y"]
    assert tasks.verifier == "exact and math"


def test_own_parquet_with_choices(tmp_path: Path) -> None:
    path = tmp_path / "mine.parquet"
    pq.write_table(pa.table({"question": ["Where?"], "answer": ["A"], "options": [["bank", "mall"]]}), path)
    tasks = load("file", path=str(path), choices="options", verifier="choice", instruction="A letter.")
    (problem,) = tasks.problems
    assert problem.extras["choices"] == {"A": "bank", "B": "mall"}
    assert (problem.verifier, problem.instruction, problem.id) == ("choice", "A letter.", "mine.parquet/0")


@pytest.mark.parametrize(
    ("rows", "settings", "message"),
    [
        ([{"question": "q", "answer": None}], {}, "line 1, column answer: no gold"),
        ([{"question": "q", "answer": []}], {}, "line 1, column answer: no gold"),
        ([{"question": "q", "answer": float("nan")}], {}, "line 1, column answer: no gold"),
        ([{"question": "q", "answer": {"x": 1}}], {}, "column answer: expected a text, a number or a list"),
        ([{"question": "q", "answer": True}], {}, "column answer: expected a text, .*, found bool 'True'"),
        ([{"question": "q", "answer": "a"}], {"gold": "anser"}, "no column anser; did you mean answer"),
        ([{"question": "q", "answer": "a", "v": "mth"}], {"verifier_column": "v"}, "did you mean math"),
        ([{"question": "q", "answer": "a", "k": 1}] * 2, {"id": "k"}, "stands for several problems"),
        (
            [{"question": "q", "answer": "a", "c": 7}],
            {"choices": "c", "verifier": "choice"},
            "column c: expected options",
        ),
    ],
)
def test_own_rows_that_cannot_be_used(
    rows: list[Any], settings: dict[str, Any], message: str, write: Write
) -> None:
    path = write("mine.jsonl", rows)
    with pytest.raises(RlcrError, match=message):
        load("file", path=str(path), **settings)


# --- overlap ----------------------------------------------------------------------------------------


def test_overlap_finds_exact_and_normalised_duplicates() -> None:
    def problems(name: str, *questions: str) -> list[Problem]:
        return [Problem(f"{name}/{n}", q, ("g",), "exact") for n, q in enumerate(questions)]

    found = overlap(
        problems("a", "Who is it?", "2 + 2", "1.5"), problems("b", "Who is it?", "who  is IT", "2 - 2", "15")
    )
    assert found.exact == (("a/0", "b/0"),)
    assert found.normalised == (("a/0", "b/1"),)
    assert str(found).startswith("3 and 4 problems: of the second, 1 are exact duplicates, 1 more")


def test_overlap_counts_a_problem_once_and_prints_a_few() -> None:
    problems = [Problem(str(n), ("Who?", "who")[n % 2], ("g",), "exact") for n in range(10_000)]
    found = overlap(problems[:5_000:2], problems)
    assert (len(found.exact), len(found.normalised)) == (5_000, 5_000)
    assert found.exact[1] == ("0", "2")
    assert len(str(found).splitlines()) == 22
    assert str(found).endswith("… and 9,980 more")


def test_overlap_looks_past_paragraphs() -> None:
    a = Problem("a", "[1] x\n\nQuestion: Who?", ("g",), "exact", extras={"bare_question": "Who?"})
    b = Problem("b", "[1] y\n\nQuestion: Who?", ("g",), "exact", extras={"bare_question": "Who?"})
    assert overlap([a], [b]).exact == (("a", "b"),)
