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
from tests.tiny import CHATML, writing_model, writing_tokenizer

from rlcr.errors import RlcrError
from rlcr.evaluate.methods import get_method
from rlcr.response import FORMATS
from rlcr.runs.store import PROBLEMS
from rlcr.tasks import read_problems
from rlcr.training.recipes import RECIPES, load_recipe
from rlcr.training.rollouts import read_rollouts
from rlcr.training.run import TRAINING, train_run

#: Prompts are long in the bytes that the tiny tokenizer knows.
POSITIONS = 8192
SIZES = {
    "size": 4, "prompts": 2, "group": 2, "micro_batch": 2, "updates": 1, "eval_size": 2,
    "max_prompt_tokens": POSITIONS - 64, "max_completion_tokens": 12,
}  # fmt: skip
WARM_UP = {"warm_up.examples": 4, "warm_up.held_out": 2, "warm_up.batch": 2}


@pytest.fixture(scope="module")
def starts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A model for each format, which it can keep."""
    folder = tmp_path_factory.mktemp("model")
    for format in FORMATS:
        writing_model(format, max_position_embeddings=POSITIONS).save_pretrained(folder / format)
        template = CHATML + "{% if enable_thinking %}{% endif %}"  # as Qwen3's, it takes this argument
        writing_tokenizer(chat_template=template).save_pretrained(folder / format)
    return {format: str(folder / format) for format in FORMATS}


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
    name: str, starts: dict[str, str], data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLCR_CACHE", str(tmp_path / "cache"))
    stated = load_recipe(name).recipe
    start = starts[get_method(stated.method).format]
    changes = {"model": start, "device": "cpu", **SIZES}
    if stated.warm_up:
        changes |= WARM_UP | {"max_completion_tokens": 160}  # of worked solutions in single characters
    if stated.lora:
        with pytest.raises(RlcrError, match="lora.targets: .* matches nothing in this model"):
            train_run(load_recipe(name, changes | {"warm_up": None}), tmp_path / "other", data_dir=data_dir)
        changes |= {"lora.targets": "all-linear"}  # a tiny model has two layers
    resolved = load_recipe(name, changes)
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
