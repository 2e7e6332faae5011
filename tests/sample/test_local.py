"""The local sampler against slow obvious versions: transformers' generate, plain forward passes, counting."""

import logging
import math
import random
from collections import Counter

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from tests.sample.ties import assert_tied
from tests.tiny import tiny_model, tiny_tokenizer
from tokenizers.processors import TemplateProcessing

from rlcr.engine.decoding import PackedModel
from rlcr.engine.trial import Trial, try_packed
from rlcr.errors import RlcrError
from rlcr.sample import Completion, Refused, Request, Sampling
from rlcr.sample.batch import Batch
from rlcr.sample.choice import choose, gumbel, nucleus, stream
from rlcr.sample.jobs import Maker
from rlcr.sample.local import LocalSampler

WORDS = ["sum", "of", "the", "numbers", "answer", "42", "café", "日本語", "🙂", "what", "<think>", "sure"]
FAMILIES = ["llama", "qwen2", "qwen3", "olmo2", "gemma3_text"]
SAMPLED = Sampling(max_tokens=24, temperature=0.8, top_p=0.95, seed=7)
GREEDY = Sampling(max_tokens=24)


def user(text: str) -> tuple[dict[str, str], ...]:
    return ({"role": "user", "content": text},)


def make_requests(count: int = 6, n: int = 1, seed: int = 0) -> list[Request]:
    rng = random.Random(seed)
    return [
        Request(f"p{i}", user(" ".join(rng.choices(WORDS, k=rng.randint(1, 40)))), n=n) for i in range(count)
    ]


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


@pytest.fixture(scope="module")
def model():
    return tiny_model()


@pytest.fixture
def sampler(model, tokenizer) -> LocalSampler:
    return LocalSampler(model, tokenizer, name="tiny")


def run(sampler: LocalSampler, requests, sampling: Sampling) -> dict[tuple[str, int], Completion]:
    completions = list(sampler.sample(requests, sampling))
    found = {(c.key, c.sample): c for c in completions}
    assert len(found) == len(completions)  # each exactly once
    return found


def writings(found: dict[tuple[str, int], Completion]) -> dict[tuple[str, int], str]:
    return {key: completion.text for key, completion in found.items()}


def prompt_ids(tokenizer, request: Request) -> list[int]:
    text = tokenizer.apply_chat_template(list(request.messages), tokenize=False, add_generation_prompt=True)
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def plain_logits(model, ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids])).logits[0].float()


def assert_same_or_tied(model, tokenizer, requests, ours, other, sampling: Sampling) -> None:
    """Equal tokens, or a first difference where rounding may decide."""
    by_key = {request.key: request for request in requests}
    for (key, sample), completion in ours.items():
        a, b = completion.token_ids, other[key, sample].token_ids
        if a == b:
            continue
        first = next(i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
        logits = plain_logits(model, [*prompt_ids(tokenizer, by_key[key]), *a[:first]])[-1:]
        assert_tied(logits, key, sample, first, sampling)


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


def check_logprobs(model, ids: list[int], completion: Completion) -> None:
    logits_TV = plain_logits(model, [*ids, *completion.token_ids])[len(ids) - 1 : -1]
    tokens_T1 = torch.tensor(completion.token_ids)[:, None]
    wanted_T = logits_TV.log_softmax(-1).gather(1, tokens_T1)[:, 0]
    assert np.allclose(completion.logprobs, wanted_T.numpy(), atol=1e-4)


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
    batch = Batch(PackedModel(model), maker, token_budget=900, max_rows=16, first_guess=32)
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


def test_sampled_frequencies_match_the_softmax() -> None:
    torch.manual_seed(0)
    for vocabulary, sampling in (
        (11, Sampling(temperature=1.0)),
        (64, Sampling(temperature=0.7)),
        (50, Sampling(temperature=1.3, top_p=0.8)),
    ):
        logits_V = torch.randn(vocabulary) * 1.5
        draws = 40_000
        streams = np.array([stream(0, "k", i) for i in range(draws)], dtype=np.uint64)
        choice = choose(logits_V.expand(draws, -1), streams, np.full(draws, 3), sampling)
        scaled_1V = nucleus((logits_V / sampling.temperature)[None], sampling.top_p)
        wanted = scaled_1V.softmax(-1)[0].double().numpy()
        counts = np.bincount(choice.tokens_B, minlength=vocabulary)
        assert not counts[wanted == 0].any()
        possible = wanted > 0
        expected = wanted[possible] / wanted[possible].sum() * draws
        assert chisquare(counts[possible], expected).pvalue > 1e-3
        assert np.allclose(choice.logprobs_B, logits_V.log_softmax(-1)[choice.tokens_B].numpy(), atol=1e-5)


def test_top_p_keeps_the_fewest_tokens_that_reach_it() -> None:
    torch.manual_seed(0)
    for vocabulary in (20, 3000):
        logits_BV = torch.randn(40, vocabulary)
        for top_p in (0.01, 0.5, 0.9, 0.999):
            kept_BV = nucleus(logits_BV, top_p).isfinite()
            for logits_V, kept_V in zip(logits_BV, kept_BV, strict=True):
                sorted_V, order_V = logits_V.double().softmax(-1).sort(descending=True)
                count = int((sorted_V.cumsum(-1) < top_p).sum()) + 1
                assert abs(int(kept_V.sum()) - count) <= (vocabulary > 100)  # rounding at the edge
                assert bool(kept_V[order_V[: count - 1]].all())


def test_noise_depends_on_every_part_of_its_name_and_looks_like_noise() -> None:
    names = [stream(s, k, i) for s in (0, 1) for k in ("a", "b", "a\x1f1") for i in (0, 1)]
    assert len(set(names)) == len(names)
    assert stream(0, "key", 3) == stream(0, "key", 3) == 7758514353832239289
    streams = np.array(names, dtype=np.uint64)
    noise = gumbel(np.repeat(streams, 50), np.tile(np.arange(50), len(names)), 100)
    assert np.isfinite(noise).all()
    assert abs(noise.mean() - 0.5772) < 0.02
    assert abs(noise.std() - math.pi / math.sqrt(6)) < 0.02
    assert np.abs(np.corrcoef(noise[:40]) - np.eye(40)).max() < 0.5
    assert max(Counter(noise.ravel().tolist()).values()) == 1


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
