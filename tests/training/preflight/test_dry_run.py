"""The dry run: every recipe, offline, with all that can be known and a name for what cannot."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.tiny import tiny_model, tiny_tokenizer

from rlcr.cli import training
from rlcr.errors import RlcrError
from rlcr.training.preflight.dry_run import DryRun, dry_run
from rlcr.training.preflight.model_shape import KNOWN, find_shape, find_tokenizer
from rlcr.training.recipes import RECIPES, load_recipe

MEMORY = "Memory of one device that holds everything, roughly"
LAUNCHES = "Memory of each of several devices, roughly"
REWARD = "Reward of crafted responses"


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No network, and nobody's caches."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv("RLCR_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("RLCR_DATA", raising=False)


@pytest.fixture
def model_folder(tmp_path: Path) -> str:
    folder = tmp_path / "model"
    tiny_tokenizer().save_pretrained(folder)
    tiny_model().config.save_pretrained(folder)
    return str(folder)


def rewards(found: DryRun) -> dict[str, float]:
    """The reward of each crafted response."""
    lines = found.block(REWARD).splitlines()[2:]
    return {line.split("  ")[0]: float(line.split()[-1]) for line in lines}


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_without_network(name: str) -> None:
    resolved = load_recipe(name)
    found = dry_run(resolved)
    assert not found.error
    recipe = resolved.recipe
    text = str(found)
    assert (
        f"{recipe.prompts} prompts x {recipe.group} = {recipe.completions:,} completions per update" in text
    )
    assert text.count("── Prompt of ") == 2
    unknown = "\n".join(found.unknown)
    assert f"prompt lengths and the chat template: no tokenizer of {recipe.model}" in unknown
    assert ("problems: " in unknown) == (recipe.task not in ("arms", "gym"))
    assert ("model: the run starts from the model that" in unknown) == (recipe.after is not None)
    if recipe.model in KNOWN:
        assert "together" in found.block(MEMORY)
        assert "zero2" in found.block(LAUNCHES)
    else:
        assert found.block(MEMORY) == "unknown: no config.json of the model offline"
    got = rewards(found)
    assert got["malformed"] == min(got.values())
    if "wrong" not in got:
        right, wrong = got["right, sure (0.9)"], got["wrong, sure (0.9)"]
        assert right > got["right, unsure (0.1)"]
        assert wrong < got["wrong, unsure (0.1)"]
        assert wrong > got["malformed"]


def test_rewards_of_the_crafted_responses() -> None:
    got = rewards(dry_run(load_recipe("hotpotqa-rlcr")))
    assert got == pytest.approx(
        {"right, sure (0.9)": 0.995, "right, unsure (0.1)": 0.595, "wrong, sure (0.9)": 0.095,
         "wrong, unsure (0.1)": 0.495, "malformed": -0.5}
    )  # fmt: skip
    assert rewards(dry_run(load_recipe("hotpotqa-rlvr"))) == {"right": 1.0, "wrong": 0.5, "malformed": 0.0}
    abstention = rewards(dry_run(load_recipe("hotpotqa-abstention")))
    assert abstention == {"right": 1.0, "wrong": 0.5, "I don't know": 0.75, "malformed": 0.0}


def test_batch_arithmetic() -> None:
    assert dry_run(load_recipe("hotpotqa-rlcr")).block("Batch").splitlines() == [
        "64 prompts x 32 = 2,048 completions per update",
        "learned from in passes of up to 36,864 tokens, each prompt once for its group",
        "on 1 device: 2,048 completions",
        "on 2 devices: 1,024 completions",
        "on 4 devices: 512 completions",
        "on 8 devices: 256 completions",
        "20,000 problems / 64 = 312 updates per epoch (32 problems of each shuffle are left over)",
        "312 updates in all, 1 times through the problems: 638,976 completions",
    ]
    plain = dry_run(load_recipe("hotpotqa-rlcr", {"shared_prompts": False})).block("Batch")
    assert "on 4 devices: micro-batches of 8, accumulated over 64" in plain.splitlines()
    small = {"updates": 3, "prompts": 64, "group": 16, "micro_batch": 1024, "size": 10_000}
    limited = dry_run(load_recipe("tiny-arms-brier", small)).block("Batch")
    assert "3 updates in all, 0.0192 times through the problems: 3,072 completions" in limited


def test_with_the_models_tokenizer(model_folder: str) -> None:
    found = dry_run(
        load_recipe("smollm2-rlcr", {"model": model_folder, "max_prompt_tokens": 2000, "size": 100})
    )
    assert not found.unknown
    assert not found.error
    text = str(found)
    assert "── Prompt of gym-chain_sum/train/0-0 (the model's chat template)\n<|im_start|>system\n" in text
    lengths = found.block("Prompt lengths")
    assert "█" in lengths
    assert "over the limit and left out: 0 (0.00%)" in lengths
    counted = [
        int(line.split("  ")[-2 if "█" in line else -1].replace(",", ""))
        for line in lengths.splitlines()[:-1]
    ]
    assert sum(counted) == 100


def test_too_many_long_prompts_are_shown_and_then_an_error(model_folder: str) -> None:
    resolved = load_recipe("smollm2-rlcr", {"model": model_folder, "max_prompt_tokens": 10})
    found = dry_run(resolved)
    assert found.error.startswith("2,000 of 2,000 prompts (100.0%) are longer than max_prompt_tokens = 10")
    assert "over the limit and left out: 2,000 (100.00%)" in found.block("Prompt lengths")
    assert "and 1,995 more" in found.block("Prompt lengths")
    assert REWARD in str(found)


def test_data_that_is_here_but_too_small_is_an_error(tmp_path: Path) -> None:
    rows = [{"question": f"{n} + 1?", "answer": f"so\n#### {n + 1}"} for n in range(20)]
    (tmp_path / "gsm8k").mkdir()
    (tmp_path / "gsm8k" / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    changes: dict[str, Any] = {"task": "gsm8k", "task_settings": None, "method": "rlcr", "size": 30}
    found = dry_run(load_recipe("smollm2-rlcr", changes), tmp_path)
    assert found.error == "gsm8k: 30 problems asked for, but the train source holds 20"
    assert REWARD in str(found)
    found = dry_run(load_recipe("smollm2-rlcr", changes | {"size": 20}), tmp_path)
    assert not found.error
    assert "20 problems of gsm8k, train" in found.block("Data")


def test_a_folder_in_use_is_found_by_the_dry_run(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    with pytest.raises(RlcrError, match="not empty"):
        training.train("smollm2-rlcr", out=tmp_path, dry_run=True)
    training.train("smollm2-rlcr", out=tmp_path, dry_run=True, resume=True)


def test_held_out_problems_are_shown_and_checked(tmp_path: Path) -> None:
    assert dry_run(load_recipe("smollm2-rlcr")).block("Held out") == "no evaluation (eval_every=null)"
    found = dry_run(
        load_recipe("smollm2-rlcr", {"eval_every": 5, "eval_size": 30, "task_settings.max_terms": 3})
    )
    assert not found.error
    lines = found.block("Held out").splitlines()
    assert lines[0] == "every 5 updates; the best by reward is kept"
    assert lines[1] == "30 problems of gym, test, from reasoning-gym chain_sum"
    # What is at hand is looked at, even where the problems to train on are not.
    for task in ("tiny-arms-brier", "hotpotqa-rlcr"):
        found = dry_run(load_recipe(task, {"eval_every": 5, "eval_task": "gym"}))
        assert found.error == "eval_every: gym: give the setting dataset, the name of a reasoning-gym dataset"
    found = dry_run(load_recipe("smollm2-rlcr", {"eval_every": 5, "eval_task": "math500"}))
    assert not found.error
    assert found.unknown[-1].startswith("held-out problems: eval_every: ")


def test_packages_that_are_missing_here_are_named() -> None:
    if find_spec("trackio"):
        pytest.skip("trackio is installed")
    found = dry_run(load_recipe("smollm2-rlcr", {"report_to": ["trackio"]}))
    assert not found.error
    assert "whether it runs: trackio is not installed here" in found.unknown


def test_code_of_the_users_own_is_not_run_and_it_says_so() -> None:
    found = dry_run(load_recipe("smollm2-rlcr", {"verifier": "no_such_module:right"}))
    assert found.unknown[-1].startswith("what no_such_module:right says: your own code is not run here")


@pytest.mark.parametrize(
    ("model", "published"),
    [("Qwen/Qwen2.5-7B", 7.62e9), ("Qwen/Qwen3-8B", 8.19e9), ("allenai/OLMo-2-1124-7B-Instruct", 7.30e9),
     ("HuggingFaceTB/SmolLM2-135M-Instruct", 134.5e6)],
)  # fmt: skip
def test_known_sizes_give_the_published_parameter_counts(model: str, published: float) -> None:
    assert KNOWN[model].parameters == pytest.approx(published, rel=2e-3)


@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_the_shape_in_a_config_gives_the_models_own_count(tmp_path: Path, kind: str) -> None:
    model = tiny_model(kind)
    model.config.save_pretrained(tmp_path)
    shape, source = find_shape(str(tmp_path))
    assert source == "config.json"
    assert shape is not None
    matrices = {p.data_ptr(): p.numel() for p in model.parameters() if p.dim() > 1}
    assert shape.parameters == sum(matrices.values())


def test_the_count_of_adapter_weights(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    model = tiny_model()
    model.config.save_pretrained(tmp_path)
    shape, _ = find_shape(str(tmp_path))
    assert shape is not None
    adapted = peft.get_peft_model(
        model, peft.LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
    )
    trained = sum(p.numel() for p in adapted.parameters() if p.requires_grad)
    assert shape.adapter_parameters(4) == trained


def test_a_tokenizer_in_the_hubs_cache_is_found(tmp_path: Path) -> None:
    place = tmp_path / "hf" / "hub" / "models--owner--name"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text("abc")
    tiny_tokenizer().save_pretrained(place / "snapshots" / "abc")
    tiny_model().config.save_pretrained(place / "snapshots" / "abc")
    tokenizer, _ = find_tokenizer("owner/name")
    assert tokenizer is not None
    assert tokenizer.chat_template
    assert find_shape("owner/name")[1] == "config.json"
    assert find_tokenizer("owner/other")[0] is None


def test_the_command_neither_loads_nor_writes(tmp_path: Path) -> None:
    code = (
        "import sys; from rlcr.cli.commands import app; app(sys.argv[1:], standalone_mode=False);"
        " assert 'torch' not in sys.modules"
    )
    out = tmp_path / "run"
    done = subprocess.run(
        [sys.executable, "-c", code, "train", "tiny-arms-log", "lr=1e-4", "--dry-run", "--out", str(out)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "── Not known here" in done.stdout
    assert not out.exists()
