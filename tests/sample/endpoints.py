"""What tests ask of a server in this process, what it says, and a sampler that asks it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.servers import Call, ModelServer

from rlcr.sample import Completion, Request, Sampling
from rlcr.sample.endpoint import EndpointSampler

GREEDY = Sampling(max_tokens=64)
HOT = Sampling(max_tokens=64, temperature=1.0)


def echo(call: Call) -> str:
    """The last words of the prompt, and which sample it is."""
    return f"{call.prompt.rsplit('User: ', 1)[-1].removesuffix('Assistant:').strip()} #{call.number}"


def ask(number: int, **settings: Any) -> Request:
    """A numbered question."""
    return Request(f"q{number}", ({"role": "user", "content": f"question {number}"},), **settings)


def patient(server: ModelServer, **settings: Any) -> EndpointSampler:
    """A sampler that does not wait long between attempts."""
    return EndpointSampler(server.url, "tiny", **({"backoff": 0.002, "attempts": 40} | settings))


def names(completions: Sequence[Completion]) -> Counter[tuple[str, int]]:
    """How often each sample of each request came back."""
    return Counter((completion.key, completion.sample) for completion in completions)


def expected(requests: Sequence[Request]) -> Counter[tuple[str, int]]:
    """Each sample of each request once."""
    return Counter(
        (request.key, request.first_sample + number) for request in requests for number in range(request.n)
    )
