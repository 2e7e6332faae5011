# pyright: basic
"""How many tokens the sampler's cache may hold by itself."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.tiny import tiny_model, tiny_tokenizer

from rlcr.engine.decoding import PackedModel
from rlcr.engine.half import HalfWeights
from rlcr.engine.slabs import Slab
from rlcr.errors import RlcrError
from rlcr.sample import Request, Sampling, budget
from rlcr.sample.local import LocalSampler


def held(model: Any, tokens: int) -> int:
    """Bytes that our cache really holds of a prompt of so many tokens."""
    slab: Slab[Any] = Slab(tokens)
    slab.add(SimpleNamespace())
    packed = PackedModel(model, HalfWeights(model))
    with packed.active():
        packed.prefill([[0] * tokens], [(slab, 0)])
    return sum(buffer.numel() * buffer.itemsize for pair in slab.layers.values() for buffer in pair)


@pytest.mark.parametrize("autocast", [True, False])
def test_bytes_of_a_token_are_those_of_a_real_cache(autocast: bool) -> None:
    model = tiny_model()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        assert budget.cache_bytes(model) * 11 == held(model, 11)


def test_half_of_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model()  # 512 bytes a token
    for free, tokens in ((10_240_000, 10_000), (1000, budget.LEAST), (10**12, budget.MOST_ON_CPU)):
        monkeypatch.setattr(budget, "free_memory", lambda device, free=free: free)
        assert budget.default_budget(model) == tokens


def test_processes_of_a_machine_share_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    device = torch.device("cpu")
    alone = budget.free_memory(device)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert alone / 5 < budget.free_memory(device) < alone / 3


def test_a_sampler_asks_when_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(budget, "default_budget", lambda model: asked.append(model) or 4096)
    model, requests = tiny_model(), [Request("q", ({"role": "user", "content": "so"},))]
    list(LocalSampler(model, tiny_tokenizer(), name="tiny").sample(requests, Sampling(max_tokens=2)))
    list(
        LocalSampler(model, tiny_tokenizer(), name="tiny", token_budget=99).sample(
            requests, Sampling(max_tokens=2)
        )
    )
    assert asked == [model]
    with pytest.raises(RlcrError, match="must be at least 1, not 0"):
        LocalSampler(model, tiny_tokenizer(), name="tiny", token_budget=0)
