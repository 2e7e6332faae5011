# pyright: basic
"""The trainer's gradients against the oracle, against stock TRL, and however the update is cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.tiny import tiny_model
from tests.training.double import in_double
from tests.training.gradients import EQUAL, MIXED, error, exact_model, texts_of
from tests.training.oracle import grpo_step
from tests.training.updates import recipe, response, rows, stock_update, update


@pytest.mark.parametrize("credit", ["all", "analysis+confidence", "decoupled", "expected"])
@pytest.mark.parametrize(("dtype", "limit"), [("float64", 1e-9), ("float32", 1e-5)])
@pytest.mark.parametrize("texts", [MIXED, EQUAL], ids=["mixed", "equal rewards"])
def test_gradient_is_the_oracles(texts: Any, dtype: str, limit: float, credit: Any, tmp_path: Path) -> None:
    found = update(recipe(credit=credit, dtype=dtype), texts, tmp_path)
    wanted = grpo_step(exact_model(), rows(texts), credit=credit, temperature=0.7)
    assert error(found.gradient, wanted) < limit


@pytest.mark.parametrize(("groups", "size"), [(4, 2), (2, 32)])
def test_gradient_is_the_oracles_for_any_group_size(groups: int, size: int, tmp_path: Path) -> None:
    texts = texts_of(groups, size)
    found = update(recipe(prompts=groups, group=size, micro_batch=4), texts, tmp_path)
    assert error(found.gradient, grpo_step(exact_model(), rows(texts), temperature=0.7)) < 1e-9


def test_entropy_bonus_and_truncated_completions(tmp_path: Path) -> None:
    settings = recipe(entropy=0.05, mask_truncated=True, micro_batch=2)
    found = update(settings, MIXED, tmp_path)
    wanted = grpo_step(exact_model(), rows(MIXED, mask_truncated=True), temperature=0.7, entropy=0.05)
    assert error(found.gradient, wanted) < 1e-9


def test_entropy_bonus_of_the_confidence_alone(tmp_path: Path) -> None:
    found = update(recipe(credit="expected", confidence_entropy=0.05), MIXED, tmp_path)
    with_bonus, without = (
        grpo_step(exact_model(), rows(MIXED), credit="expected", temperature=0.7, confidence_entropy=bonus)
        for bonus in (0.05, 0.0)
    )
    assert error(found.gradient, with_bonus) < 1e-9
    assert error(without, with_bonus) > 1e-4


def test_kl_pulls_towards_the_start(tmp_path: Path) -> None:
    folder = tmp_path / "start"
    start, now = tiny_model(max_position_embeddings=2048), tiny_model(max_position_embeddings=2048, seed=1)
    start.save_pretrained(folder)
    now.config._name_or_path = str(folder)
    found = update(recipe(kl=0.1, dtype="float32"), MIXED, tmp_path / "run", model=now)
    wanted = grpo_step(exact_model(seed=1), rows(MIXED), temperature=0.7, kl=0.1, reference=in_double(start))
    assert error(found.gradient, wanted) < 1e-4


@pytest.mark.parametrize("credit", ["all", "analysis+confidence", "decoupled", "expected"])
def test_an_update_does_not_depend_on_how_it_is_cut(credit: Any, tmp_path: Path) -> None:
    texts = texts_of(4, 4)
    base = recipe(prompts=4, group=4, credit=credit, entropy=0.02, dtype="float32")
    whole = update(base.model_copy(update={"micro_batch": 16}), texts, tmp_path / "16").gradient
    for size in (4, 1):
        cut = update(base.model_copy(update={"micro_batch": size}), texts, tmp_path / str(size)).gradient
        assert error(cut, whole) < 1e-5


def test_micro_batch_loss_does_depend_on_it(tmp_path: Path) -> None:
    texts = texts_of(4, 4)
    base = recipe(prompts=4, group=4, loss="micro-batch")
    whole = update(base.model_copy(update={"micro_batch": 16}), texts, tmp_path / "16").gradient
    cut = update(base.model_copy(update={"micro_batch": 1}), texts, tmp_path / "1").gradient
    assert error(cut, whole) > 0.1


def test_nothing_is_learned_where_all_rewards_are_equal(tmp_path: Path) -> None:
    texts = {"a": [response()] * 4, "b": ["no tags"] * 4}
    found = update(recipe(), texts, tmp_path)
    assert max(gradient.abs().max().item() for gradient in found.gradient.values()) == 0
    assert {r.reward for r in found.rollouts if r.problem == "b"} == {-0.5}
    assert len(found.rollouts) == 8


def test_rollouts_come_in_groups_with_their_rewards(tmp_path: Path) -> None:
    found = update(recipe(micro_batch=2), MIXED, tmp_path)
    assert {request.key.partition("\0")[0] for request in found.asked} == {"a", "b"}
    assert all(request.n == 4 for request in found.asked)
    by_problem = {rollout.problem: [] for rollout in found.rollouts}
    for rollout in found.rollouts:
        by_problem[rollout.problem].append(rollout)
    assert [rollout.sample for rollout in by_problem["a"]] == [0, 1, 2, 3]
    assert by_problem["a"][0].reward == pytest.approx(0.5 + 0.5 - 0.5 * 0.01)
    assert [rollout.truncated for rollout in by_problem["b"]] == [False, False, True, False]


@pytest.mark.parametrize("loss", ["update", "micro-batch"])
def test_gradient_is_stock_trls(loss: Any, tmp_path: Path) -> None:
    settings = recipe(loss=loss, dtype="float32", micro_batch=4)
    torch.manual_seed(0)
    ours = update(settings, MIXED, tmp_path / "ours")
    torch.manual_seed(0)
    stock = stock_update(settings, MIXED, tmp_path / "stock")
    assert error(ours.gradient, stock) < 1e-5
