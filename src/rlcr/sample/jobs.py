"""From a request to token ids, and from sampled ids to a completion. Text and lists only, no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from rlcr.errors import RlcrError
from rlcr.prompts import opens_think
from rlcr.sample import Completion, Failure, Refused, Request, Sampling, sendable
from rlcr.sample.tokens import continuation_spans, encode_prompts, reader


@dataclass(frozen=True, slots=True)
class Job:
    """A prompt, as token ids, to be continued by some samples.

    ``ids`` is everything the model reads: the prompt, the ``prefix_ids`` of a response already begun, and,
    for a sample that had to leave the batch, the tokens it had (``done``, with ``done_logprobs``).
    """

    key: str
    samples: tuple[int, ...]
    ids: tuple[int, ...]
    prompt_tokens: int
    prefix_ids: tuple[int, ...]
    limit: int
    think_open: bool
    done: tuple[int, ...] = field(default=())
    done_logprobs: tuple[float, ...] = field(default=())

    @property
    def position(self) -> int:
        """The position in the response of the next token."""
        return len(self.prefix_ids) + len(self.done)


class Maker:
    """Makes jobs of requests and completions of their tokens, for one tokenizer and one way of sampling."""

    def __init__(
        self,
        tokenizer: Any,
        sampling: Sampling,
        eos_ids: frozenset[int],
        room: int | None,
        *,
        tokens_only: bool = False,
        tempered: bool = False,
    ) -> None:
        self.tokenizer = tokenizer
        self.sampling = sampling
        self.eos_ids = eos_ids
        self.room = room
        self.tokens_only = tokens_only and not sampling.stop  # a stop string is found in the text
        self.tempered = tempered
        self.reader = reader(tokenizer)
        self.stops = [sendable(stop).encode() for stop in sampling.stop]
        self.stop_bytes = max(map(len, self.stops), default=0)

    def job(self, request: Request) -> Job:
        """Render and tokenise a request; refuse what the model cannot hold."""
        if request.n < 1:
            raise RlcrError(f"{request.key}: asks for {request.n} samples; ask for at least one")
        prompt, ending = self._prompt(request)
        prefix = self._prefix(request)
        ids = (*prompt, *prefix)
        if not ids:
            raise RlcrError(
                f"{request.key}: the prompt is empty; a model needs at least one token to continue"
            )
        limit = self.sampling.max_tokens
        samples = tuple(range(request.first_sample, request.first_sample + request.n))
        if self.room is not None:
            if len(ids) >= self.room:
                what = "response to be continued" if request.prefix else "prompt"
                line = f"the {what} has {len(ids)} tokens, but the model has {self.room} positions"
                reason = f"the {what} is longer than the model's {self.room} positions"
                name = request.key.partition("\0")[0]
                raise Refused(f"{name}: {line}", [Failure(request.key, samples, reason)], certain=True)
            limit = min(limit, self.room - len(ids))
        return Job(request.key, samples, ids, len(ids), prefix, limit, opens_think(ending))

    def _prompt(self, request: Request) -> tuple[list[int], str]:
        """The tokens of the prompt, and the text it ends with."""
        if request.prompt_ids:
            return list(request.prompt_ids), self.tokenizer.decode(list(request.prompt_ids[-16:]))
        [(text, prompt)] = encode_prompts([request.messages], self.tokenizer)
        return prompt, text

    def _prefix(self, request: Request) -> tuple[int, ...]:
        """The ids of a begun response: the given ones as far as they spell it, then those of the rest."""
        prefix, known = sendable(request.prefix), list(request.prefix_ids)
        # A finished response ends with the token that says so; it must not stand in the middle.
        while known and known[-1] in self.eos_ids:
            known.pop()
        text = self.reader.decode(known)
        while known and not prefix.startswith(text):
            known.pop()
            text = self.reader.decode(known)
        return (*known, *self._encode(prefix[len(text) :], bool(text)))

    def _encode(self, text: str, continues: bool) -> Sequence[int]:
        if not text:
            return ()
        ids = list(self.tokenizer(text, add_special_tokens=False)["input_ids"])
        if not self.reader.byte_fallback or not continues:
            return ids
        # Sentencepiece puts a space before the first word of a text. Behind a line break it does not.
        anchor = list(self.tokenizer("\n", add_special_tokens=False)["input_ids"])
        anchored = list(self.tokenizer("\n" + text, add_special_tokens=False)["input_ids"])
        return anchored[len(anchor) :] if anchored[: len(anchor)] == anchor else ids

    def completion(
        self,
        job: Job,
        sample: int,
        ids: Sequence[int],
        logprobs: Sequence[float],
        reason: Literal["stop", "length"],
    ) -> Completion:
        """The completion of a sample: its text, cut before a stop string, and its tokens' spans.

        Tokens that lie wholly behind the cut are dropped; one that reaches across it stays, its span cut.
        """
        text, spans = "", []
        if not self.tokens_only:
            text, spans = continuation_spans(self.tokenizer, job.prefix_ids, ids)
        kept = len(ids)
        if (cut := self.cut(text)) is not None:
            text = text[:cut]
            kept = next((i for i, (start, _) in enumerate(spans) if start >= cut), kept)
            spans = [(start, min(stop, cut)) for start, stop in spans]
        return Completion(
            key=job.key,
            sample=sample,
            text=text,
            finish_reason=reason,
            token_ids=tuple(ids[:kept]),
            logprobs=tuple(logprobs[:kept]),
            token_spans=tuple(spans[:kept]),
            prompt_tokens=job.prompt_tokens,
            completion_tokens=len(ids),
            think_open=job.think_open,
        )

    def cut(self, text: str) -> int | None:
        """Where the first stop string begins."""
        positions = [at for stop in self.sampling.stop if (at := text.find(stop)) >= 0]
        return min(positions) if positions else None

    def stops_at(self, job: Job, ids: Sequence[int] | np.ndarray) -> bool:
        """Whether the last of these tokens completes a stop string. Looks at no more of them than it must."""
        # The bytes that could hold one that ends in the last token; nearly always they do not.
        tail, index = self.reader.raw(int(ids[-1])), len(ids) - 1
        wanted = len(tail) + self.stop_bytes - 1
        while index > 0 and len(tail) < wanted:
            index -= 1
            tail = self.reader.raw(int(ids[index])) + tail
        if not any(stop in tail for stop in self.stops):
            return False
        whole = [int(token) for token in ids]
        return self.cut(continuation_spans(self.tokenizer, job.prefix_ids, whole)[0]) is not None
