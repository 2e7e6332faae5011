# pyright: basic
"""Every recipe of ours starts: one whole update of a tiny model, on stand-ins for the data sets.

Only the model, the sizes and the device are overridden; everything else is what the recipe says.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.tasks.hotpot_rows import hotpot_row
from tests.tiny import tiny_model, tiny_tokenizer

from rlcr.runs.store import PROBLEMS
from rlcr.tasks import read_problems
from rlcr.training.recipes import RECIPES, load_recipe
from rlcr.training.rollouts import read_rollouts
from rlcr.training.run import TRAINING, train_run

#: Prompts are long in the bytes that the tiny tokenizer knows.
POSITIONS = 8192
SIZES = {
    "size": 4, "prompts": 2, "group": 2, "micro_batch": 2, "updates": 1, "eval_size": 2,
    "max_prompt_tokens": POSITIONS - 64, "max_completion_tokens": 8,
}  # fmt: skip


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    tiny_model(max_position_embeddings=POSITIONS).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """HotpotQA and Big-Math as they are published, with a few rows of our own."""
    folder = tmp_path_factory.mktemp("data")
    _write(folder / "hotpotqa" / "distractor_train.jsonl", map(hotpot_row, range(6)))
    _write(folder / "hotpotqa" / "distractor_dev.jsonl", map(hotpot_row, range(100, 106)))
    # The file has one split: about one question in ten is held out.
    _write(folder / "bigmath" / "train.jsonl", map(_bigmath_row, range(80)))
    return folder


def _bigmath_row(number: int) -> dict[str, Any]:
    return {
        "problem": f"What is {number} + 1?",
        "answer": str(number + 1),
        "source": "orca_math",
        "domain": ["Mathematics -> Algebra"],
        "llama8b_solve_rate": 0.25 + number / 1000,
    }


def _write(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.mark.parametrize("name", RECIPES)
def test_it_starts(
    name: str, start: str, data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLCR_CACHE", str(tmp_path / "cache"))
    resolved = load_recipe(name, {"model": start, "device": "cpu", **SIZES})
    result = train_run(resolved, tmp_path / "run", data_dir=data_dir)
    rollouts = list(read_rollouts(tmp_path / "run" / "rollouts", 1))
    assert len(rollouts) == 4
    assert len(result.updates) == 1
    settings = json.loads((tmp_path / "run" / TRAINING).read_text())["settings"]
    if resolved.recipe.eval_every is None:
        assert settings["held_out"] is None
        return
    # Held out is the test split of the same task with the same settings; the run is evaluated at its end.
    assert (settings["held_out"]["task"], settings["held_out"]["split"]) == (resolved.recipe.task, "test")
    assert settings["held_out"]["settings"] == settings["data"]["settings"]
    asked = list(read_problems(tmp_path / "run" / "evals" / "update-000001" / PROBLEMS))
    assert len(asked) == 2
    assert not {problem.id for problem in asked} & {rollout.problem for rollout in rollouts}
    assert "Held out: `" in (result.model / "README.md").read_text()
