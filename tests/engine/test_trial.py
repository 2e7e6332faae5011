# pyright: basic
"""The trial of packing in half precision: noise does not fail it, a wrong way does, and it says what it saw."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.tiny import tiny_model

from rlcr.engine.batches import Sample
from rlcr.engine.trial import _agreement, try_packed


def samples(count: int = 8, tokens: int = 200) -> list[Sample]:
    drawn = np.random.default_rng(0).integers(3, 300, (count, 60 + tokens)).tolist()
    none, counted = np.zeros(0), np.zeros(0, dtype=bool)
    prompts = [drawn[0][:60], drawn[-1][:41]]
    return [Sample(row * 2 // count, prompts[row * 2 // count], ids[60:], none, counted) for row, ids in enumerate(drawn)]  # fmt: skip


def noise(seed: int, size: float) -> torch.Tensor:
    return torch.randn(12_288, generator=torch.Generator().manual_seed(seed)).abs() * size


def test_a_token_of_thousands_that_differs_by_chance_fails_nothing() -> None:
    apart_N = noise(0, 0.03)
    apart_N[5] = 0.7
    fits, measured = _agreement(apart_N, noise(1, 0.03), torch.bfloat16)
    assert fits
    assert measured.startswith(
        "by 0.02, 0.05, 0.078 nats (50%, 90%, 99% of 12,288 tokens), where other batches"
    )


@pytest.mark.parametrize(("share", "off"), [(0.02, 3.0), (0.2, 0.4), (1.0, 0.1)])
def test_a_wrong_way_fails_whether_it_touches_few_tokens_or_all(share: float, off: float) -> None:
    apart_N = noise(0, 0.01)
    apart_N[: int(share * len(apart_N))] += off
    assert not _agreement(apart_N, noise(1, 0.01), torch.bfloat16)[0]


def test_a_noisy_model_is_held_to_its_own_noise() -> None:
    assert _agreement(noise(0, 0.3), noise(1, 0.3), torch.bfloat16)[0]
    assert not _agreement(noise(0, 0.3), noise(1, 0.01), torch.bfloat16)[0]
    assert not _agreement(torch.tensor([0.0, 2e-3]), None, torch.float32)[0]


def test_a_real_model_in_half_precision_passes_and_says_what_was_measured() -> None:
    model = tiny_model(num_hidden_layers=6, initializer_range=0.3, max_position_embeddings=1024)
    with torch.autocast("cpu", torch.bfloat16):
        found = try_packed(model, samples(), rows=8)
    assert found.reason is None
    assert "of 1,600 tokens), where other batches alone make" in found.measured


def test_a_model_that_looks_at_places_in_its_row_is_found_out_in_half_precision() -> None:
    model = tiny_model(max_position_embeddings=1024)

    def by_place(_: object, given: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        hidden_BLH, *others = given
        return (hidden_BLH + torch.arange(hidden_BLH.shape[1])[:, None] / 50, *others)

    model.model.layers[0].register_forward_pre_hook(by_place)
    with torch.autocast("cpu", torch.bfloat16):
        found = try_packed(model, samples(), rows=8)
    assert str(found.reason).startswith(
        "log-probabilities with a shared prompt differ from those without: by"
    )


def test_a_single_row_is_tried_too() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        assert try_packed(tiny_model(), samples(2, 20)[:1], rows=1).reason is None
