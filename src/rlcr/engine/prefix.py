# pyright: basic
"""Learning from groups that share a prompt: the prompt goes through the model once for all its completions.

Stock trainers repeat it for every completion: with prompts of 1,300 tokens and 32 completions of 300 that is
4.7 times the tokens. Here a pass is one row of tokens without padding, first all prompts, then all
completions behind each other:

    [prompt a | prompt b | a's completion 1 | a's completion 2 | … | b's completion 1 | …]

Everything in a decoder but attention treats tokens one by one and does not mind their order; rotary positions
come from explicit ``position_ids``. Attention is ours (`rlcr.engine.sharing` hooks it in), in two ordinary
calls of torch's fused attention: prompts with themselves, and completions with their prompt and themselves.
Both are differentiable, so gradients flow from all completions into the one prompt, and they are those of
the plain way up to rounding. There is no cache: gradient checkpointing simply runs a layer again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from rlcr.engine.batches import Sample


class _Side:
    """Sequences that lie behind each other in the packed row, and the same side by side, padded.

    Padding repeats a sequence's last token. Masks keep it away from other tokens and its own outputs are
    dropped, so no gradient reaches it, and both directions are plain copies in either pass.
    """

    def __init__(self, start: int, lengths: Sequence[int], device: torch.device) -> None:
        lengths_N = np.array(lengths)
        self.count, self.longest = len(lengths_N), int(lengths_N.max())
        self.start, self.stop = start, start + int(lengths_N.sum())
        self.picks = self.keeps = None
        if int(lengths_N.min()) < self.longest:
            first_N1 = (np.cumsum(lengths_N) - lengths_N)[:, None]
            steps_L = np.arange(self.longest)
            picks_NL = first_N1 + np.minimum(steps_L, np.maximum(lengths_N[:, None] - 1, 0))
            keeps = np.flatnonzero(steps_L < lengths_N[:, None])
            # An empty sequence at the end would pick behind the last token.
            picks = np.minimum(picks_NL, self.stop - start - 1).reshape(-1)
            self.picks = torch.from_numpy(picks).to(device)
            self.keeps = torch.from_numpy(keeps).to(device)

    def apart(self, x_1HTD: Tensor) -> Tensor:
        """(1, heads, tokens, dim) of the packed row to (sequences, heads, longest, dim)."""
        x_SHD = x_1HTD[0, :, self.start : self.stop].transpose(0, 1)
        if self.picks is not None:
            x_SHD = _Pad.apply(x_SHD, self.picks, self.keeps)
        return x_SHD.reshape(self.count, self.longest, *x_SHD.shape[1:]).transpose(1, 2)

    def behind(self, x_NHLD: Tensor) -> Tensor:
        """Back to (tokens, heads, dim) of these sequences, without padding."""
        x_SHD = x_NHLD.transpose(1, 2).flatten(0, 1)
        return x_SHD if self.keeps is None else _Unpad.apply(x_SHD, self.keeps)


class _Pad(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_SHD: Tensor, picks: Tensor, keeps: Tensor) -> Tensor:
        ctx.keeps = keeps
        return x_SHD.index_select(0, picks)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0].index_select(0, ctx.keeps), None, None


class _Unpad(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_SHD: Tensor, keeps: Tensor) -> Tensor:
        ctx.keeps, ctx.rows = keeps, len(x_SHD)
        return x_SHD.index_select(0, keeps)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        padded = grads[0].new_zeros(ctx.rows, *grads[0].shape[1:])
        padded[ctx.keeps] = grads[0]
        return padded, None


class SharedPrompts:
    """A pass over groups with shared prompts: what goes into the model, and its attention.

    A plain class on purpose: wrappers for several devices take dataclasses apart.
    """

    def __init__(self, samples: Sequence[Sample], device: torch.device) -> None:
        """``samples`` of one prompt stand together."""
        prompts: list[Sequence[int]] = []
        group_R: list[int] = []
        for before, sample in zip([None, *samples[:-1]], samples, strict=True):
            if before is None or before.group != sample.group:
                prompts.append(sample.prompt)
            group_R.append(len(prompts) - 1)
        lengths_P = np.array([len(prompt) for prompt in prompts])
        reads_R = np.array([sample.read for sample in samples])
        written = int(lengths_P.sum())
        ids = [np.concatenate([np.asarray(prompt) for prompt in prompts])]
        ids += [np.asarray(sample.completion[:-1], dtype=np.int64) for sample in samples]
        after_R = lengths_P[group_R]
        positions = [np.arange(length) for length in lengths_P]
        positions += [np.arange(p, p + n) for p, n in zip(after_R, reads_R, strict=True)]
        # A completion's first token is predicted at the end of its prompt, each other one at the one before.
        ends_R = np.cumsum(lengths_P)[group_R] - 1
        starts_R = written + np.cumsum(reads_R) - reads_R
        at, following = [], []
        for sample, end, start in zip(samples, ends_R, starts_R, strict=True):
            (counted,) = sample.counted_T.nonzero()
            at.append(np.where(counted == 0, end, start + counted - 1))
            following.append(np.asarray(sample.completion)[counted])

        def tensor(pieces: Sequence[np.ndarray]) -> Tensor:
            return torch.from_numpy(np.concatenate(pieces).astype(np.int64)).to(device)

        self.input_ids = tensor(ids)[None]
        self.position_ids = tensor(positions)[None]
        self.at_N, self.following_N = tensor(at), tensor(following)
        self.prompts = _Side(0, lengths_P.tolist(), device)
        # Completions of one token read nothing: their only token comes from the prompt.
        self.own = _Side(written, reads_R.tolist(), device) if reads_R.any() else None
        self.group_R = torch.tensor(group_R, device=device) if len(prompts) > 1 else None
        self._lengths_P = torch.from_numpy(lengths_P).to(device)
        self._masks: dict[Any, Tensor] = {}
        #: Where given, collects what layers ask for beyond plain attention (a window, a cap on the scores…).
        self.demands: dict[str, Any] | None = None

    def inputs(self) -> dict[str, Any]:
        """What the model's forward is called with, and the positions to be scored."""
        return {
            "input_ids": self.input_ids,
            "position_ids": self.position_ids,
            "packed": self,
            "at": self.at_N,
            "following": self.following_N,
        }

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
        """Outputs (1, tokens, heads, dim) of queries, keys and values (1, heads, tokens, dim)."""
        group = query.shape[1] // key.shape[1]
        prompt_keys, prompt_values = self.prompts.apart(key), self.prompts.apart(value)
        outputs = [
            self.prompts.behind(
                scaled_dot_product_attention(
                    self.prompts.apart(query),
                    prompt_keys,
                    prompt_values,
                    is_causal=True,
                    scale=scaling,
                    enable_gqa=group > 1,
                )
            )
        ]
        if self.own is not None:
            query_RHCD = self.own.apart(query)
            rows, heads, width, dim = query_RHCD.shape
            # Query heads that share keys become more queries of one head: keys need not be repeated.
            folded = query_RHCD.reshape(rows, heads // group, group * width, dim)
            attended = scaled_dot_product_attention(
                folded,
                torch.cat([self._repeated(prompt_keys), self.own.apart(key)], dim=2),
                torch.cat([self._repeated(prompt_values), self.own.apart(value)], dim=2),
                attn_mask=self._mask(group, query),
                scale=scaling,
            )
            outputs.append(self.own.behind(attended.reshape(rows, heads, width, attended.shape[-1])))
        return torch.cat(outputs)[None]

    def _repeated(self, x_PHSD: Tensor) -> Tensor:
        """The prompts' keys or values, for each of their completions."""
        assert self.own is not None
        if self.group_R is None:
            return x_PHSD.expand(self.own.count, -1, -1, -1)
        return x_PHSD.index_select(0, self.group_R)

    def _mask(self, group: int, like: Tensor) -> Tensor:
        """0 where a completion's token may look and -inf elsewhere: (rows or 1, 1, queries, keys)."""
        name = (group, like.dtype)
        if name not in self._masks:
            assert self.own is not None
            width, longest = self.own.longest, self.prompts.longest
            steps = torch.arange(max(width, longest), device=like.device)
            own_CC = steps[None, :width] > steps[:width, None]
            if self.prompts.picks is None or self.group_R is None:
                beyond_RS = torch.zeros(1, longest, dtype=torch.bool, device=like.device)
            else:
                beyond_RS = (steps[None, :longest] >= self._lengths_P[:, None])[self.group_R]
            rows = len(beyond_RS)
            hidden = torch.cat(
                [
                    beyond_RS[:, None, :].expand(rows, width, longest),
                    own_CC[None].expand(rows, width, width),
                ],
                dim=2,
            ).repeat(1, group, 1)
            mask = torch.zeros(hidden.shape, dtype=like.dtype, device=like.device)
            self._masks[name] = mask.masked_fill_(hidden, -torch.inf)[:, None]
        return self._masks[name]


def plain_inputs(samples: Sequence[Sample], pad: int, device: torch.device) -> dict[str, Any]:
    """The plain way: a row for each completion behind its prompt, padded on the right."""
    rows = [[*sample.prompt, *sample.completion[:-1]] for sample in samples]
    width = max(map(len, rows))
    ids_BL = np.full((len(rows), width), pad, dtype=np.int64)
    attended_BL = np.zeros((len(rows), width), dtype=np.int64)
    at, following = [], []
    for row, (sample, ids) in enumerate(zip(samples, rows, strict=True)):
        ids_BL[row, : len(ids)] = ids
        attended_BL[row, : len(ids)] = 1
        (counted,) = sample.counted_T.nonzero()
        at.append(row * width + len(sample.prompt) - 1 + counted)
        following.append(np.asarray(sample.completion, dtype=np.int64)[counted])
    return {
        "input_ids": torch.from_numpy(ids_BL).to(device),
        "attention_mask": torch.from_numpy(attended_BL).to(device),
        "position_ids": torch.arange(width, device=device).expand(len(rows), width),
        "at": torch.from_numpy(np.concatenate(at)).to(device),
        "following": torch.from_numpy(np.concatenate(following)).to(device),
    }
