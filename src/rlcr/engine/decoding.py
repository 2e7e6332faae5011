# pyright: basic
"""Sampling on packed sequences with shared prompts: the plans of attention, and a model that follows them.

A forward pass is either

* a `Prefill`: whole prompts, each attending to itself, whose keys and values go to a slab; or
* a `Decode`: one token for each sample. Its attention has two parts: the prompt, shared by all samples of a
  group, where queries of the group meet the prompt's keys in one matrix product; and the sample's own tokens.
  Scores of both go through one softmax. They are small next to keys and values, so it costs little to put
  them into the order that each part needs.

Logits are made for exactly the tokens whose successors are to be chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from rlcr.engine.attention import Plan, Switch, device_of, evaluating
from rlcr.engine.blocked import blocked_linears
from rlcr.engine.half import HalfWeights
from rlcr.engine.slabs import Slab

#: Prompts are prefilled in lots of about this many tokens: enough for full speed, little memory.
PREFILL_TOKENS = 2048


class PackedModel:
    """Runs a model on packed sequences, with the weights as they were cast. Only inside `active`."""

    def __init__(self, model: Any, weights: HalfWeights) -> None:
        self.model = model
        self.device = device_of(model)
        self._weights = weights

    @contextmanager
    def active(self) -> Iterator[None]:
        """Our attention in place of the model's own, which is restored afterwards.

        Short stretches only, never across a yield of the sampler: the consumer of completions finds the
        model as it was.
        """
        with (
            evaluating(self.model),
            self._weights.in_place(),
            blocked_linears(self.model),
            torch.inference_mode(),
            Switch(self.model),
        ):
            yield

    def prefill(self, prompts: Sequence[Sequence[int]], places: Sequence[tuple[Slab, int]]) -> Tensor:
        """Store the prompts' keys and values at their places; the logits (P, V) after each."""
        device = self.device
        stretches, start = [], 0
        pairs = zip(prompts, places, strict=True)
        # Prompts come longest first, so that those of one length are neighbours.
        for (length, _), members in groupby(pairs, key=lambda pair: (len(pair[0]), id(pair[1][0]))):
            stored = [place for _, place in members]
            slots_P = torch.tensor([slot for _, slot in stored], device=device)
            stretches.append(Stretch(start, length, stored[0][0], slots_P))
            start += length * len(stored)
        tokens_T = torch.tensor([token for ids in prompts for token in ids], device=device)
        positions_T = torch.cat([torch.arange(len(ids)) for ids in prompts]).to(device)
        last_P = torch.tensor([len(ids) for ids in prompts], device=device).cumsum(0) - 1
        return self._forward(tokens_T, positions_T, Prefill(stretches), last_P)

    def decode(self, tokens_B: Tensor, positions_B: Tensor, plan: Decode) -> Tensor:
        """The logits (B, V) after one more token of each sample."""
        return self._forward(tokens_B, positions_B, plan, None)

    def _forward(self, tokens_T: Tensor, positions_T: Tensor, packed: Plan, keep: Tensor | None) -> Tensor:
        output = self.model(
            input_ids=tokens_T[None],
            position_ids=positions_T[None],
            use_cache=False,
            logits_to_keep=0 if keep is None else keep,
            packed=packed,
        )
        logits = output.logits[0]
        # A model that does not know logits_to_keep returns them all.
        return logits if keep is None or len(logits) == len(keep) else logits[keep]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Prompts of one length behind each other in the packed row, and where their keys and values go."""

    start: int
    length: int
    slab: Slab
    slots_P: Tensor

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """Store keys and values; outputs (tokens, heads, dim) of each prompt attending to itself."""

        def apart(x_1HTD: Tensor) -> Tensor:
            prompts = len(self.slots_P)
            x_HTD = x_1HTD[0, :, self.start : self.start + prompts * self.length]
            return x_HTD.unflatten(1, (prompts, self.length)).transpose(0, 1)

        query_PHTD, key_PHTD, value_PHTD = apart(query), apart(key), apart(value)
        for buffer, new_PHTD in zip(self.slab.layer(layer, key, value), (key_PHTD, value_PHTD), strict=True):
            buffer[self.slots_P, :, : self.length] = new_PHTD
        output_PHTD = scaled_dot_product_attention(
            query_PHTD,
            key_PHTD,
            value_PHTD,
            is_causal=True,
            scale=scale,
            enable_gqa=query.shape[1] > key.shape[1],
        )
        return output_PHTD.transpose(1, 2).flatten(0, 1)


@dataclass(frozen=True, slots=True)
class Prefill:
    """Prompts behind each other, each attending causally to itself."""

    stretches: Sequence[Stretch]

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """Outputs (1, tokens, heads, dim) of queries, keys and values (1, heads, tokens, dim)."""
        return _stacked([s.attend(layer, query, key, value, scale) for s in self.stretches])[None]


@dataclass(frozen=True, slots=True)
class OwnPart:
    """Samples of one slab, rows ``start`` to ``stop`` of the batch, and their own tokens."""

    slab: Slab
    start: int
    stop: int
    lengths_B: Tensor
    """Tokens stored before this step: where the new token's keys and values go."""
    longest: int
    """Tokens stored after this step, at most."""
    mask_B1S: Tensor | None
    """0 and -inf; None where all lengths are equal."""

    def store(self, layer: int, key: Tensor, value: Tensor) -> None:
        """Keep the keys and values of the new tokens, of (1, heads, tokens, dim) of the whole batch."""
        for buffer, new in zip(self.slab.layer(layer, key, value), (key, value), strict=True):
            new_BHD = new[0, :, self.start : self.stop].transpose(0, 1)
            rows = len(new_BHD)
            if self.mask_B1S is None:
                buffer[:rows, :, self.longest - 1] = new_BHD
            else:
                buffer[torch.arange(rows, device=buffer.device), :, self.lengths_B] = new_BHD

    def scores(self, layer: int, query_BHGD: Tensor) -> Tensor:
        """Of the samples' queries with all their tokens (rows, heads, group, tokens)."""
        rows, heads, group, dim = query_BHGD.shape
        keys_XSD = self.slab.layers[layer][0][:rows, :, : self.longest].flatten(0, 1)
        scores_XGS = torch.bmm(query_BHGD.reshape(rows * heads, group, dim), keys_XSD.transpose(1, 2))
        scores_XGS = _precise(scores_XGS)
        if self.mask_B1S is not None:
            scores_XGS.view(rows, heads * group, -1).add_(self.mask_B1S)
        return scores_XGS.view(rows, heads, group, self.longest)

    def output(self, layer: int, weights_BHGS: Tensor) -> Tensor:
        """The values of the samples' own tokens, weighted."""
        rows, heads, group, _ = weights_BHGS.shape
        values_XSD = self.slab.layers[layer][1][:rows, :, : self.longest].flatten(0, 1)
        weights_XGS = weights_BHGS[..., : self.longest].reshape(rows * heads, group, self.longest)
        return torch.bmm(weights_XGS, values_XSD).view(rows, heads, group, -1)


@dataclass(frozen=True, slots=True)
class PromptPart:
    """Prompts of one slab, and their samples."""

    slab: Slab
    rows_PN: Tensor
    """The batch row of each sample of each prompt; prompts with fewer samples repeat row 0."""
    longest: int
    mask_P1S: Tensor | None
    """0 and -inf; None where all prompts are equally long."""

    def attend(self, layer: int, query_BHGD: Tensor, own_BHGS: Tensor) -> tuple[Tensor, Tensor]:
        """Of the samples in the order of ``rows_PN``, given the scores with their own tokens:
        the weighted values of the prompts, and the weights of their own tokens."""
        prompts, samples = self.rows_PN.shape
        _, heads, group, _ = query_BHGD.shape
        keys, values = self.slab.layers[layer]
        keys_XSD = keys[:prompts, :, : self.longest].flatten(0, 1)
        values_XSD = values[:prompts, :, : self.longest].flatten(0, 1)

        def together(x_BHGD: Tensor) -> Tensor:
            """All queries of a prompt side by side, so that its keys are read once for all samples."""
            x_PNHGD = x_BHGD.index_select(0, self.rows_PN.flatten()).unflatten(0, (prompts, samples))
            return x_PNHGD.transpose(1, 2).reshape(prompts * heads, samples * group, -1)

        def apart(x_XND: Tensor) -> Tensor:
            x_PHNGD = x_XND.reshape(prompts, heads, samples, group, -1)
            return x_PHNGD.transpose(1, 2).flatten(0, 1)

        scores_XNS = _precise(torch.bmm(together(query_BHGD), keys_XSD.transpose(1, 2)))
        if self.mask_P1S is not None:
            scores_XNS.view(prompts, heads * samples * group, -1).add_(self.mask_P1S)
        weights_XNS = torch.cat([scores_XNS, together(own_BHGS)], dim=-1).softmax(-1).to(values.dtype)
        output_XND = torch.bmm(weights_XNS[..., : self.longest], values_XSD)
        return apart(output_XND), apart(weights_XNS[..., self.longest :])


@dataclass(frozen=True, slots=True)
class Decode:
    """One new token for each sample of the batch."""

    own: Sequence[OwnPart]
    """In the order of the batch."""
    prompts: Sequence[PromptPart]
    place_B: Tensor
    """Where each row of the batch stands in the joined prompt parts."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """Outputs (1, tokens, heads, dim) of queries, keys and values (1, heads, tokens, dim)."""
        heads, rows = key.shape[1], key.shape[2]
        query_BHGD = (query[0] * scale).transpose(0, 1).reshape(rows, heads, -1, query.shape[3])
        for part in self.own:
            part.store(layer, key, value)
        own_BHGS = _padded([part.scores(layer, query_BHGD[part.start : part.stop]) for part in self.own])
        attended = [part.attend(layer, query_BHGD, own_BHGS) for part in self.prompts]
        shared_BHGD, weights_BHGS = (
            _stacked(parts).index_select(0, self.place_B) for parts in zip(*attended, strict=True)
        )
        own_BHGD = _stacked([part.output(layer, weights_BHGS[part.start : part.stop]) for part in self.own])
        return (shared_BHGD + own_BHGD).view(1, rows, -1, value.shape[3])


def _stacked(parts: Sequence[Tensor]) -> Tensor:
    """All below each other; a single one is not copied."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def _precise(scores: Tensor) -> Tensor:
    """In float32 at least."""
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


def _padded(scores: Sequence[Tensor]) -> Tensor:
    """Scores of several slabs below each other: no sample attends beyond its own slab."""
    if len(scores) == 1:
        return scores[0]
    longest = max(part.shape[-1] for part in scores)
    return torch.cat([pad(part, (0, longest - part.shape[-1]), value=-torch.inf) for part in scores])
