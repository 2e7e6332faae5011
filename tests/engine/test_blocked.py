# pyright: basic
"""Linear layers in blocks of outputs: the same numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
import torch
from peft import LoraConfig, get_peft_model
from tests.tiny import tiny_model, tiny_tokenizer

from rlcr.engine.blocked import block_count, blocked_linears
from rlcr.sample import Request, Sampling
from rlcr.sample.local import LocalSampler


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(16, 64), (1, 5, 64), (300, 64), (64,), (0, 64)])
@pytest.mark.parametrize(("dtype", "allowed"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_products_are_those_of_the_layer(
    shape: tuple[int, ...], bias: bool, dtype: torch.dtype, allowed: float
) -> None:
    layer = torch.nn.Linear(64, 128, bias=bias, dtype=dtype)
    x = torch.randn(shape, dtype=dtype)
    wanted = layer(x)
    with blocked_linears(layer):
        assert "forward" in vars(layer)
        found = layer(x)
    assert found.shape == wanted.shape
    assert found.is_contiguous()
    torch.testing.assert_close(found, wanted, rtol=allowed, atol=allowed)


def test_layers_are_afterwards_as_they_were() -> None:
    adapter = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM", init_lora_weights=False)
    model = get_peft_model(tiny_model(), adapter)
    ids = torch.arange(12)[None]
    wanted = model(ids).logits
    with suppress(OSError), blocked_linears(model):
        assert any("forward" in vars(module) for module in model.modules())
        torch.testing.assert_close(model(ids).logits, wanted, rtol=1e-4, atol=1e-4)
        raise OSError
    assert not any("forward" in vars(module) for module in model.modules())


def test_layers_that_others_have_changed_are_left_alone() -> None:
    layer = torch.nn.Linear(64, 128)
    layer.forward = lambda input: input
    with blocked_linears(layer):
        assert layer(torch.ones(64)).shape == (64,)
    assert layer(torch.ones(64)).shape == (64,)


def test_the_sampler_writes_the_same_with_one_thread_and_two() -> None:
    sampler = LocalSampler(tiny_model(), tiny_tokenizer(), name="tiny")
    requests = [Request(str(n), ({"role": "user", "content": "sum " * n},), 3) for n in (1, 5, 9)]
    made = []
    for threads in (2, 1):
        torch.set_num_threads(threads)
        found = sampler.sample(requests, Sampling(max_tokens=20, temperature=0.7))
        made.append({(c.key, c.sample): c.token_ids for c in found})
    assert made[0] == made[1]


def test_half_precision_is_left_alone() -> None:
    layer = torch.nn.Linear(64, 128)
    with torch.autocast("cpu", torch.bfloat16), blocked_linears(layer):
        assert "forward" not in vars(layer)
    with blocked_linears(layer.to(torch.bfloat16)):
        assert "forward" not in vars(layer)


def test_one_thread_has_nothing_to_divide() -> None:
    torch.set_num_threads(1)
    layer = torch.nn.Linear(64, 128)
    with blocked_linears(layer):
        assert "forward" not in vars(layer)


@pytest.mark.parametrize(("outputs", "threads"), [(576, 2), (1536, 4), (49152, 8), (151936, 2), (64, 2)])
def test_blocks_are_equal_and_as_many_for_each_thread(outputs: int, threads: int) -> None:
    blocks = block_count(outputs, threads)
    assert blocks is not None
    assert outputs % blocks == 0
    assert blocks % threads == 0
    assert 32 <= outputs // blocks <= 256


def test_outputs_that_cannot_be_cut() -> None:
    assert block_count(50257, 2) is None
    assert block_count(32, 2) is None
