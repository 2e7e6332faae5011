# pyright: basic
"""Whole training runs of a tiny model: what they leave behind, and resuming them after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from tests import forks
from tests.tiny import writing_model, writing_tokenizer
from tests.training.tiny_recipe import RECIPE

import rlcr
from rlcr.errors import RlcrError
from rlcr.evaluate import Settings, evaluate
from rlcr.evaluate.methods import stored_method
from rlcr.runs.lines import read_object, write_object
from rlcr.runs.store import locked, open_run
from rlcr.sample.loading import load
from rlcr.training.card import is_on_hub
from rlcr.training.measurements import read_updates
from rlcr.training.rollouts import read_rollouts


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    writing_model(strength=9.0, max_position_embeddings=2048).save_pretrained(folder / "start")
    writing_tokenizer().save_pretrained(folder / "start")
    path = folder / "mine.yaml"
    path.write_text(RECIPE.format(model=folder / "start"))
    return path


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load(folder, device="cpu")[0].state_dict()


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def start(recipe: Path, out: Path, *options: str) -> subprocess.Popen[bytes]:
    call = [*forks.python(forks.TRAINING), "-m", "rlcr", "train", str(recipe), "--out", str(out), *options]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(call, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def test_kill_and_resume_gives_the_same_weights_bit_for_bit(recipe: Path, tmp_path: Path) -> None:
    whole = rlcr.train(str(recipe), out=tmp_path / "whole")
    assert len(whole.updates) == 6
    assert not same(weights(whole.model), weights(recipe.parent / "start"))

    out = tmp_path / "killed"
    process = start(recipe, out)
    # Three updates are done and two are in a checkpoint: the third must be made again.
    while not (out / "rollouts" / "update-000003.jsonl.gz").exists():
        assert process.poll() is None, process.stderr.read().decode() if process.stderr else ""
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()  # whose end comes with that of the program
    assert not (out / "model").exists()
    (out / "checkpoints" / "checkpoint-99").mkdir()  # torn: nothing says that it is whole

    resumed = rlcr.train(str(recipe), out=out, resume=True)
    assert same(weights(resumed.model), weights(whole.model))
    assert [line["update"] for line in resumed.updates] == [1, 2, 3, 4, 5, 6]
    timeless = [{k: v for k, v in line.items() if k != "seconds"} for line in resumed.updates]
    assert timeless == [{k: v for k, v in line.items() if k != "seconds"} for line in whole.updates]
    assert list(read_rollouts(out / "rollouts")) == list(read_rollouts(tmp_path / "whole" / "rollouts"))


def test_what_is_refused_leaves_the_folder_to_the_next_try(recipe: Path, tmp_path: Path) -> None:
    mistakes: list[dict[str, Any]] = [
        {"attn_implementation": "no_such"},
        {"lora": {"rank": 2, "targets": "no_such"}},
    ]
    for mistake in mistakes:
        with pytest.raises(RlcrError, match="no_such"):
            rlcr.train(str(recipe), out=tmp_path / "run", updates=1, **mistake)
    assert rlcr.train(str(recipe), out=tmp_path / "run", updates=1).model.is_dir()


def test_resuming_a_finished_run_changes_nothing(recipe: Path, tmp_path: Path) -> None:
    first = rlcr.train(str(recipe), out=tmp_path / "run", updates=3, schedule="constant")
    before = weights(first.model)
    (first.model / "model.safetensors").unlink()  # as if killed before the model was saved
    again = rlcr.train(str(recipe), out=tmp_path / "run", updates=3, schedule="constant", resume=True)
    assert len(again.updates) == 3
    assert same(weights(again.model), before)


def test_two_processes_write_one_run(recipe: Path, tmp_path: Path) -> None:
    one = rlcr.train(str(recipe), out=tmp_path / "one", updates=2)
    call = forks.torchrun("-m", "rlcr", "train", str(recipe), "updates=2", "--out", str(tmp_path / "two"))
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(call, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("trained:") == 1
    assert "FutureWarning" not in done.stderr  # about settings that the user did not choose
    assert [line["update"] for line in read_updates(tmp_path / "two" / "updates.jsonl")] == [1, 2]
    first = [list(read_rollouts(tmp_path / name / "rollouts", 1)) for name in ("one", "two")]
    assert first[0] == first[1]
    theirs = weights(tmp_path / "two" / "model")
    for name, tensor in weights(one.model).items():
        torch.testing.assert_close(theirs[name], tensor, rtol=1e-3, atol=1e-3)


def test_two_runs_cannot_share_a_folder(recipe: Path, tmp_path: Path) -> None:
    rlcr.train(str(recipe), out=tmp_path / "run", updates=1)
    with locked(tmp_path / "run"), pytest.raises(RlcrError, match="another rlcr is writing"):
        rlcr.train(str(recipe), out=tmp_path / "run", updates=1, resume=True)


def test_a_finished_run_leaves_a_model_that_knows_its_method(recipe: Path, tmp_path: Path) -> None:
    result = rlcr.train(
        str(recipe), out=tmp_path / "run", updates=2, eval_every=1, eval_size=4, eval_metric="ece"
    )
    method = stored_method(str(result.model))
    assert method is not None
    assert method.name == "rlcr"
    card = (result.model / "README.md").read_text()
    facts = json.loads((tmp_path / "run" / "training.json").read_text())
    assert facts["settings"]["data"]["sha256"] in card
    assert "base_model" not in card.split("---")[1]  # it was a folder, which the hub does not take for one
    assert "Held out" in card
    assert [line["update"] for line in result.evals] == [1, 2]
    # Nothing this model writes has a confidence that can be scored, or else the best is kept.
    assert (result.best is not None) == any(line["ece"] is not None for line in result.evals)


def test_a_model_is_evaluated_with_the_prompt_file_it_was_trained_with(recipe: Path, tmp_path: Path) -> None:
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("Use the tags think, answer, analysis and confidence.\n")
    options: dict[str, Any] = {"prompt": str(prompt), "updates": 1, "eval_every": 1, "eval_size": 2}
    result = rlcr.train(str(recipe), out=tmp_path / "run", **options)
    asked = open_run(tmp_path / "run" / "evals" / "update-000001").settings["prompt_text"]
    assert asked == prompt.read_text().strip()
    model = str(result.model)
    for method in (None, "rlcr", "base"):
        out = tmp_path / f"eval-{method}"
        evaluate(Settings(model, ("arms",), method=method, limit=1, max_tokens=4), out)
        assert (open_run(out).settings["prompt_text"] == asked) == (method != "base")


def test_lora_is_merged_into_an_ordinary_folder(recipe: Path, tmp_path: Path) -> None:
    overrides: dict[str, Any] = {"lora.rank": 4, "updates": 2}
    result = rlcr.train(str(recipe), out=tmp_path / "run", **overrides)
    assert not (result.model / "adapter_config.json").exists()
    before, after = weights(recipe.parent / "start"), weights(result.model)
    assert before.keys() == after.keys()
    changed = {name for name in after if not torch.equal(before[name], after[name])}
    assert changed
    assert all("proj" in name for name in changed)


@pytest.mark.parametrize("sampler", ["rlcr", "transformers"])
def test_either_sampler_will_do(sampler: str, recipe: Path, tmp_path: Path) -> None:
    result = rlcr.train(str(recipe), out=tmp_path / "run", updates=1, sampler=sampler)
    rollouts = list(read_rollouts(tmp_path / "run" / "rollouts"))
    assert len(rollouts) == 12
    assert all(0 < rollout.tokens <= 12 for rollout in rollouts)
    assert 0 < result.updates[0]["well_formed"] <= 1


def test_changed_settings_are_refused_on_resume(recipe: Path, tmp_path: Path) -> None:
    rlcr.train(str(recipe), out=tmp_path / "run", updates=1)
    with pytest.raises(RlcrError, match="lr was 0.01, is 0.02"):
        rlcr.train(str(recipe), out=tmp_path / "run", updates=1, lr=0.02, resume=True)
    # Before any problem is loaded: gym would ask for the name of a data set.
    with pytest.raises(RlcrError, match='eval_task was null, is "gym"'):
        rlcr.train(str(recipe), out=tmp_path / "run", updates=1, eval_every=1, eval_task="gym", resume=True)
    with pytest.raises(RlcrError, match="not empty"):
        rlcr.train(str(recipe), out=tmp_path / "run", updates=1)


def test_a_run_of_before_a_setting_existed_is_resumed(recipe: Path, tmp_path: Path) -> None:
    """What it could not say is what it did by default."""
    rlcr.train(str(recipe), out=tmp_path / "run", updates=2, save_every=1)
    before = weights(tmp_path / "run" / "model")
    facts = read_object(tmp_path / "run" / "training.json", "")
    del facts["settings"]["confidence_replay"]
    write_object(tmp_path / "run" / "training.json", facts)
    again = rlcr.train(str(recipe), out=tmp_path / "run", updates=2, save_every=1, resume=True)
    assert same(weights(again.model), before)
    with pytest.raises(RlcrError, match="confidence_replay was 0, is 4"):
        rlcr.train(
            str(recipe), out=tmp_path / "run", updates=2, confidence_replay=4, credit="expected", resume=True
        )


def test_the_card_names_a_model_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "start").mkdir()
    assert {name: is_on_hub(name) for name in ("gpt2", "org/name", "start", "./start", "/home/me/m", "a/b/c")} == {
        "gpt2": True, "org/name": True, "start": False, "./start": False, "/home/me/m": False, "a/b/c": False
    }  # fmt: skip


def test_too_few_problems_and_a_misspelt_model_leave_nothing_behind(recipe: Path, tmp_path: Path) -> None:
    with pytest.raises(RlcrError, match="6 problems are fewer than the 25 prompts"):
        rlcr.train(str(recipe), out=tmp_path / "run", prompts=25, micro_batch=4)
    with pytest.raises(RlcrError, match="no such file or folder"):
        rlcr.train(str(recipe), out=tmp_path / "run", model="./nowhere")
    assert not (tmp_path / "run").exists()
