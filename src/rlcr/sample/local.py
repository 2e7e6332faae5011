# pyright: basic
"""Sampling from a transformers model in this process, on a CPU or a GPU.

Prompts are read once for all their samples, finished samples leave the batch at once and new prompts enter
it (`batch`); tokens are chosen reproducibly (`choice`); models with unusual attention fall back to
transformers' own generation (`plain`). The sampler keeps nothing between calls: weights may change.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcr.errors import RlcrError
from rlcr.sample import Completion, Refused, Request, Sampling
from rlcr.sample.jobs import Job, Maker
from rlcr.sample.loading import identify, load

if TYPE_CHECKING:
    from rlcr.engine.trial import Trial

# What imports torch is imported where it is used: without torch, `load` says what to install.

log = logging.getLogger(__name__)

#: Requests that are tokenised and sorted by length together. Token ids of all at once would fill the memory.
_LOT = 2048


class LocalSampler:
    """Continues prompts with a model.

    ``token_budget`` bounds the memory of the cache, in tokens of prompts (once each) and samples; None for
    what is free when sampling begins (:func:`rlcr.sample.budget.default_budget`). ``max_rows`` is the number
    of samples in the batch at once. Neither changes what is sampled, beyond rounding. ``fast=False`` takes
    transformers' own generation for everything. With ``tokens_only``, completions come without text and
    spans, which cost more than the tokens of a very small model. With ``tempered``, log-probabilities are
    those by which tokens were chosen (logits divided by the temperature), which is what a trainer compares
    with its own.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str,
        fingerprint: str = "",
        token_budget: int | None = None,
        max_rows: int = 256,
        fast: bool = True,
        tokens_only: bool = False,
        tempered: bool = False,
    ) -> None:
        if (token_budget is not None and token_budget < 1) or max_rows < 1:
            raise RlcrError(
                f"token_budget and max_rows must be at least 1, not {token_budget} and {max_rows}"
            )
        self.model = model
        self.tokenizer = tokenizer
        self.name = name
        self.fingerprint = fingerprint
        self.token_budget = token_budget
        self.max_rows = max_rows
        self.fast = fast
        self.tokens_only = tokens_only
        self.tempered = tempered
        self._trial: Trial | None = None

    @classmethod
    def load(
        cls, path_or_id: str | Path, *, device: str = "auto", dtype: str = "auto", **options: Any
    ) -> LocalSampler:
        """Load a folder, hub id, LoRA adapter or GGUF file (see `rlcr.sample.loading`)."""
        model, tokenizer = load(path_or_id, device=device, dtype=dtype)
        weights = f"{str(model.dtype).removeprefix('torch.')} {identify(path_or_id)}"
        return cls(model, tokenizer, name=str(path_or_id), fingerprint=weights, **options)

    @property
    def eos_ids(self) -> frozenset[int]:
        """The tokens that end a response."""
        from rlcr.engine.attention import base_model

        inner = base_model(self.model)
        tokens: set[int] = set()
        for source in (getattr(inner, "generation_config", None), inner.config, self.tokenizer):
            ids = getattr(source, "eos_token_id", None)
            tokens.update([ids] if isinstance(ids, int) else ids or [])
        return frozenset(tokens)

    def sample(self, requests: Iterable[Request], sampling: Sampling) -> Generator[Completion, None, None]:
        """Yield each of the n completions of each request once, as it finishes.

        Requests are tokenised in lots, the first at once: what is wrong with it, or with ``sampling``, is
        raised by this call and not by the first ``next``.
        """
        from rlcr.engine.attention import base_model

        sampling.check()
        config = base_model(self.model).config.get_text_config()
        room = getattr(config, "max_position_embeddings", None)
        maker = Maker(
            self.tokenizer,
            sampling,
            self.eos_ids,
            room,
            tokens_only=self.tokens_only,
            tempered=self.tempered,
        )
        lots = _Lots(maker, requests)
        return self._sample(maker, chain([next(lots, [])], lots), lots.unfit)

    def _sample(
        self, maker: Maker, lots: Iterable[list[Job]], unfit: list[Refused]
    ) -> Generator[Completion, None, None]:
        from rlcr.engine.decoding import PackedModel
        from rlcr.engine.half import HalfWeights
        from rlcr.sample.batch import Batch
        from rlcr.sample.budget import default_budget
        from rlcr.sample.plain import generate

        weights = HalfWeights(self.model)
        batch = Batch(
            PackedModel(self.model, weights),
            maker,
            token_budget=self.token_budget or default_budget(self.model),
            max_rows=self.max_rows,
        )
        for lot in lots:
            packed, plain = self._divide(lot)
            batch.add(packed)
            for job in sorted(plain, key=lambda job: len(job.ids), reverse=True):
                yield from generate(self.model, maker, job, self.max_rows, weights)
            # The next lot comes before this one runs out, so that the batch stays full in between.
            while len(batch.jobs) > self.max_rows:
                yield from batch.advance()
        while batch.busy:
            yield from batch.advance()
        if unfit:
            failures = [failure for refused in unfit for failure in refused.failures]
            raise Refused(str(unfit[0]), failures, certain=True)

    def _divide(self, jobs: list[Job]) -> tuple[list[Job], list[Job]]:
        """The jobs for the fast path, and those for the plain one."""
        if not self.fast or not jobs:
            return [], jobs
        if self._trial is None:
            from rlcr.engine.trial import try_packed

            self._trial = try_packed(self.model)
            if reason := self._trial.reason:
                log.warning("%s: sampling with transformers' generate, since %s", self.name, reason)
        packed = [job for job in jobs if self._trial.fits(len(job.ids) + job.limit)]
        plain = [job for job in jobs if not self._trial.fits(len(job.ids) + job.limit)]
        if plain and not self._trial.reason:
            log.warning(
                "%s: sampling %d of %d prompts with transformers' generate, since they and their responses"
                " may exceed the model's attention window of %d tokens",
                self.name,
                len(plain),
                len(jobs),
                self._trial.longest,
            )
        return packed, plain


class _Lots:
    """Jobs of requests, a lot at a time. What does not fit is left out, and noted in ``unfit``."""

    def __init__(self, maker: Maker, requests: Iterable[Request]) -> None:
        self._maker, self._requests = maker, iter(requests)
        self.unfit: list[Refused] = []

    def __iter__(self) -> Iterator[list[Job]]:
        return self

    def __next__(self) -> list[Job]:
        requests = list(islice(self._requests, _LOT))
        if not requests:
            raise StopIteration
        jobs = []
        for request in requests:
            try:
                jobs.append(self._maker.job(request))
            except Refused as refused:
                self.unfit.append(refused)
        return jobs
