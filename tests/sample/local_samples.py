"""Requests to a local sampler, and what a plain forward pass says about its completions."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from tests.sample.ties import assert_tied

from rlcr.sample import Completion, Request, Sampling
from rlcr.sample.local import LocalSampler

WORDS = ["sum", "of", "the", "numbers", "answer", "42", "café", "日本語", "🙂", "what", "<think>", "sure"]
SAMPLED = Sampling(max_tokens=24, temperature=0.8, top_p=0.95, seed=7)
GREEDY = Sampling(max_tokens=24)


def user(text: str) -> tuple[dict[str, str], ...]:
    """A conversation of one message."""
    return ({"role": "user", "content": text},)


def make_requests(count: int = 6, n: int = 1, seed: int = 0) -> list[Request]:
    """Requests of random words."""
    rng = random.Random(seed)
    return [
        Request(f"p{i}", user(" ".join(rng.choices(WORDS, k=rng.randint(1, 40)))), n=n) for i in range(count)
    ]


def run(
    sampler: LocalSampler, requests: Sequence[Request], sampling: Sampling
) -> dict[tuple[str, int], Completion]:
    """The completions by request and sample, each of which must come once."""
    completions = list(sampler.sample(requests, sampling))
    by_sample = {(c.key, c.sample): c for c in completions}
    assert len(by_sample) == len(completions)
    return by_sample


def writings(completions: dict[tuple[str, int], Completion]) -> dict[tuple[str, int], str]:
    """The texts of these completions."""
    return {key: completion.text for key, completion in completions.items()}


def prompt_ids(tokenizer: Any, request: Request) -> list[int]:
    """The tokens of a prompt, by the tokenizer's own template."""
    text = tokenizer.apply_chat_template(list(request.messages), tokenize=False, add_generation_prompt=True)
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def plain_logits(model: Any, ids: list[int]) -> torch.Tensor:
    """The logits at every position, by a plain forward pass."""
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids])).logits[0].float()


def check_logprobs(model: Any, ids: list[int], completion: Completion) -> None:
    """Stated log-probabilities are those of a plain forward pass."""
    logits_TV = plain_logits(model, [*ids, *completion.token_ids])[len(ids) - 1 : -1]
    tokens_T1 = torch.tensor(completion.token_ids)[:, None]
    wanted_T = logits_TV.log_softmax(-1).gather(1, tokens_T1)[:, 0]
    assert np.allclose(completion.logprobs, wanted_T.numpy(), atol=1e-4)


def assert_same_or_tied(
    model: Any,
    tokenizer: Any,
    requests: Sequence[Request],
    ours: dict[tuple[str, int], Completion],
    other: dict[tuple[str, int], Completion],
    sampling: Sampling,
) -> None:
    """Equal tokens, or a first difference where rounding may decide."""
    by_key = {request.key: request for request in requests}
    for (key, sample), completion in ours.items():
        a, b = completion.token_ids, other[key, sample].token_ids
        if a == b:
            continue
        first = next(i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
        logits = plain_logits(model, [*prompt_ids(tokenizer, by_key[key]), *a[:first]])[-1:]
        assert_tied(logits, key, sample, first, sampling)
