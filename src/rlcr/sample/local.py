# pyright: basic
"""Sampling from a transformers model in this process, on a CPU or a GPU.

Prompts are read once for all their samples, finished samples leave the batch at once and new prompts enter
it (`batch`); tokens are chosen reproducibly (`choice`); models with unusual attention fall back to
transformers' own generation (`plain`). The sampler keeps nothing between calls: weights may change.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError
from rlcr.sample import Completion, Request, Sampling
from rlcr.sample.jobs import Job, Maker
from rlcr.sample.loading import load

# What imports torch is imported where it is used: without torch, `load` says what to install.

log = logging.getLogger(__name__)


class LocalSampler:
    """Continues prompts with a model.

    ``token_budget`` bounds the memory of the cache, in tokens of prompts (once each) and samples;
    ``max_rows`` is the number of samples in the batch at once. Neither changes what is sampled, beyond
    rounding. ``fast=False`` takes transformers' own generation for everything.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str,
        token_budget: int = 65_536,
        max_rows: int = 256,
        fast: bool = True,
    ) -> None:
        if token_budget < 1 or max_rows < 1:
            raise RlcrError(
                f"token_budget and max_rows must be at least 1, not {token_budget} and {max_rows}"
            )
        self.model = model
        self.tokenizer = tokenizer
        self.name = name
        self.token_budget = token_budget
        self.max_rows = max_rows
        self.fast = fast
        self._trial: tuple[str | None, int | None] | None = None

    @classmethod
    def load(
        cls, path_or_id: str | Path, *, device: str = "auto", dtype: str = "auto", **options: Any
    ) -> LocalSampler:
        """Load a folder, hub id, LoRA adapter or GGUF file (see `rlcr.sample.loading`)."""
        model, tokenizer = load(path_or_id, device=device, dtype=dtype)
        return cls(model, tokenizer, name=str(path_or_id), **options)

    @property
    def eos_ids(self) -> frozenset[int]:
        """The tokens that end a response."""
        from rlcr.sample.packed import base_model

        inner = base_model(self.model)
        found: set[int] = set()
        for source in (getattr(inner, "generation_config", None), inner.config, self.tokenizer):
            ids = getattr(source, "eos_token_id", None)
            found.update([ids] if isinstance(ids, int) else ids or [])
        return frozenset(found)

    def sample(self, requests: Iterable[Request], sampling: Sampling) -> Generator[Completion, None, None]:
        """Yield each of the n completions of each request once, as it finishes.

        Requests are checked and tokenised at once, before the first is asked for.
        """
        from rlcr.sample.packed import base_model

        _check(sampling)
        config = base_model(self.model).config.get_text_config()
        room = getattr(config, "max_position_embeddings", None)
        maker = Maker(self.tokenizer, sampling, self.eos_ids, room)
        jobs = [maker.job(request) for request in requests]
        return self._sample(maker, jobs)

    def _sample(self, maker: Maker, jobs: list[Job]) -> Generator[Completion, None, None]:
        from rlcr.sample.batch import Batch
        from rlcr.sample.packed import PackedModel
        from rlcr.sample.plain import generate

        packed, plain = self._divide(jobs)
        batch = Batch(
            PackedModel(self.model), maker, packed, token_budget=self.token_budget, max_rows=self.max_rows
        )
        while batch.busy:
            yield from batch.advance()
        for job in sorted(plain, key=lambda job: len(job.ids), reverse=True):
            yield from generate(self.model, maker, job, self.max_rows)

    def _divide(self, jobs: list[Job]) -> tuple[list[Job], list[Job]]:
        """The jobs for the fast path, and those for the plain one."""
        if not self.fast or not jobs:
            return [], jobs
        if self._trial is None:
            from rlcr.sample.packed import refusal

            self._trial = refusal(self.model)
            if self._trial[0] is not None:
                log.warning("%s: sampling with transformers' generate, since %s", self.name, self._trial[0])
        reason, longest = self._trial
        if reason is not None:
            return [], jobs
        if longest is None:
            return jobs, []
        packed = [job for job in jobs if len(job.ids) + job.limit <= longest]
        plain = [job for job in jobs if len(job.ids) + job.limit > longest]
        if plain:
            log.warning(
                "%s: sampling %d of %d prompts with transformers' generate, since they and their responses"
                " may exceed the model's attention window of %d tokens",
                self.name,
                len(plain),
                len(jobs),
                longest,
            )
        return packed, plain


def _check(sampling: Sampling) -> None:
    if sampling.max_tokens < 1:
        raise RlcrError(f"max_tokens is {sampling.max_tokens}; it must be at least 1")
    if not 0 <= sampling.temperature < float("inf"):
        raise RlcrError(f"temperature is {sampling.temperature}; it must be 0 (greedy) or a positive number")
    if not 0 < sampling.top_p <= 1:
        raise RlcrError(f"top_p is {sampling.top_p}; it must be above 0 and at most 1")
    if any(not stop for stop in sampling.stop):
        raise RlcrError("a stop string is empty; leave it out")
