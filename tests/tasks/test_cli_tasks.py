from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rlcr.cli.tasks import app
from rlcr.errors import RlcrError
from rlcr.tasks import TASKS

run = CliRunner().invoke


@pytest.fixture
def data(write: Callable[..., Path], data_dir: Path) -> str:
    write("gsm8k/test.jsonl", [{"question": f"Question {n}?", "answer": f"#### {n}"} for n in range(9)])
    write("gsm8k/train.jsonl", [{"question": f"question {n}", "answer": f"#### {n}"} for n in range(8, 20)])
    return str(data_dir)


def test_alone_it_lists_every_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    result = run(app, [])
    assert result.exit_code == 0
    assert all(name in result.output for name in TASKS)
    assert "openai/gsm8k@e53f048" in result.output
    assert "train 20,000, test 500" in result.output


def test_show(data: str) -> None:
    result = run(app, ["show", "gsm8k", "-n", "2", "--prompt", "rlvr", "--data-dir", data])
    assert result.exit_code == 0, result.output
    assert "Question 1?" in result.output
    assert "Question 2?" not in result.output
    assert "gold: 1\nverifier: math" in result.output
    assert "note: all 9 problems at hand" in result.output


def test_build_writes_the_same_bytes_twice(data: str, tmp_path: Path) -> None:
    outs = [tmp_path / "1.jsonl", tmp_path / "2.jsonl"]
    for out in outs:
        result = run(
            app, ["build", "gsm8k", "--out", str(out), "--size", "5", "--seed", "3", "--data-dir", data]
        )
        assert result.exit_code == 0, result.output
        assert "size: 5" in result.output
    assert outs[0].read_bytes() == outs[1].read_bytes()


def test_build_with_settings(tmp_path: Path) -> None:
    out = tmp_path / "arms.jsonl"
    result = run(app, ["build", "arms", "--out", str(out), "--size", "4", "--set", "arms=3"])
    assert result.exit_code == 0, result.output
    assert '"arms": 3' in result.output
    assert len(out.read_text().splitlines()) == 4


def test_overlap_of_a_split_and_a_built_file(data: str, tmp_path: Path) -> None:
    out = tmp_path / "built.jsonl"
    run(app, ["build", "gsm8k", "--out", str(out), "--data-dir", data])
    result = run(app, ["overlap", "gsm8k:train", str(out), "--data-dir", data])
    assert result.output.splitlines()[1:] == ["normalised\tgsm8k/train/0\tgsm8k/test/8"]


def test_mistakes_are_raised_for_the_main_program(data: str) -> None:
    result = run(app, ["show", "gsm8", "--data-dir", data])
    assert isinstance(result.exception, RlcrError)
    assert isinstance(run(app, ["show", "arms", "--set", "arms"]).exception, RlcrError)
