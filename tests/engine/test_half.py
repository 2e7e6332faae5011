# pyright: basic
"""Sampling under autocast: weights are cast once, and what is sampled is what casting in every step gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from tests.tiny import tiny_model, tiny_tokenizer
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils._python_dispatch import TorchDispatchMode

from rlcr.engine.half import HalfWeights
from rlcr.sample import Completion, Request, Sampling
from rlcr.sample.local import LocalSampler

REQUESTS = [
    Request(f"q{n}", ({"role": "user", "content": "What is the sum? " + "so " * n},), n=3) for n in range(3)
]
SAMPLING = Sampling(max_tokens=12, temperature=1.0, seed=5)


class Casts(TorchDispatchMode):
    """Counts casts from float32 to bfloat16 of what has the shape of a weight."""

    def __init__(self, shapes: set[torch.Size]) -> None:
        super().__init__()
        self.shapes, self.count = shapes, Counter[torch.Size]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        # In inference mode torch does not take `to` apart.
        if func in (torch.ops.aten._to_copy.default, torch.ops.aten.to.dtype) and out is not args[0]:
            self.count[out.shape] += out.dtype == torch.bfloat16 and out.shape in self.shapes
        return out


def autocast() -> Any:
    return torch.autocast("cpu", dtype=torch.bfloat16)


def model_of(kind: str) -> Any:
    model = tiny_model(tie_word_embeddings=kind == "tied")
    if kind != "adapters":
        return model
    adapted = get_peft_model(model, LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False))
    return adapted.eval()


def linears(model: Any) -> list[torch.nn.Linear]:
    return [module for module in model.modules() if isinstance(module, torch.nn.Linear)]


def sample(model: Any, *, fast: bool = True) -> list[Completion]:
    sampler = LocalSampler(model, tiny_tokenizer(), name="tiny", fast=fast)
    with torch.no_grad(), autocast():
        return sorted(sampler.sample(REQUESTS, SAMPLING), key=lambda c: (c.key, c.sample))


@contextmanager
def cast_in_every_step(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setattr(HalfWeights, "__init__", lambda self, model: setattr(self, "_cast", []))
        yield


@pytest.mark.parametrize("kind", ["whole", "tied", "adapters"])
@pytest.mark.parametrize("fast", [True, False])
def test_what_is_sampled_is_the_same(kind: str, fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(kind)
    before = {name: (id(p), p.dtype) for name, p in model.named_parameters()}
    ours = sample(model, fast=fast)
    with cast_in_every_step(monkeypatch):
        expected = sample(model, fast=fast)
    assert ours == expected
    assert len({completion.token_ids for completion in ours}) > 3
    assert before == {name: (id(p), p.dtype) for name, p in model.named_parameters()}


@pytest.mark.parametrize("kind", ["whole", "adapters"])
def test_weights_are_cast_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(kind)
    sampler = LocalSampler(model, tiny_tokenizer(), name="tiny")
    shapes = {layer.weight.shape for layer in linears(model)}

    def casts() -> int:
        with torch.no_grad(), autocast():
            list(sampler.sample(REQUESTS[:1], Sampling(max_tokens=1)))  # the model's trial is made once
            with Casts(shapes) as seen:
                longest = max(len(c.token_ids or ()) for c in sampler.sample(REQUESTS, SAMPLING))
        assert longest == 12
        return seen.count.total()

    assert casts() == len(linears(model))
    with cast_in_every_step(monkeypatch):
        assert casts() >= 10 * len(linears(model))


def test_without_autocast_there_is_no_copy() -> None:
    model = tiny_model()
    assert not HalfWeights(model)._cast
    with autocast():
        assert len(HalfWeights(model)._cast) == len(linears(model))
        assert not HalfWeights(model.bfloat16())._cast


def test_a_fault_leaves_the_weights_in_place() -> None:
    model = tiny_model()
    with autocast():
        weights = HalfWeights(model)
    with pytest.raises(IndexError), weights.in_place():
        raise IndexError(str(linears(model)[0].weight.dtype))
    assert all(isinstance(layer.weight, torch.nn.Parameter) for layer in linears(model))
    assert linears(model)[0].weight.dtype == torch.float32


@pytest.fixture
def one_process(tmp_path: Path) -> Iterator[None]:
    torch.distributed.init_process_group("gloo", f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("one_process")
def test_weights_in_parts_are_left_to_those_who_gather_them() -> None:
    """FSDP casts what it gathers, and would be given its own parts back in the place of whole weights."""
    model = tiny_model()
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
    for part in [*model.model.layers, model]:
        fully_shard(part, mesh=mesh, mp_policy=policy)
    ids = torch.tensor([[1, 2, 3]])
    with torch.no_grad(), autocast():
        weights = HalfWeights(model)
        with weights.in_place():
            model(input_ids=ids)
        assert model(input_ids=ids).logits.isfinite().all()
