from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rlcr.cli.tasks import app
from rlcr.errors import RlcrError
from rlcr.tasks import TASKS, load_at_most

run = CliRunner().invoke


@pytest.fixture
def data(write: Callable[..., Path], data_dir: Path) -> str:
    write("gsm8k/test.jsonl", [{"question": f"Question {n}?", "answer": f"#### {n}"} for n in range(9)])
    write("gsm8k/train.jsonl", [{"question": f"question {n}", "answer": f"#### {n}"} for n in range(8, 20)])
    return str(data_dir)


@pytest.mark.parametrize("columns", [80, 129, 130, 200])
def test_alone_it_lists_every_task_and_cuts_no_name(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    result = run(app, [])
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert max(map(len, lines)) <= columns
    rows = {line.split()[0]: line for line in lines}
    for name, task in TASKS.items():
        assert task.origin.split("@")[0] in rows[name]
    assert rows["hotpotqa-modified"].split()[1:4] == ["20,000", "500", "exact"]
    if columns >= 130:
        assert "openai/gsm8k@e53f048" in result.output
        assert "accuracy by exact match; by type, level" in result.output
    else:
        assert len(lines) == 1 + len(TASKS)


def test_show(data: str) -> None:
    result = run(app, ["show", "gsm8k", "--limit", "2", "--prompt", "rlvr", "--data-dir", data])
    assert result.exit_code == 0, result.output
    assert result.output.count("verifier: math") == 2 + 1  # that of each, and that of the set
    # Those that an evaluation of two would take, in their order.
    taken = load_at_most("gsm8k", "test", 2, data_dir=data).problems
    shown = re.findall(r"── (.*)\n", result.output)
    assert shown == [problem.id for problem in taken]
    for problem in taken:
        assert problem.question in result.output
        assert f"\ngold: {problem.gold[0]}\nverifier: math" in result.output
    assert "about: grade-school word problems\nmetrics: accuracy by math-verify\n" in result.output
    assert "note: all 9 problems at hand" in result.output


def test_build_writes_the_same_bytes_twice(data: str, tmp_path: Path) -> None:
    outs = [tmp_path / "1.jsonl", tmp_path / "2.jsonl"]
    for out in outs:
        result = run(
            app, ["build", "gsm8k", "--out", str(out), "--limit", "5", "--seed", "3", "--data-dir", data]
        )
        assert result.exit_code == 0, result.output
        assert "size: 5" in result.output
    assert outs[0].read_bytes() == outs[1].read_bytes()


def test_build_with_settings(tmp_path: Path) -> None:
    out = tmp_path / "arms.jsonl"
    result = run(app, ["build", "arms", "--out", str(out), "--limit", "4", "--set", "arms=3"])
    assert result.exit_code == 0, result.output
    assert '"arms": 3' in result.output
    assert len(out.read_text().splitlines()) == 4


def test_overlap_of_a_split_and_a_built_file(data: str, tmp_path: Path) -> None:
    out = tmp_path / "built.jsonl"
    run(app, ["build", "gsm8k", "--out", str(out), "--data-dir", data])
    result = run(app, ["overlap", "gsm8k:train", str(out), "--data-dir", data])
    assert result.output.splitlines()[1:] == ["normalised\tgsm8k/train/0\tgsm8k/test/8"]


@pytest.mark.parametrize(
    ("task", "setting", "message"),
    [
        ("gsm8k", "seed=3", "gsm8k: seed is an option of its own: --seed"),
        ("gsm8k", "size=3", "gsm8k: size is an option of its own: --limit"),
        ("file", "verifier=math", "file: verifier is an option of its own: --verifier"),
        ("gym", "data_dir=x", "gym: data_dir is an option of its own: --data-dir"),
        ("arms", "name=x", "arms: name is an option of its own: the task itself"),
        ("bigmath-digits", "max_solve_rate=abc", "must be a number, got 'abc'"),
        ("bigmath-digits", "max_solve_rate=NaN", "must be a number, got nan"),
        ("triviaqa", "max_aliases=foo", "must be a whole number, got 'foo'"),
        ("file", "path=5", "5: no such file"),
    ],
)
def test_settings_that_cannot_be_used(task: str, setting: str, message: str, data: str) -> None:
    error = run(app, ["show", task, "--data-dir", data, "--set", setting]).exception
    assert isinstance(error, RlcrError)
    assert message in str(error)
    assert "\n" not in str(error)


def test_a_text_may_look_like_a_number(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("5,2024\nWho?,me\n")
    settings = ["--set", f"path={tmp_path / 'mine.csv'}", "--set", "question=5", "--set", "gold=2024"]
    result = run(app, ["show", "file", *settings])
    assert result.exit_code == 0, result.output
    assert "gold: me" in result.output


def test_a_list_as_a_setting(tmp_path: Path) -> None:
    result = run(app, ["show", "arms", "--limit", "0", "--set", "arms=2", "--set", "prior=[1, 3]"])
    assert result.exit_code == 0, result.output


def test_mistakes_are_raised_for_the_main_program(data: str) -> None:
    result = run(app, ["show", "gsm8", "--data-dir", data])
    assert isinstance(result.exception, RlcrError)
    assert isinstance(run(app, ["show", "arms", "--set", "arms"]).exception, RlcrError)
