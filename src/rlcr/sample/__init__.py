"""The sampler protocol: prompts in, completions out, as they finish.

Two implementations: `local` (a transformers model in this process) and `endpoint` (any OpenAI-compatible
server). Evaluation, judging and resampling analyses know only what is in this file.

Completions come back in any order and one at a time, so that a run can write each down at once and lose
nothing. A request has a stable ``key``; a local sampler derives its random numbers from
(seed, key, sample number, position), so that results do not depend on batch size, order or what else runs.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from rlcr.errors import RlcrError
from rlcr.lazy import submodules
from rlcr.prompts import Message

__getattr__ = submodules(__name__)

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt to be continued ``n`` times.

    ``messages`` is the conversation; the sampler renders it with the model's chat template, or as plain
    text where it has none. ``prefix`` is a response already begun: the model continues it, and completions
    hold only what is new. ``prefix_ids`` are its token ids where they are known (a response this sampler
    made), so that continuing it never tokenises it again; ``prefix`` may continue them with further text.
    ``prompt_ids`` are the tokens of the rendered prompt where they are known: it is then not rendered again.
    ``first_sample`` is the number of the first of the n samples: asking for samples 4 to 7 of a question
    gives what asking for 0 to 7 would have given there. A server may draw the samples of one call together,
    so that each depends on which others were asked for with it: ``together``, where it is given, is the first
    and the number of the samples that are always asked for in one call. Those not wanted are then dropped.
    """

    key: str
    messages: tuple[Message, ...]
    n: int = 1
    first_sample: int = 0
    prefix: str = ""
    prefix_ids: tuple[int, ...] = ()
    prompt_ids: Sequence[int] = ()
    together: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to sample. Temperature 0 is greedy; a response ends before the first of the ``stop`` strings."""

    max_tokens: int = 4096
    temperature: float = 0.0
    top_p: float = 1.0
    stop: tuple[str, ...] = ()
    seed: int = 0

    def check(self) -> None:
        """Raise where a number is impossible."""
        if self.max_tokens < 1:
            raise RlcrError(f"max_tokens is {self.max_tokens}; it must be at least 1")
        if not 0 <= self.temperature < float("inf"):
            raise RlcrError(f"temperature is {self.temperature}; it must be 0 (greedy) or a positive number")
        if not 0 < self.top_p <= 1:
            raise RlcrError(f"top_p is {self.top_p}; it must be above 0 and at most 1")
        if not all(self.stop):
            raise RlcrError("a stop string is empty; leave it out")


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model wrote: its text, and its tokens where the sampler knows them.

    ``logprobs`` are the log-probabilities of the sampled tokens under the untempered model (temperature 1),
    ``token_spans`` the characters of ``text`` that each token covers: a token that holds only a part of a
    character covers that character, the token that ends a response covers nothing. All three are empty
    where a server does not return them, or returns log-probabilities that are none
    (:func:`rlcr.metrics.likelihood.sound_logprobs`).
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

    def logprobs_of(self, span: Span) -> list[float]:
        """The log-probabilities of the tokens that overlap a span, empty where the sampler returned none.

        By spans, not by tags: a tokenizer may join ``>`` with the first word of the answer.
        """
        start, end = span
        return [
            round(logprob, 6)
            for logprob, (first, last) in zip(self.logprobs, self.token_spans, strict=True)
            if first < end and last > start and last > first
        ]


class CannotContinue(RlcrError):
    """This sampler cannot continue any response that was begun."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Samples of a request that will not come, and why: ``reason`` is the same for requests that fail alike.

    ``status`` is that of HTTP, where a server refused.
    """

    key: str
    samples: tuple[int, ...]
    reason: str
    status: int | None = None

    def to_dict(self) -> dict[str, str | int | None]:
        """Why, as JSON."""
        return {"reason": self.reason, "status": self.status}


class Refused(RlcrError):
    """Requests that failed while others may do well: a prompt too long, or one that a filter refuses.

    Raised once the others have been yielded, or earlier where nothing but failures came back: what is in
    neither is still to be asked for. ``certain`` says that the fault is in the requests; otherwise it may be
    the server's, see :func:`rlcr.sample.refusals.confirm`.
    """

    def __init__(self, message: str, failures: Sequence[Failure], *, certain: bool = False) -> None:
        more = f" (and {len(failures) - 1:,} more like it)" if len(failures) > 1 else ""
        super().__init__(f"{message}{more}")
        self.failures = tuple(failures)
        self.certain = certain


class Sampler(Protocol):
    """Anything that continues prompts."""

    name: str
    """The model, as a user would name it."""
    fingerprint: str
    """What tells models of the same name apart: a hash of the weights, or where the server is."""

    def sample(self, requests: Iterable[Request], sampling: Sampling) -> Generator[Completion, None, None]:
        """Yield each of the n completions of each request once, as it finishes.

        Closing the generator ends what is under way. `Refused` reports requests that failed while others did
        not; a sampler that cannot continue responses raises `CannotContinue`.
        """
        ...


def stretches(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Runs of consecutive samples, which one request can ask for: the first, and how many.

    >>> list(stretches([0, 1, 4, 5, 6]))
    [(0, 2), (4, 3)]
    """
    start = 0
    for place in range(1, len(numbers) + 1):
        if place == len(numbers) or numbers[place] != numbers[place - 1] + 1:
            yield numbers[start], place - start
            start = place


def sendable(text: str) -> str:
    r"""The text as UTF-8 can hold it: halves of surrogate pairs, which JSON lets through, become U+FFFD.

    >>> sendable("a\ud83d"), sendable("\ud83d\ude42")
    ('a�', '🙂')
    """
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
