"""The local sampler against slow obvious versions: transformers' generate, plain forward passes, counting."""

import math
import random

import numpy as np
import pytest
import torch
from tests.sample.local_samples import (
    GREEDY,
    SAMPLED,
    assert_same_or_tied,
    check_logprobs,
    make_requests,
    plain_logits,
    prompt_ids,
    run,
    user,
    writings,
)
from tests.tiny import tiny_model, tiny_tokenizer
from tokenizers.processors import TemplateProcessing

from rlcr.engine.decoding import PackedModel
from rlcr.engine.half import HalfWeights
from rlcr.errors import RlcrError
from rlcr.sample import Refused, Request, Sampling
from rlcr.sample.batch import Batch
from rlcr.sample.jobs import Maker
from rlcr.sample.local import LocalSampler

FAMILIES = ["llama", "qwen2", "qwen3", "olmo2", "gemma3_text"]


@pytest.fixture
def sampler(model, tokenizer) -> LocalSampler:
    return LocalSampler(model, tokenizer, name="tiny")


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_equals_generate_and_logprobs_equal_a_plain_forward_pass(family, tokenizer, caplog) -> None:
    model = tiny_model(family)
    requests = make_requests()
    found = run(LocalSampler(model, tokenizer, name=family, max_rows=4), requests, GREEDY)
    assert not caplog.records  # all of them take the fast path
    for request in requests:
        ids = prompt_ids(tokenizer, request)
        whole = model.generate(
            torch.tensor([ids]),
            attention_mask=torch.ones(1, len(ids), dtype=torch.long),
            do_sample=False,
            max_new_tokens=GREEDY.max_tokens,
            pad_token_id=0,
        )
        completion = found[request.key, 0]
        assert list(completion.token_ids) == whole[0, len(ids) :].tolist()
        assert completion.prompt_tokens == len(ids)
        check_logprobs(model, ids, completion)
        assert completion.text == tokenizer.decode(completion.token_ids, skip_special_tokens=True)


@pytest.mark.parametrize("family", ["llama", "qwen3"])
@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_batch_size_order_and_memory_do_not_matter(family, sampling, tokenizer) -> None:
    model = tiny_model(family)
    requests = make_requests(4, n=3)
    reference = run(LocalSampler(model, tokenizer, name="x", max_rows=1), requests, sampling)
    assert len(reference) == 12
    for rows, budget, seed in ((4, 65_536, 1), (16, 65_536, 2), (16, 150, 3), (256, 65_536, 4)):
        random.Random(seed).shuffle(requests)
        sampler = LocalSampler(model, tokenizer, name="x", max_rows=rows, token_budget=budget)
        found = run(sampler, requests, sampling)
        assert found.keys() == reference.keys()
        assert_same_or_tied(model, tokenizer, requests, found, reference, sampling)
        assert sum(found[k].token_ids == reference[k].token_ids for k in found) > 10
    for request in requests[:2]:
        for sample in range(3):
            check_logprobs(model, prompt_ids(tokenizer, request), reference[request.key, sample])


def test_a_spent_budget_makes_samples_give_way_and_resume(model, tokenizer) -> None:
    requests = make_requests(3, n=4)
    long = Sampling(max_tokens=140, temperature=1.0, seed=3)
    reference = run(LocalSampler(model, tokenizer, name="x"), requests, long)
    assert max(len(c.token_ids) for c in reference.values()) > 130  # through three slabs
    maker = Maker(tokenizer, long, frozenset([tokenizer.eos_token_id]), 512)
    jobs = [maker.job(request) for request in requests]
    batch = Batch(
        PackedModel(model, HalfWeights(model)), maker, token_budget=900, max_rows=16, first_guess=32
    )
    batch.add(jobs)
    found, resumed = {}, 0
    while batch.busy:
        for completion in batch.advance():
            found[completion.key, completion.sample] = completion
        assert batch.prompt_slabs.tokens + batch.own_slabs.tokens <= 900 or len(batch.rows) == 1
        resumed += sum(bool(job.done) for job in batch.jobs)
    assert resumed
    assert sorted(batch.free) == list(range(16))
    assert found.keys() == reference.keys()
    assert_same_or_tied(model, tokenizer, requests, found, reference, long)


def test_a_slice_of_the_samples_is_what_all_of_them_would_give(sampler) -> None:
    (request,) = make_requests(1, n=8)
    every = run(sampler, [request], SAMPLED)
    later = run(sampler, [Request(request.key, request.messages, n=3, first_sample=4)], SAMPLED)
    assert writings(later) == {key: every[key].text for key in later}
    assert len({c.text for c in every.values()}) > 4
    assert run(sampler, [request], Sampling(24, 0.8, 0.95, seed=8)) != every


def test_more_samples_than_seats(model, tokenizer) -> None:
    (request,) = make_requests(1, n=20)
    small = run(LocalSampler(model, tokenizer, name="x", max_rows=3), [request], SAMPLED)
    large = run(LocalSampler(model, tokenizer, name="x"), [request], SAMPLED)
    assert len(small) == 20
    assert writings(small) == writings(large)


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_continuing_a_prefix_equals_never_having_stopped(sampler, sampling) -> None:
    requests = make_requests(n=2)
    whole = run(sampler, requests, sampling)
    checked = 0
    for request in requests:
        for sample in range(2):
            full = whole[request.key, sample]
            cut = next(
                (i for i in range(5, 12) if full.token_spans[i - 1][1] == full.token_spans[i][0]), None
            )
            if cut is None or len(full.token_ids) <= cut:
                continue
            prefix = full.text[: full.token_spans[cut][0]]
            again = Request(request.key, request.messages, 1, sample, prefix, full.token_ids[:cut])
            rest = run(
                sampler, [again], Sampling(24 - cut, sampling.temperature, sampling.top_p, (), sampling.seed)
            )
            completion = rest[request.key, sample]
            assert completion.token_ids == full.token_ids[cut:]
            assert np.allclose(completion.logprobs, full.logprobs[cut:], atol=1e-4)
            if "\ufffd" not in prefix:
                assert prefix + completion.text == full.text
                checked += 1
    assert checked


def test_a_prefix_may_go_on_beyond_its_ids_and_end_with_eos(sampler, tokenizer, model) -> None:
    (request,) = make_requests(1)
    ids = tokenizer("the sum")["input_ids"]
    tail = " Thinking time ended."
    extended = Request(
        "k", request.messages, prefix="the sum" + tail, prefix_ids=(*ids, tokenizer.eos_token_id)
    )
    completion = run(sampler, [extended], GREEDY)["k", 0]
    everything = [*prompt_ids(tokenizer, request), *ids, *tokenizer(tail)["input_ids"]]
    assert completion.prompt_tokens == len(everything)
    check_logprobs(model, everything, completion)
    assert completion.token_ids[0] == int(plain_logits(model, everything)[-1].argmax())
    # Ids that do not spell the prefix are not believed.
    wrong = Request("k", request.messages, prefix="the sum" + tail, prefix_ids=(*ids, 50, 60))
    assert run(sampler, [wrong], GREEDY)["k", 0] == completion


def test_stop_strings_cut_the_text(sampler) -> None:
    requests = make_requests(n=4)
    free = run(sampler, requests, SAMPLED)
    chosen = next(c for c in free.values() if len(c.text) > 12 and "\ufffd" not in c.text[4:9])
    stop = chosen.text[5:8]
    stopped = run(sampler, requests, Sampling(24, 0.8, 0.95, (stop, "never there"), 7))
    hits = 0
    for key, completion in stopped.items():
        text = free[key].text
        if stop in text:
            hits += 1
            assert completion.text == text[: text.index(stop)]
            assert completion.finish_reason == "stop"
            assert completion.completion_tokens <= free[key].completion_tokens
            assert all(b <= len(completion.text) for _, b in completion.token_spans)
            assert free[key].token_ids[: len(completion.token_ids)] == completion.token_ids
        else:
            assert completion == free[key]
    assert hits


def test_finish_reasons_and_a_response_that_ends_at_once(model, tokenizer) -> None:
    sampler = LocalSampler(model, tokenizer, name="x")
    requests = make_requests()
    one = run(sampler, requests, Sampling(max_tokens=1))
    assert {len(c.token_ids) for c in one.values()} == {1}
    first = one["p0", 0].token_ids[0]
    ending = tiny_model()
    ending.generation_config.eos_token_id = [first, 2]
    ended = run(LocalSampler(ending, tokenizer, name="x"), requests, GREEDY)["p0", 0]
    assert ended.token_ids == (first,)
    assert ended.finish_reason == "stop"
    assert ended.completion_tokens == 1
    for completion in run(sampler, make_requests(8, n=4), SAMPLED).values():
        ends = completion.token_ids[-1] == tokenizer.eos_token_id
        assert completion.finish_reason == ("stop" if ends else "length")
        assert ends or len(completion.token_ids) == 24
        assert tokenizer.eos_token_id not in completion.token_ids[:-1]
        assert len(completion.token_ids) == len(completion.logprobs) == len(completion.token_spans)


def test_nothing_to_do_and_what_cannot_be_done(sampler) -> None:
    assert list(sampler.sample([], SAMPLED)) == []
    with pytest.raises(RlcrError, match="k: asks for 0 samples"):
        sampler.sample([Request("k", user("x"), n=0)], SAMPLED)
    with pytest.raises(
        RlcrError, match="long-one: the prompt has .* tokens, but the model has 512 positions"
    ):
        list(sampler.sample([Request("long-one", user("sum " * 600))], SAMPLED))
    for wrong in (
        Sampling(0),
        Sampling(1, -1.0),
        Sampling(1, math.nan),
        Sampling(1, 1.0, 0.0),
        Sampling(stop=("",)),
    ):
        with pytest.raises(RlcrError):
            sampler.sample(make_requests(1), wrong)


def test_requests_are_tokenised_in_lots_which_change_nothing(sampler, monkeypatch) -> None:
    requests = make_requests(40, n=2)
    whole = run(sampler, requests, SAMPLED)
    drawn: list[str] = []

    def draw():
        for request in requests:
            drawn.append(request.key)
            yield request

    monkeypatch.setattr("rlcr.sample.local._LOT", 5)
    sampler.max_rows = 4
    completions = sampler.sample(draw(), SAMPLED)
    assert len(drawn) == 5  # the first lot, at once
    first = next(completions)
    assert len(drawn) < 40
    found = {(c.key, c.sample): c for c in (first, *completions)}
    assert writings(found) == writings(whole)


def test_responses_too_long_to_continue_are_told_of_together_and_last(sampler) -> None:
    long = [Request(f"long{i}", user("x"), prefix="sum " * 600) for i in range(3)]
    short = make_requests(3)
    completions = sampler.sample([long[0], *short, *long[1:]], GREEDY)
    assert {next(completions).key for _ in short} == {request.key for request in short}
    with pytest.raises(Refused, match="long0: .* positions .and 2 more like it.") as caught:
        next(completions)
    assert [(one.key, one.samples) for one in caught.value.failures] == [(f"long{i}", (0,)) for i in range(3)]
    assert caught.value.certain


def test_half_a_character_is_no_reason_to_stop(sampler) -> None:
    found = run(sampler, [Request("key \udc00", user("so \ud83d"), prefix="sum \ud83d")], SAMPLED)
    same = run(sampler, [Request("key \udc00", user("so \ufffd"), prefix="sum \ufffd")], SAMPLED)
    assert found == same


def test_a_response_ends_where_the_models_positions_do(sampler, tokenizer) -> None:
    request = Request("k", user("sum " * 480))
    room = 512 - len(prompt_ids(tokenizer, request))
    assert 0 < room < 60
    completion = run(sampler, [request], Sampling(max_tokens=4096, temperature=1.0))["k", 0]
    assert len(completion.token_ids) <= room


def test_prompts_without_a_template_and_an_open_think(model, tokenizer) -> None:
    plain = LocalSampler(model, tiny_tokenizer(chat_template=None), name="x")
    completion = run(plain, [Request("k", user("the sum"))], GREEDY)["k", 0]
    ids = tokenizer("User: the sum\n\nAssistant:")["input_ids"]
    assert completion.prompt_tokens == len(ids)
    check_logprobs(model, ids, completion)
    assert not completion.think_open
    opened = tiny_tokenizer(chat_template=tokenizer.chat_template + "<think>\n")
    assert run(LocalSampler(model, opened, name="x"), [Request("k", user("x"))], GREEDY)["k", 0].think_open


def test_a_template_writes_its_own_first_token_and_plain_text_gets_the_tokenizers(model) -> None:
    for template, wanted in (("<|im_start|>{{ messages[0].content }}", "<|im_start|>sum"), (None, None)):
        tokenizer = tiny_tokenizer(chat_template=template)
        tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
            "<|im_start|> $A", None, [("<|im_start|>", 1)]
        )
        assert tokenizer("sum")["input_ids"][0] == 1
        ids = tokenizer(wanted or "User: sum\n\nAssistant:", add_special_tokens=wanted is None)["input_ids"]
        assert ids.count(1) == 1
        sampler = LocalSampler(model, tokenizer, name="x")
        completion = run(sampler, [Request("k", user("sum"), prefix="the")], GREEDY)["k", 0]
        everything = [*ids, *tokenizer("the", add_special_tokens=False)["input_ids"]]
        assert completion.prompt_tokens == len(everything)
        check_logprobs(model, everything, completion)
