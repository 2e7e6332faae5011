# pyright: basic
"""8-bit Adam: a clear error where bitsandbytes is missing, states in 8 bits where it is there."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.gradients import MIXED
from tests.training.updates import recipe, update

from rlcr.errors import RlcrError
from rlcr.training.preflight.device import check_machine
from rlcr.training.preflight.launch import check_launch
from rlcr.training.preflight.memory import estimate
from rlcr.training.preflight.model_shape import KNOWN

INSTALLED = importlib.util.find_spec("bitsandbytes") is not None
SETTINGS = recipe(optimizer="adam8bit", dtype="float32")


@pytest.mark.skipif(INSTALLED, reason="bitsandbytes is installed")
def test_it_says_what_is_missing() -> None:
    with pytest.raises(RlcrError, match="bitsandbytes.*pip install bitsandbytes"):
        check_machine(SETTINGS, "cpu")


@pytest.mark.skipif(not INSTALLED, reason="needs bitsandbytes")
def test_its_states_have_eight_bits(tmp_path: Path) -> None:
    trainer = update(SETTINGS, MIXED, tmp_path).trainer
    optimizer: Any = getattr(trainer.optimizer, "optimizer", trainer.optimizer)
    # Of embeddings and of small tensors bitsandbytes keeps 32 bits.
    large = [state for p, state in optimizer.state.items() if p.numel() >= 4096]
    assert any(state["state1"].dtype == state["state2"].dtype == torch.uint8 for state in large)


def test_it_takes_a_quarter_of_the_memory_and_is_refused_where_states_are_divided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole, small = (
        estimate(recipe(optimizer=name), KNOWN["Qwen/Qwen2.5-7B"]) for name in ("adam", "adam8bit")
    )
    assert small.adam < 0.26 * whole.adam / 2  # recipe() is in float64
    check_launch(SETTINGS)
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    monkeypatch.setenv("FSDP_VERSION", "2")
    with pytest.raises(RlcrError, match="adam8bit has only been tried where each process holds the whole"):
        check_launch(recipe(optimizer="adam8bit", sampler="vllm"))
