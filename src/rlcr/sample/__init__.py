"""The sampler protocol: prompts in, completions out, as they finish.

Two implementations: `local` (a transformers model in this process) and `endpoint` (any OpenAI-compatible
server). Evaluation, judging and resampling analyses know only what is in this file.

Completions come back in any order and one at a time, so that a run can write each down at once and lose
nothing. A request has a stable ``key``; a local sampler derives its random numbers from
(seed, key, sample number, position), so that results do not depend on batch size, order or what else runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from rlcr.errors import RlcrError
from rlcr.prompts import Message

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt to be continued ``n`` times.

    ``messages`` is the conversation; the sampler renders it with the model's chat template, or as plain
    text where it has none. ``prefix`` is a response already begun: the model continues it, and completions
    hold only what is new. ``prefix_ids`` are its token ids where they are known (a response this sampler
    made), so that continuing it never tokenises it anew; ``prefix`` may go on beyond them with further text.
    ``first_sample`` is the number of the first of the n samples: asking for samples 4 to 7 of a question
    gives what asking for 0 to 7 would have given there.
    """

    key: str
    messages: tuple[Message, ...]
    n: int = 1
    first_sample: int = 0
    prefix: str = ""
    prefix_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to sample. Temperature 0 is greedy."""

    max_tokens: int = 4096
    temperature: float = 0.0
    top_p: float = 1.0
    stop: tuple[str, ...] = ()
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model wrote: its text, and its tokens where the sampler can tell them.

    ``logprobs`` are the log-probabilities of the sampled tokens under the untempered model (temperature 1),
    ``token_spans`` the characters of ``text`` that each token covers: a token that holds only a part of a
    character covers that character, the token that ends a response covers nothing. All three are empty
    where a server does not return them.
    ``think_open`` says that the rendered prompt ended inside ``<think>``.
    """

    key: str
    sample: int
    text: str
    finish_reason: Literal["stop", "length"]
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    token_spans: tuple[Span, ...] = ()
    prompt_tokens: int = 0
    completion_tokens: int = 0
    think_open: bool = False


class CannotContinue(RlcrError):
    """This sampler cannot continue a response that was begun: that of ``key``, or any if ``key`` is None."""

    def __init__(self, message: str, key: str | None = None) -> None:
        super().__init__(message)
        self.key = key


class Sampler(Protocol):
    """Anything that continues prompts."""

    name: str
    """The model, as a user would name it."""

    def sample(self, requests: Iterable[Request], sampling: Sampling) -> Iterator[Completion]:
        """Yield each of the n completions of each request once, as it finishes."""
        ...
