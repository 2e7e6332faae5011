# pyright: basic
"""Attention over packed sequences with shared prompts, as an attention function of transformers.

All sequences lie behind each other in one row of tokens (batch size 1): no padding anywhere outside
attention, and the output layer sees exactly the tokens whose logits are needed. A forward pass is either

* a `Prefill`: whole prompts, each attending to itself, whose keys and values go to a slab; or
* a `Decode`: one token for each sample. Its attention has two parts: the prompt, shared by all samples of a
  group, where queries of the group meet the prompt's keys in one matrix product; and the sample's own tokens.
  Each part yields an unnormalised output, its greatest score and the sum of its weights, and the two are
  merged exactly (the log-sum-exp trick).

The model receives the plan as the keyword ``packed``, which transformers hands down to the attention
function unchanged, and runs without a cache of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from rlcr.sample.slabs import Slab

#: The name under which transformers finds the function. No mask function has it, so models make no mask.
NAME = "rlcr_packed"


class NotForwardedError(Exception):
    """The model does not hand keywords down to its attention function."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Where a prompt lies in the packed row, and where its keys and values go."""

    start: int
    stop: int
    slab: Slab
    slot: int


@dataclass(frozen=True, slots=True)
class Prefill:
    """Prompts behind each other, each attending causally to itself."""

    segments: Sequence[Segment]

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
        """Outputs (1, tokens, heads, dim) of queries, keys and values (1, heads, tokens, dim)."""
        outputs = []
        groups = query.shape[1] // key.shape[1]
        for segment in self.segments:
            here = slice(segment.start, segment.stop)
            keys, values = segment.slab.layer(layer, key, value)
            keys[segment.slot, :, : segment.stop - segment.start] = key[0, :, here]
            values[segment.slot, :, : segment.stop - segment.start] = value[0, :, here]
            outputs.append(
                scaled_dot_product_attention(
                    query[:, :, here],
                    key[:, :, here],
                    value[:, :, here],
                    is_causal=True,
                    scale=scaling,
                    enable_gqa=groups > 1,
                )
            )
        return torch.cat(outputs, dim=2).transpose(1, 2)


@dataclass(frozen=True, slots=True)
class OwnPart:
    """Samples of one slab, rows ``start`` to ``stop`` of the batch: attention to their own tokens."""

    slab: Slab
    start: int
    stop: int
    lengths_B: Tensor
    """Tokens stored before this step: where the new token's keys and values go."""
    longest: int
    """Tokens stored after this step, at most."""
    mask_B1S: Tensor | None
    """0 and -inf; None where all lengths are equal."""

    def attend(self, layer: int, query_BHGD: Tensor, key_BHD: Tensor, value_BHD: Tensor, like: Any) -> Part:
        """The part of attention that goes to the samples' own tokens, which now include the new one."""
        rows, heads, group, dim = query_BHGD.shape
        keys, values = self.slab.layer(layer, *like)
        every = torch.arange(rows, device=keys.device)
        keys[every, :, self.lengths_B] = key_BHD
        values[every, :, self.lengths_B] = value_BHD
        keys_XSD = keys[:rows, :, : self.longest].flatten(0, 1)
        values_XSD = values[:rows, :, : self.longest].flatten(0, 1)
        scores_XGS = torch.bmm(query_BHGD.reshape(rows * heads, group, dim), keys_XSD.transpose(1, 2)).float()
        if self.mask_B1S is not None:
            scores_XGS.view(rows, heads * group, -1).add_(self.mask_B1S)
        return _weigh(scores_XGS, values_XSD).view(rows, heads, group)


@dataclass(frozen=True, slots=True)
class PromptPart:
    """Prompts of one slab: attention of their samples to them."""

    slab: Slab
    rows_PN: Tensor
    """The batch row of each sample of each prompt; prompts with fewer samples repeat row 0."""
    longest: int
    mask_P1S: Tensor | None
    """0 and -inf; None where all prompts are equally long."""

    def attend(self, layer: int, query_BHGD: Tensor, like: Any) -> Part:
        """The part of attention that goes to the prompts, for samples in the order of ``rows_PN``."""
        prompts, samples = self.rows_PN.shape
        _, heads, group, dim = query_BHGD.shape
        keys, values = self.slab.layer(layer, *like)
        keys_XSD = keys[:prompts, :, : self.longest].flatten(0, 1)
        values_XSD = values[:prompts, :, : self.longest].flatten(0, 1)
        # All queries of a prompt side by side, so that its keys are read once for all samples.
        query_PNHGD = query_BHGD[self.rows_PN]
        query_XND = query_PNHGD.transpose(1, 2).reshape(prompts * heads, samples * group, dim)
        scores_XNS = torch.bmm(query_XND, keys_XSD.transpose(1, 2)).float()
        if self.mask_P1S is not None:
            scores_XNS.view(prompts, heads * samples * group, -1).add_(self.mask_P1S)
        part = _weigh(scores_XNS, values_XSD).view(prompts, heads, samples, group)
        return part.map(lambda x: x.transpose(1, 2).flatten(0, 1))


@dataclass(frozen=True, slots=True)
class Part:
    """Attention to some of the keys, unnormalised: weighted values, greatest score, sum of weights."""

    output: Tensor
    peak: Tensor
    total: Tensor

    def map(self, change: Any) -> Part:
        """The same change to all three."""
        return Part(change(self.output), change(self.peak), change(self.total))

    def view(self, *shape: int) -> Part:
        """All three with the leading dimensions reshaped."""
        return self.map(lambda x: x.view(*shape, x.shape[-1]))


def _weigh(scores_XNS: Tensor, values_XSD: Tensor) -> Part:
    peak_XN1 = scores_XNS.amax(-1, keepdim=True)
    weights_XNS = scores_XNS.sub_(peak_XN1).exp_()
    output_XND = torch.bmm(weights_XNS.to(values_XSD.dtype), values_XSD)
    return Part(output_XND, peak_XN1, weights_XNS.sum(-1, keepdim=True))


def _join(parts: list[Part]) -> Part:
    if len(parts) == 1:
        return parts[0]
    return Part(*(torch.cat([getattr(p, name) for p in parts]) for name in ("output", "peak", "total")))


@dataclass(frozen=True, slots=True)
class Decode:
    """One new token for each sample of the batch."""

    own: Sequence[OwnPart]
    """In the order of the batch."""
    prompts: Sequence[PromptPart]
    place_B: Tensor
    """Where each row of the batch stands in the joined prompt parts."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
        """Outputs (1, tokens, heads, dim) of queries, keys and values (1, heads, tokens, dim)."""
        heads, rows = key.shape[1], key.shape[2]
        query_BHGD = (query[0] * scaling).transpose(0, 1).reshape(rows, heads, -1, query.shape[3])
        key_BHD, value_BHD = key[0].transpose(0, 1), value[0].transpose(0, 1)
        like = (key, value)
        own = _join(
            [
                part.attend(
                    layer,
                    query_BHGD[part.start : part.stop],
                    key_BHD[part.start : part.stop],
                    value_BHD[part.start : part.stop],
                    like,
                )
                for part in self.own
            ]
        )
        shared = _join([part.attend(layer, query_BHGD, like) for part in self.prompts])
        shared = shared.map(lambda x: x[self.place_B])
        peak = torch.maximum(own.peak, shared.peak)
        own_scale, shared_scale = (own.peak - peak).exp_(), (shared.peak - peak).exp_()
        total = own.total * own_scale + shared.total * shared_scale
        output = own.output * (own_scale / total) + shared.output * (shared_scale / total)
        return output.to(value.dtype).view(1, rows, -1, value.shape[3])


def packed_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any,
    scaling: float | None = None,
    packed: Prefill | Decode | None = None,
    demands: dict[str, Any] | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """The function that transformers calls in every layer.

    ``demands``, where given, collects what layers ask for beyond plain attention (a window, a cap on the
    scores…), so that a model that asks for what we lack is found out before it is used.
    """
    if packed is None:
        raise NotForwardedError(type(module).__name__)
    if demands is not None:
        demands.setdefault("layers", set()).add(module.layer_idx)
        for name in ("sliding_window", "softcap", "s_aux", "position_bias"):
            if kwargs.get(name) is not None:
                demands.setdefault(name, []).append(kwargs[name])
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    return packed.attend(int(module.layer_idx), query, key, value, scaling), None  # type: ignore[arg-type]
