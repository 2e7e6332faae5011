"""Comparing runs: what is refused, and what is said to differ."""

import json
from pathlib import Path

import pytest
from tests.command import rlcr
from tests.evaluate.capitals import capitals, good_reply, needy_reply
from tests.servers import ModelServer

from rlcr.errors import RlcrError
from rlcr.evaluate import Settings, evaluate
from rlcr.evaluate.compare import compare_runs
from rlcr.problem import Problem
from rlcr.tasks import write_problems


def test_unfinished_runs_are_not_compared(tmp_path: Path) -> None:
    with ModelServer(good_reply) as server:
        for name in ("a", "b"):
            evaluate(Settings(server.url, (capitals(tmp_path),), "rlcr"), tmp_path / name)
    records = tmp_path / "b" / "records.jsonl"
    records.write_text("".join(records.read_text().splitlines(keepends=True)[:7]))
    with pytest.raises(RlcrError, match=r"b: unfinished .7 of 20.; `rlcr eval"):
        compare_runs(tmp_path / "a", tmp_path / "b")


def test_what_differs_between_compared_runs_is_said(tmp_path: Path) -> None:
    task = capitals(tmp_path)
    with ModelServer(good_reply) as server:
        evaluate(Settings(server.url, (task,), "rlcr"), tmp_path / "a")
        evaluate(Settings(server.url, (task,), "rlcr-long", temperature=0.5), tmp_path / "b")
        capitals(tmp_path, 8)  # the same file, with more in it
        evaluate(Settings(server.url, (task,), "rlcr"), tmp_path / "c")
        problem = Problem("capitals/France-0", "Capital of France?", ("Paris",), "exact")
        write_problems(Path(task), [problem])
        evaluate(Settings(server.url, (task,), "rlcr"), tmp_path / "d")
    found = compare_runs(tmp_path / "a", tmp_path / "b")
    assert found.notes == (
        "method: rlcr against rlcr-long",
        "temperature: 0.0 against 0.5",
        "prompt: rlcr against rlcr-long",
    )
    larger = compare_runs(tmp_path / "a", tmp_path / "c")
    assert larger.tasks["capitals"].questions == 20
    assert "20 against 32 problems" in larger.notes[0]
    result = rlcr("compare", tmp_path / "a", tmp_path / "c", "--json")
    assert json.loads(result.stdout)["notes"] == list(larger.notes)
    # The same id, but another question.
    with pytest.raises(RlcrError, match="no scored problem in common"):
        compare_runs(tmp_path / "a", tmp_path / "d")


def test_comparing_runs(tmp_path: Path) -> None:
    task = capitals(tmp_path)
    with ModelServer(good_reply) as good, ModelServer(needy_reply) as needy:
        evaluate(Settings(good.url, (task,), "rlcr"), tmp_path / "a")
        evaluate(Settings(needy.url, (task,), "base"), tmp_path / "b")
    (comparison,) = compare_runs(tmp_path / "a", tmp_path / "b").tasks.values()
    assert comparison.metrics["accuracy"].value == pytest.approx(0.25)
    with pytest.raises(RlcrError, match="not a run"):
        compare_runs(tmp_path / "a", tmp_path)
