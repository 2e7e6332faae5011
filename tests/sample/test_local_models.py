"""The local sampler and its model: models that cannot run packed, changed and damaged weights, interruptions."""

import logging
import math

import pytest
import torch
from tests.sample.local_samples import GREEDY, SAMPLED, check_logprobs, make_requests, prompt_ids, run
from tests.tiny import tiny_model

from rlcr.engine.trial import Trial, try_packed
from rlcr.errors import RlcrError
from rlcr.sample import Sampling
from rlcr.sample.local import LocalSampler


def test_an_interrupted_sampler_can_be_used_again_and_leaves_the_model_alone(tokenizer) -> None:
    model = tiny_model()
    sampler = LocalSampler(model, tokenizer, name="x", max_rows=4)
    model.train()
    model.model.layers[0].eval()
    requests = make_requests(n=2)
    reference = run(sampler, requests, SAMPLED)
    stream_of = sampler.sample(requests, SAMPLED)
    next(stream_of)
    assert model.training
    assert not model.model.layers[0].training
    assert model.config._attn_implementation == "sdpa"
    assert not torch.is_inference_mode_enabled()
    loss = model(input_ids=torch.tensor([[5, 6, 7]]), labels=torch.tensor([[5, 6, 7]])).loss
    loss.backward()  # in the middle of sampling
    stream_of.close()
    assert run(sampler, requests, SAMPLED) == reference
    original = model.model.layers[1].forward

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    model.model.layers[1].forward = interrupt
    with pytest.raises(KeyboardInterrupt):
        list(sampler.sample(requests, SAMPLED))
    model.model.layers[1].forward = original
    assert model.training
    assert run(sampler, requests, SAMPLED) == reference


def test_changed_weights_are_used_at_once(tokenizer) -> None:
    model = tiny_model()
    sampler = LocalSampler(model, tokenizer, name="x")
    requests = make_requests()
    before = run(sampler, requests, GREEDY)
    other = tiny_model(seed=1)
    model.load_state_dict(other.state_dict())
    after = run(sampler, requests, GREEDY)
    assert after != before
    assert after == run(LocalSampler(other, tokenizer, name="x"), requests, GREEDY)


def test_damaged_weights_are_an_error_and_not_text(tokenizer) -> None:
    model = tiny_model()
    sampler = LocalSampler(model, tokenizer, name="x")
    run(sampler, make_requests(1), GREEDY)
    torch.nn.init.constant_(model.model.norm.weight, math.nan)
    with pytest.raises(RlcrError, match="not a number"):
        list(sampler.sample(make_requests(1), GREEDY))


@pytest.mark.parametrize(
    ("family", "settings", "reason"),
    [
        ("gemma2", {"attn_implementation": "eager"}, "capped scores"),
        ("mamba", {}, "linear_attention"),
        ("llama", {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}}, "rotary"),
        ("mistral", {"sliding_window": 20}, "attention window of 20"),
        ("gpt2", {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 512}, None),
    ],
)
def test_models_that_cannot_run_packed_take_the_plain_path_and_say_so(
    family, settings, reason, tokenizer, caplog
) -> None:
    model = tiny_model(family, **settings)
    requests = make_requests(3, n=2)
    with caplog.at_level(logging.WARNING, logger="rlcr"):
        found = run(LocalSampler(model, tokenizer, name=family), requests, SAMPLED)
    messages = " ".join(record.message for record in caplog.records)
    if reason is None:
        assert not messages
    else:
        assert reason in messages
    assert len(found) == 6
    for request in requests:
        for sample in range(2):
            check_logprobs(model, prompt_ids(tokenizer, request), found[request.key, sample])


def test_both_paths_agree(model, tokenizer) -> None:
    requests = make_requests(n=2)
    sampling = Sampling(24, 0.8, 0.95, ("</think>", "é"), 7)
    fast = run(LocalSampler(model, tokenizer, name="x"), requests, sampling)
    plain = run(LocalSampler(model, tokenizer, name="x", fast=False), requests, sampling)
    assert {k: (c.text, c.finish_reason) for k, c in fast.items()} == {
        k: (c.text, c.finish_reason) for k, c in plain.items()
    }


def test_half_precision_and_a_model_that_only_pretends(tokenizer) -> None:
    assert try_packed(tiny_model().bfloat16()) == Trial()
    broken = tiny_model()
    attention = broken.model.layers[0].self_attn
    original = attention.forward
    # A layer that looks at its neighbours in the packed row, as convolutions and recurrences do.
    attention.forward = lambda hidden_states, **kwargs: original(
        hidden_states=hidden_states + hidden_states.roll(1, dims=1), **kwargs
    )
    assert "log-probabilities with a shared prompt differ" in str(try_packed(broken).reason)
