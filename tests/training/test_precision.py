# pyright: basic
"""What is trained is held in float32, where steps of 1e-6 count, and what is computed need not be."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.tiny import tiny_model, writing_model, writing_tokenizer
from tests.training.sft_runs import rows, write_data
from tests.training.updates import recipe, response, update

from rlcr.sample.loading import load
from rlcr.training.recipes import load_recipe
from rlcr.training.run import train_run
from rlcr.training.sft import Settings, train_sft

TEXTS = {name: [response(), response("41"), response(confidence="0.1"), response("x")] for name in "ab"}


def moved(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]) -> float:
    """The share of the weights that are not what they were; of layers, since all of them have a gradient."""
    names = [name for name in before if "proj" in name]
    changed = sum(int((before[name].float() != after[name].float()).sum()) for name in names)
    return changed / sum(before[name].numel() for name in names)


@pytest.mark.parametrize(
    ("dtype", "autocast", "least", "most"),
    [("float32", False, 0.9, 1), ("float32", True, 0.9, 1), ("bfloat16", False, 0, 0.1)],
)
def test_a_small_step_needs_weights_in_float32(
    dtype: str, autocast: bool, least: float, most: float, tmp_path: Path
) -> None:
    """The third is why it is refused: such weights hardly move, however the model computes."""
    model = tiny_model(max_position_embeddings=2048).bfloat16()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    trained = update(recipe(dtype=dtype, lr=1e-6), TEXTS, tmp_path, model, autocast=autocast)
    assert least <= moved(before, trained.trainer.model.state_dict()) <= most


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model as it is published: in bfloat16."""
    folder = tmp_path_factory.mktemp("start")
    writing_model("confidence", max_position_embeddings=2048).bfloat16().save_pretrained(folder)
    writing_tokenizer().save_pretrained(folder)
    return folder


def run(start: Path, out: Path, **changes: object) -> Path:
    settings = {
        "model": str(start), "device": "cpu", "size": 2, "prompts": 2, "group": 4, "updates": 1, "lr": 1e-6,
        "schedule": "constant", "max_prompt_tokens": 1024, "max_completion_tokens": 12, "report_to": [],
        "entropy": 0.01,  # of which every token learns, whatever it is rewarded with
        "save_every": 1, "micro_batch": 8, "warm_up": None,
    }  # fmt: skip
    return train_run(load_recipe("smollm2-rlcr", settings | changes), out).model


def test_a_run_as_we_recommend_it_moves_the_weights(start: Path, tmp_path: Path) -> None:
    model = run(start, tmp_path / "run", dtype="auto", lora=None)
    after = load(model, device="cpu", dtype="float32")[0].state_dict()
    assert moved(load(start, device="cpu")[0].state_dict(), after) > 0.9


def test_adapters_over_a_base_in_half_precision(start: Path, tmp_path: Path) -> None:
    model = run(start, tmp_path / "run", dtype="bfloat16", lora={"rank": 4, "targets": "all-linear"})
    adapters = load_file(tmp_path / "run" / "checkpoints" / "checkpoint-1" / "adapter_model.safetensors")
    assert {weight.dtype for weight in adapters.values()} == {torch.float32}
    # B is 0 at the start.
    assert all(weight.any() for name, weight in adapters.items() if "lora_B" in name)
    # What was learned is still there after merging.
    merged = load_file(model / "model.safetensors")
    base = load_file(start / "model.safetensors")
    (name, _) = next(item for item in merged.items() if "q_proj" in item[0])
    stem = f"base_model.model.{name.removesuffix('.weight')}"
    learned = adapters[f"{stem}.lora_B.weight"] @ adapters[f"{stem}.lora_A.weight"] * (32 / 4)
    torch.testing.assert_close(merged[name] - base[name].float(), learned, rtol=1e-2, atol=5e-8)


def test_the_warm_up_holds_its_weights_in_float32(start: Path, tmp_path: Path) -> None:
    data = write_data(tmp_path / "data", rows(4))  # three updates, of which the first only warms up
    train_sft(Settings(str(start), data, epochs=3, lr=1e-6, batch=4), tmp_path / "run")
    after = load_file(tmp_path / "run" / "model" / "model.safetensors")
    assert moved(load_file(start / "model.safetensors"), after) > 0.9
