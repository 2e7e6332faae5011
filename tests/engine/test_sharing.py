# pyright: basic
"""Shared prompts, passes by tokens, and completions left out: the same update, with less to compute."""

from __future__ import annotations

import copy
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from tests.tiny import tiny_model
from tests.training.double import in_double
from tests.training.gradients import EQUAL, MIXED, error, texts_of
from tests.training.oracle import grpo_step
from tests.training.updates import recipe, response, rows, update

from rlcr.engine import sharing
from rlcr.errors import RlcrError

KINDS = ("llama", "qwen2", "qwen3", "olmo2", "gemma3_text")


def toy(kind: str = "llama", **settings: Any) -> Any:
    return tiny_model(kind, max_position_embeddings=2048, **settings)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("dtype", "limit"), [("float64", 1e-9), ("float32", 1e-4)])
def test_gradient_is_the_oracles_for_every_family(
    kind: str, dtype: str, limit: float, tmp_path: Path
) -> None:
    found = update(recipe(dtype=dtype, entropy=0.02), MIXED, tmp_path, model=toy(kind))
    assert found.trainer.sharing.on
    wanted = grpo_step(in_double(toy(kind)), rows(MIXED), temperature=0.7, entropy=0.02)
    assert error(found.gradient, wanted) < limit


@pytest.mark.parametrize("kind", ["llama", "gemma3_text"])
def test_gradient_checkpointing_changes_nothing(kind: str, tmp_path: Path) -> None:
    found = update(recipe(gradient_checkpointing=True), MIXED, tmp_path, model=toy(kind))
    assert found.trainer.sharing.on
    assert error(found.gradient, grpo_step(in_double(toy(kind)), rows(MIXED), temperature=0.7)) < 1e-9


@pytest.mark.parametrize("checkpointing", [False, True])
def test_adapters_get_the_oracles_gradient(checkpointing: bool, tmp_path: Path) -> None:
    torch.manual_seed(5)
    model = get_peft_model(
        toy(), LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM", init_lora_weights=False)
    )
    other = copy.deepcopy(model)
    found = update(recipe(gradient_checkpointing=checkpointing), MIXED, tmp_path, model=model)
    assert found.trainer.sharing.on
    assert all("lora" in name for name in found.gradient)
    assert error(found.gradient, grpo_step(in_double(other), rows(MIXED), temperature=0.7)) < 1e-9


def test_kl_of_adapters_is_to_the_model_below_them(tmp_path: Path) -> None:
    torch.manual_seed(5)
    below = toy()
    model = get_peft_model(
        copy.deepcopy(below),
        LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM", init_lora_weights=False),
    )
    other = copy.deepcopy(model)
    found = update(recipe(kl=0.1), MIXED, tmp_path, model=model)
    assert found.trainer.sharing.on
    wanted = grpo_step(in_double(other), rows(MIXED), temperature=0.7, kl=0.1, reference=in_double(below))
    assert error(found.gradient, wanted) < 1e-9


def test_small_passes_make_the_same_update(tmp_path: Path) -> None:
    texts = texts_of(4, 4)
    wanted = grpo_step(in_double(toy()), rows(texts), temperature=0.7)
    for tokens in (1, 60, 300):  # less than a completion, less than a group, a group or two
        settings = recipe(prompts=4, micro_batch=1, max_prompt_tokens=1, max_completion_tokens=tokens)
        assert error(update(settings, texts, tmp_path / str(tokens)).gradient, wanted) < 1e-9


class Reads:
    """How many tokens a model has read with a gradient."""

    def __init__(self, model: Any) -> None:
        self.tokens = 0
        model.get_input_embeddings().register_forward_hook(self._count)

    def _count(self, _: Any, given: Any, out: Any) -> None:
        self.tokens += given[0].numel() if torch.is_grad_enabled() else 0


def test_each_prompt_is_read_once_and_the_last_token_not_at_all(tmp_path: Path) -> None:
    model = toy()
    reads = Reads(model)
    update(recipe(), MIXED, tmp_path, model=model)
    groups = rows(MIXED)
    assert reads.tokens == sum(
        len(group[0].prompt) + sum(len(row.completion) - 1 for row in group) for group in groups
    )


@pytest.mark.parametrize(("entropy", "skips"), [(0.0, True), (0.02, False)])
def test_groups_without_advantage_are_left_out(entropy: float, skips: bool, tmp_path: Path) -> None:
    found, tokens = [], []
    for shared in (True, False):
        model = toy()
        reads = Reads(model)
        settings = recipe(shared_prompts=shared, entropy=entropy)
        found.append(update(settings, EQUAL, tmp_path / str(shared), model=model))
        tokens.append(reads.tokens)
    assert error(found[0].gradient, found[1].gradient) < 1e-9
    group_a, group_b = rows(EQUAL)
    first = len(group_a[0].prompt) + sum(len(row.completion) - 1 for row in group_a)
    second = len(group_b[0].prompt) + sum(len(row.completion) - 1 for row in group_b)
    assert tokens[0] == first + second * (not skips)
    assert tokens[1] > first + second


def test_twenty_updates_are_the_same_with_and_without(tmp_path: Path) -> None:
    on, off = (
        update(
            recipe(shared_prompts=shared, updates=20, micro_batch=4, dtype="float32", adam_epsilon=1e-4),
            texts_of(2, 4),
            tmp_path / str(shared),
            model=toy(),
        )
        for shared in (True, False)
    )
    assert len(on.logged) == len(off.logged) == 20
    for ours, plain in zip(on.logged, off.logged, strict=True):
        for name in ("loss", "grad_norm", "entropy"):
            assert ours[name] == pytest.approx(plain[name], rel=1e-3, abs=1e-6)
    assert on.logged[-1]["entropy"] < 0.9 * on.logged[0]["entropy"]  # the model did learn in between


def test_twenty_updates_with_the_real_sampler_end_in_the_same_weights(tmp_path: Path) -> None:
    """What is sampled follows from the weights, so a difference would grow."""
    weights = []
    for shared in (True, False):
        settings = recipe(
            shared_prompts=shared, updates=20, entropy=0.1, max_completion_tokens=24, adam_epsilon=1e-4
        )
        made = update(settings, texts_of(2, 4), tmp_path / str(shared), model=toy(), sampled=True)
        assert len(made.rollouts) == 20 * 8
        weights.append(dict(made.trainer.model.named_parameters()))
    start = dict(in_double(toy()).named_parameters())
    on, off = weights
    assert error(on, off) < 1e-7
    assert error(on, start) > 1e-3


def test_entropy_is_logged_where_nothing_is_learned(tmp_path: Path) -> None:
    """A collapsed run has equal rewards everywhere, and its entropy is what tells."""
    texts = {"a": [response()] * 4, "b": [response()] * 4}
    on, off = (
        update(recipe(shared_prompts=shared), texts, tmp_path / str(shared), model=toy()).logged[0]["entropy"]
        for shared in (True, False)
    )
    assert on == pytest.approx(off, rel=0.2)  # of one completion, and of all


def test_attention_is_restored_when_a_pass_fails(tmp_path: Path) -> None:
    model = toy()

    def fail(_: Any, given: Any) -> None:
        if torch.is_grad_enabled():
            raise OSError("the machine is on fire")

    own = model.config._attn_implementation
    model.model.layers[1].register_forward_pre_hook(fail)
    with pytest.raises(OSError, match="on fire"):
        update(recipe(), MIXED, tmp_path, model=model)
    assert model.config._attn_implementation == own


def test_logits_in_parts_make_the_same_update(tmp_path: Path, monkeypatch: Any) -> None:
    wanted = grpo_step(in_double(toy()), rows(MIXED), temperature=0.7, entropy=0.02)
    tokens = sum(len(row.completion) for group in rows(MIXED) for row in group)
    vocabulary = toy().config.vocab_size
    for held, tile in ((tokens * vocabulary, 7 * vocabulary), (50 * vocabulary, 1)):
        monkeypatch.setattr("rlcr.engine.logps.HELD_LOGITS", held)
        monkeypatch.setattr("rlcr.engine.logps._TILE", tile)
        found = update(recipe(entropy=0.02), MIXED, tmp_path / str(held), model=toy())
        assert error(found.gradient, wanted) < 1e-9


def test_logits_changed_behind_the_head_are_the_models_own(tmp_path: Path, caplog: Any) -> None:
    with caplog.at_level(logging.WARNING):
        found = update(recipe(), MIXED, tmp_path, model=toy("granite", logits_scaling=3.0))
    assert "changes its logits behind the output layer" in caplog.text
    model = in_double(toy("granite", logits_scaling=3.0))
    assert error(found.gradient, grpo_step(model, rows(MIXED), temperature=0.7)) < 1e-9


@pytest.mark.parametrize("wasted", [0, 500])
def test_completions_of_different_lengths_attend_apart_and_make_the_same_update(
    wasted: int, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(sharing, "_WASTED", wasted)
    found = update(recipe(entropy=0.02), MIXED, tmp_path, model=toy())
    assert found.trainer.sharing.on
    wanted = grpo_step(in_double(toy()), rows(MIXED), temperature=0.7, entropy=0.02)
    assert error(found.gradient, wanted) < 1e-9


def test_cuts_between_lengths_bound_what_padding_costs(monkeypatch: Any) -> None:
    reads = np.array([5, 0, 90, 88, 7])
    for wasted, order, cuts in ((0, [2, 3, 4, 0, 1], [1, 2, 3, 4]), (500, [2, 3, 4, 0, 1], [2])):
        monkeypatch.setattr(sharing, "_WASTED", wasted)
        ordered, at = sharing._by_length(reads, 0)
        assert (ordered.tolist(), at) == (order, cuts)
    monkeypatch.setattr(sharing, "_WASTED", 10**6)
    ordered, at = sharing._by_length(reads, 0)
    assert (ordered.tolist(), at) == ([0, 1, 2, 3, 4], [])  # as they are


def test_a_completion_without_tokens_is_an_error(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("tests.training.updates.encode", lambda tokenizer, text: [])
    with pytest.raises(RlcrError, match="update 1: a completion has no tokens"):
        update(recipe(), MIXED, tmp_path)


# --- models that cannot -----------------------------------------------------------------------------


def test_a_window_shorter_than_the_sequence_takes_the_plain_way(tmp_path: Path) -> None:
    texts = {"a": MIXED["a"], "b": [response(), "no", "no", "no"]}  # only the first group has long ones
    model = toy("gemma3_text", sliding_window=70)
    reads = Reads(model)
    found = update(recipe(), texts, tmp_path, model=model)
    assert found.trainer.sharing.on
    wanted = grpo_step(in_double(toy("gemma3_text", sliding_window=70)), rows(texts), temperature=0.7)
    assert error(found.gradient, wanted) < 1e-9
    lengths = [[len(row.prompt) + len(row.completion) for row in group] for group in rows(texts)]
    assert max(lengths[0]) > 70 >= max(lengths[1])
    shared = rows(texts)[1]
    assert reads.tokens == 4 * (max(lengths[0]) - 1) + len(shared[0].prompt) + sum(
        len(row.completion) - 1 for row in shared
    )


def test_a_window_that_only_the_mask_knows_takes_the_plain_way(tmp_path: Path) -> None:
    experts = {"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 32}
    window = {"use_sliding_window": True, "sliding_window": 70, "shared_expert_intermediate_size": 32}

    def model() -> Any:
        return toy("qwen2_moe", **experts, **window)

    # The trial sees the first group of the update only; either way round the other one has long ones.
    for name, texts in {
        "first": {"a": MIXED["a"], "b": [response(), "no", "no", "no"]},
        "second": {"a": [response(), "no", "no", "no"], "b": MIXED["a"]},
    }.items():
        # Its experts do not compute in float64.
        found = update(recipe(micro_batch=4, dtype="float32"), texts, tmp_path / name, model=model())
        assert found.trainer.sharing.on
        wanted = grpo_step(model(), rows(texts), temperature=0.7)
        assert error(found.gradient, wanted) < 1e-4


def test_dropout_takes_the_plain_way(tmp_path: Path, caplog: Any) -> None:
    settings = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM", lora_dropout=0.1)
    with caplog.at_level(logging.WARNING, logger="rlcr"):
        found = update(recipe(), MIXED, tmp_path, model=get_peft_model(toy(), settings))
    assert not found.trainer.sharing.on
    assert "since it drops out at random while it learns" in caplog.text


def test_attention_that_ours_lacks_is_found_out(tmp_path: Path, caplog: Any) -> None:
    with caplog.at_level(logging.WARNING, logger="rlcr"):
        found = update(recipe(), MIXED, tmp_path, model=toy("gemma2", attn_logit_softcapping=5.0))
    assert not found.trainer.sharing.on
    assert "its attention has capped scores" in caplog.text
    wanted = grpo_step(in_double(toy("gemma2", attn_logit_softcapping=5.0)), rows(MIXED), temperature=0.7)
    # Looser than elsewhere: some of it is computed in float32, whose rounding depends on the shape of a batch.
    assert error(found.gradient, wanted) < 1e-7


def by_place(model: Any) -> Any:
    """A model that looks at where a token stands in its row, which packing changes."""

    def add(_: Any, given: Any) -> Any:
        hidden_BLH, *others = given
        places_L1 = torch.arange(hidden_BLH.shape[1])[:, None] / 50
        return (hidden_BLH + places_L1.to(hidden_BLH.dtype), *others)

    model.model.layers[0].register_forward_pre_hook(add)
    return model


def test_a_mismatch_falls_back_loudly(tmp_path: Path, caplog: Any) -> None:
    with caplog.at_level(logging.WARNING, logger="rlcr"):
        found = update(recipe(), MIXED, tmp_path, model=by_place(toy()))
    assert not found.trainer.sharing.on
    assert "log-probabilities with a shared prompt differ from those without: by" in caplog.text
    wanted = grpo_step(by_place(in_double(toy())), rows(MIXED), temperature=0.7)
    assert error(found.gradient, wanted) < 1e-9


@pytest.mark.parametrize(
    ("settings", "texts", "model"),
    [
        ({"mask_truncated": True}, {"a": ["so the sum…"] * 4, "b": ["no…"] * 4}, {}),
        ({"credit": "analysis+confidence"}, {"a": ["so the sum"] * 4, "b": ["no", "so"] * 2}, {}),
        ({}, MIXED, {"kind": "gemma3_text", "sliding_window": 10}),
    ],
    ids=["all truncated", "all malformed", "none fits the window"],
)
def test_the_trial_compares_where_nothing_is_learned(
    settings: Any, texts: Any, model: Any, tmp_path: Path, caplog: Any
) -> None:
    """The first update may have nothing to learn from; the model is tried all the same."""
    with caplog.at_level(logging.WARNING, logger="rlcr"):
        found = update(recipe(**settings), texts, tmp_path, model=by_place(toy(**model)))
    assert not found.trainer.sharing.on
    assert "log-probabilities with a shared prompt differ from those without: by" in caplog.text


def without_attention(model: Any) -> Any:
    for layer in model.model.layers:
        layer.self_attn.forward = lambda hidden_states, **_: (hidden_states, None)
    return model


def of_short_rows(model: Any) -> Any:
    """A model that refuses rows as long as a packed one, though not the few tokens of the first trial."""

    def check(_: Any, given: Any) -> None:
        if given[0].shape[1] > 200:
            raise ValueError("longer than 200 tokens")

    model.model.layers[0].register_forward_pre_hook(check)
    return model


@pytest.mark.parametrize(
    ("special", "reason"),
    [
        (without_attention, "some of its layers do without our attention"),
        (of_short_rows, "a trial failed (ValueError: longer than 200 tokens)"),
    ],
)
def test_a_trial_that_fails_falls_back(special: Any, reason: str, tmp_path: Path, caplog: Any) -> None:
    with caplog.at_level(logging.WARNING, logger="rlcr"):
        found = update(recipe(), MIXED, tmp_path, model=special(toy()))
    assert not found.trainer.sharing.on
    assert reason in caplog.text
    wanted = grpo_step(special(in_double(toy())), rows(MIXED), temperature=0.7)
    assert error(found.gradient, wanted) < 1e-9
