# pyright: basic
"""Sampler and trainer compared token by token, and truncated importance sampling against the oracle."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.gradients import MIXED, error, exact_model
from tests.training.oracle import grpo_step
from tests.training.updates import recipe, rows, update

from rlcr.training.mismatch import FAR, MISMATCH, Mismatch, importance


@pytest.mark.parametrize(("credit", "entropy"), [("all", 0.0), ("decoupled", 0.02), ("expected", 0.0)])
@pytest.mark.parametrize("cap", [1.2, 1e6])
def test_truncated_importance_is_the_oracles(credit: Any, entropy: float, cap: float, tmp_path: Path) -> None:
    settings = recipe(credit=credit, importance_cap=cap, entropy=entropy, micro_batch=2)
    found = update(settings, MIXED, tmp_path)
    same = {"credit": credit, "entropy": entropy, "temperature": 0.7}
    assert error(found.gradient, grpo_step(exact_model(), rows(MIXED), cap=cap, **same)) < 1e-9
    # It matters here: the oracle without it is far away.
    assert error(found.gradient, grpo_step(exact_model(), rows(MIXED), **same)) > 0.05


def test_what_is_logged_is_what_the_tokens_say(tmp_path: Path) -> None:
    """The same differences by plain forward passes, of every completion that is learned from."""
    (logged,) = update(recipe(importance_cap=1.5), MIXED, tmp_path).logged
    model, differences = exact_model(), []
    for row in (row for group in rows(MIXED) for row in group):
        ids = torch.tensor([row.prompt + row.completion])
        logits_TV = model(ids).logits[0, len(row.prompt) - 1 : -1] / 0.7
        own_T = logits_TV.log_softmax(-1).gather(1, torch.tensor(row.completion)[:, None])[:, 0]
        assert row.sampled is not None
        differences += (own_T - torch.tensor(row.sampled, dtype=torch.float64)).tolist()
    sizes = [abs(difference) for difference in differences]
    assert logged["mismatch_mean"] == pytest.approx(sum(sizes) / len(sizes))
    assert logged["mismatch_max"] == pytest.approx(max(sizes))
    assert logged["mismatch_far"] == pytest.approx(sum(size > FAR for size in sizes) / len(sizes))
    capped = sum(math.exp(difference) > 1.5 for difference in differences) / len(differences)
    assert logged["importance_capped"] == pytest.approx(capped)
    assert 0 < capped < 1


@pytest.mark.parametrize("sampler", ["rlcr", "transformers"])
def test_our_samplers_draw_by_the_probabilities_that_are_learned_from(sampler: str, tmp_path: Path) -> None:
    settings = recipe(sampler=sampler, dtype="float32", max_completion_tokens=16)
    (logged,) = update(settings, MIXED, tmp_path, sampled=True).logged
    assert logged["mismatch_max"] < 1e-4
    assert 0 < logged["mismatch_mean"] < 1e-5
    assert logged["mismatch_far"] == 0
    assert logged["importance_capped"] is None  # no correction where we sample ourselves


def test_unknown_probabilities_are_neither_compared_nor_corrected() -> None:
    logps_N = torch.tensor([-1.0, -2.0, -3.0])
    weights_N, mismatch = importance(logps_N, torch.tensor([-2.0, math.nan, -2.0]), cap=2.0)
    assert weights_N.tolist() == pytest.approx([2.0, 1.0, math.exp(-1)])
    assert mismatch == Mismatch(compared=2, apart=2.0, far=2, capped=1, furthest=1.0)
    weights_N, mismatch = importance(logps_N, torch.full((3,), math.nan), cap=2.0)
    assert weights_N.tolist() == [1.0, 1.0, 1.0]
    assert mismatch.numbers(2.0) == dict.fromkeys(MISMATCH)


def test_parts_add_up() -> None:
    together = Mismatch.of([Mismatch(2, 1.0, 1, 0, 0.75), Mismatch(), Mismatch(1, 0.25, 1, 1, 0.25)])
    assert together == Mismatch(3, 1.25, 2, 1, 0.75)


def test_it_is_on_for_vllm_and_off_where_we_sample() -> None:
    assert recipe().importance is None
    assert recipe(sampler="vllm").importance == 2.0
    assert recipe(sampler="vllm", importance_cap=None).importance is None
    assert recipe(importance_cap=3).importance == 3.0
