# pyright: basic
"""Gradients under bfloat16 autocast, as on a GPU: within the noise that the plain way has there against float32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from tests.tiny import tiny_model
from tests.training.gradients import texts_of
from tests.training.updates import Update, recipe, update

from rlcr.engine.half import HalfWeights

TEXTS = texts_of(3, 4)
PLAIN = {"shared_prompts": False}


def made(
    out: Path, *, adapters: bool = False, autocast: bool = True, sampled: bool = False, **settings: Any
) -> Update:
    model = tiny_model(max_position_embeddings=2048, initializer_range=0.05)
    if adapters:
        torch.manual_seed(1)
        model = get_peft_model(model, LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False))
    changes = {"prompts": 3, "micro_batch": 4, "dtype": "float32", "entropy": 0.02} | settings
    return update(recipe(**changes), TEXTS, out, model, autocast=autocast, sampled=sampled)


def apart(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> float:
    """The size of the difference, relative to that of the gradient."""
    assert found.keys() == wanted.keys()
    difference = sum(float((found[name] - wanted[name]).square().sum()) for name in wanted)
    return (difference / sum(float(gradient.square().sum()) for gradient in wanted.values())) ** 0.5


@pytest.mark.parametrize("adapters", [False, True])
def test_shared_prompts_and_checkpointing_add_no_noise(adapters: bool, tmp_path: Path) -> None:
    exact = made(tmp_path / "exact", adapters=adapters, autocast=False, **PLAIN).gradient
    noise = apart(made(tmp_path / "plain", adapters=adapters, **PLAIN).gradient, exact)
    assert 1e-3 < noise < 0.1
    for name, checkpointing in (("shared", False), ("checkpointed", True)):
        found = made(tmp_path / name, adapters=adapters, gradient_checkpointing=checkpointing)
        assert found.trainer.sharing.on
        assert apart(found.gradient, exact) < 1.5 * noise


def test_sampling_from_the_copy_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"sampled": True, "max_completion_tokens": 24}
    copied = made(tmp_path / "copied", **settings)
    monkeypatch.setattr(HalfWeights, "__init__", lambda self, model: setattr(self, "_cast", []))
    cast_in_every_step = made(tmp_path / "cast", **settings)
    assert copied.rollouts == cast_in_every_step.rollouts
    assert apart(copied.gradient, cast_in_every_step.gradient) == 0
    assert {p.dtype for p in copied.trainer.model.parameters()} == {torch.float32}
