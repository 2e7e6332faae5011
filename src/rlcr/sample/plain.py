# pyright: basic
"""The plain path: transformers' own generation, for models that cannot run packed.

One prompt at a time, so nothing is padded. Choosing tokens is ours, as a logits processor that leaves one
token possible, so random numbers, log-probabilities and stop rules are those of the fast path.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
)

from rlcr.engine.attention import device_of, evaluating
from rlcr.engine.half import HalfWeights
from rlcr.errors import RlcrError
from rlcr.sample import Completion
from rlcr.sample.choice import choose, stream
from rlcr.sample.jobs import Job, Maker


class _Choose(LogitsProcessor):
    """Chooses every row's token, notes it, and forbids the others."""

    def __init__(self, maker: Maker, job: Job, samples: tuple[int, ...]) -> None:
        self.maker, self.job, self.samples = maker, job, samples
        self.streams_B = np.array(
            [stream(maker.sampling.seed, job.key, sample) for sample in samples], dtype=np.uint64
        )
        self.ids: list[list[int]] = [[] for _ in samples]
        self.logprobs: list[list[float]] = [[] for _ in samples]
        self.ended = [False] * len(samples)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        position = self.job.position + input_ids.shape[1] - len(self.job.ids)
        positions_B = np.full(len(self.samples), position)
        maker = self.maker
        choice = choose(scores, self.streams_B, positions_B, maker.sampling, tempered=maker.tempered)
        if np.isnan(choice.logprobs_B).any():
            raise RlcrError(f"{self.job.key}: the model's output is not a number; its weights may be damaged")
        for row, (token, logprob) in enumerate(zip(choice.tokens_B, choice.logprobs_B, strict=True)):
            if self.ended[row]:
                continue
            self.ids[row].append(int(token))
            self.logprobs[row].append(float(logprob))
            self.ended[row] = int(token) in self.maker.eos_ids or (
                bool(self.maker.stops) and self.maker.stops_at(self.job, self.ids[row])
            )
        tokens_B1 = torch.from_numpy(choice.tokens_B).to(scores.device)[:, None]
        return torch.full_like(scores, -torch.inf).scatter_(1, tokens_B1, 0.0)


class _Stop(StoppingCriteria):
    """Rows that have ended, by our rules."""

    def __init__(self, chooser: _Choose) -> None:
        self.chooser = chooser

    def __call__(self, input_ids: Tensor, scores: Any, **kwargs: Any) -> Tensor:  # type: ignore[override]
        return torch.tensor(self.chooser.ended, device=input_ids.device)


def generate(model: Any, maker: Maker, job: Job, max_rows: int, weights: HalfWeights) -> Iterator[Completion]:
    """All samples of a job, at most ``max_rows`` at once."""
    device = device_of(model)
    for start in range(0, len(job.samples), max_rows):
        samples = job.samples[start : start + max_rows]
        chooser = _Choose(maker, job, samples)
        ids_BT = torch.tensor([job.ids] * len(samples), device=device)
        with evaluating(model), weights.in_place():
            # A configuration of our own: the model's may hold penalties or a temperature.
            model.generate(
                input_ids=ids_BT,
                attention_mask=torch.ones_like(ids_BT),
                generation_config=GenerationConfig(
                    max_new_tokens=job.limit, do_sample=False, pad_token_id=0, use_cache=True
                ),
                logits_processor=LogitsProcessorList([chooser]),
                stopping_criteria=StoppingCriteriaList([_Stop(chooser)]),
            )
        for row, sample in enumerate(samples):
            reason = "stop" if chooser.ended[row] else "length"
            yield maker.completion(job, sample, chooser.ids[row], chooser.logprobs[row], reason)
