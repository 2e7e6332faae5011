# pyright: basic
"""Groups that share a prompt, in learning and embedding: it goes through the model once for all of them.

Stock trainers repeat it for every completion: with prompts of 1,300 tokens and 32 completions of 300 that is
4.7 times the tokens. Here a pass is one row of tokens without padding, first all prompts, then all
completions behind each other:

    [prompt a | prompt b | a's completion 1 | a's completion 2 | … | b's completion 1 | …]

Attention is two ordinary calls of torch's fused one: prompts with themselves, and completions with their
prompt and themselves. Both are differentiable, so gradients flow from all completions into the one prompt,
and they are those of the plain way up to rounding. There is no cache: gradient checkpointing simply runs a
layer again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from rlcr.engine.batches import Sample

#: Pairs of a padding query and a key that attention may compute for nothing in one call.
_WASTED = 2**17


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


class _Completions(_Side):
    """Completions side by side, each attending to its prompt and itself."""

    def __init__(self, start: int, lengths: Sequence[int], beyond_RS: Tensor, group_R: Tensor | None) -> None:
        """``beyond_RS`` says which keys of the padded prompts belong to nobody, in one row or in one for each
        completion; ``group_R`` is the prompt of each, None if there is but one."""
        super().__init__(start, lengths, beyond_RS.device)
        self._beyond_RS, self._group_R = beyond_RS, group_R
        self._masks: dict[Any, Tensor] = {}

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, prompt: Sequence[Tensor], scale: float
    ) -> Tensor:
        """Outputs (tokens, heads, dim), given the keys and values of the prompts too."""
        query_RHCD = self.apart(query)
        rows, heads, width, dim = query_RHCD.shape
        group = heads // key.shape[1]
        attended = scaled_dot_product_attention(
            # Query heads that share keys become more queries of one head: keys need not be repeated.
            query_RHCD.reshape(rows, heads // group, group * width, dim),
            torch.cat([self._repeated(prompt[0]), self.apart(key)], dim=2),
            torch.cat([self._repeated(prompt[1]), self.apart(value)], dim=2),
            attn_mask=self._mask(group, query),
            scale=scale,
        )
        return self.behind(attended.reshape(rows, heads, width, attended.shape[-1]))

    def _repeated(self, x_PHSD: Tensor) -> Tensor:
        """The prompts' keys or values, for each of their completions."""
        if self._group_R is None:
            return x_PHSD.expand(self.count, -1, -1, -1)
        return x_PHSD.index_select(0, self._group_R)

    def _mask(self, group: int, like: Tensor) -> Tensor:
        """0 where a completion's token may look and -inf elsewhere: (rows or 1, 1, queries, keys)."""
        name = (group, like.dtype)
        if name not in self._masks:
            width, rows = self.longest, len(self._beyond_RS)
            steps = torch.arange(width, device=like.device)
            own_CC = steps[None] > steps[:, None]
            hidden = torch.cat(
                [self._beyond_RS[:, None].expand(-1, width, -1), own_CC[None].expand(rows, -1, -1)], dim=2
            ).repeat(1, group, 1)
            mask = torch.zeros(hidden.shape, dtype=like.dtype, device=like.device)
            self._masks[name] = mask.masked_fill_(hidden, -torch.inf)[:, None]
        return self._masks[name]


class SharedPrompts:
    """A pass over groups with shared prompts: what goes into the model, and its attention.

    A plain class on purpose: wrappers for several devices take dataclasses apart.
    """

    def __init__(self, samples: Sequence[Sample], device: torch.device, *, by_length: bool = False) -> None:
        """``samples`` of one prompt stand together.

        With ``by_length`` completions of unlike lengths attend in several calls, which pays where they are
        many. Learning does without: its sums, and with them a whole run, stay the same bit for bit.
        """
        prompts: list[Sequence[int]] = []
        groups: list[int] = []
        for before, sample in zip([None, *samples[:-1]], samples, strict=True):
            if before is None or before.group != sample.group:
                prompts.append(sample.prompt)
            groups.append(len(prompts) - 1)
        lengths_P, group_R = np.array([len(prompt) for prompt in prompts]), np.array(groups)
        reads_R = np.array([sample.read for sample in samples])
        written = int(lengths_P.sum())
        order_R, cuts = np.arange(len(reads_R)), list[int]()
        if by_length:
            order_R, cuts = _by_length(reads_R, int(lengths_P.max()))
        ids = [np.concatenate([np.asarray(prompt) for prompt in prompts])]
        ids += [np.asarray(samples[row].completion[:-1], dtype=np.int64) for row in order_R.tolist()]
        positions = [np.arange(length) for length in lengths_P]
        after_R = lengths_P[group_R]
        positions += [np.arange(p, p + n) for p, n in zip(after_R[order_R], reads_R[order_R], strict=True)]
        # A completion's first token is predicted at the end of its prompt, each other one at the one before.
        ends_R = np.cumsum(lengths_P)[group_R] - 1
        starts_R = np.empty_like(reads_R)
        starts_R[order_R] = written + np.cumsum(reads_R[order_R]) - reads_R[order_R]
        at, following = [], []
        for sample, end, start in zip(samples, ends_R, starts_R, strict=True):
            (counted,) = sample.counted_T.nonzero()
            at.append(np.where(counted == 0, end, start + counted - 1))
            following.append(np.asarray(sample.completion)[counted])
        # Behind all of them, in the same order, what else might have been written.
        for sample, end, start in zip(samples, ends_R, starts_R, strict=True):
            if choice := sample.choice:
                at.append(np.full(len(choice.tokens), start + choice.at - 1 if choice.at else end))
                following.append(np.array(choice.tokens))

        def tensor(pieces: Sequence[np.ndarray]) -> Tensor:
            return torch.from_numpy(np.concatenate(pieces).astype(np.int64)).to(device)

        self.input_ids = tensor(ids)[None]
        self.position_ids = tensor(positions)[None]
        self.at_N, self.following_N = tensor(at), tensor(following)
        self.prompts = _Side(0, lengths_P.tolist(), device)
        self.own: list[_Completions] = []
        for first, stop in pairwise([0, *cuts, len(samples)]):
            rows = order_R[first:stop]
            # Completions of one token read nothing: their only token comes from the prompt.
            if not reads_R[rows].any():
                continue
            mine_R = torch.from_numpy(group_R[rows]).to(device) if len(prompts) > 1 else None
            # One row of the mask is enough for all where prompts are equally long.
            lengths = lengths_P[:1] if self.prompts.picks is None else after_R[rows]
            beyond_RS = torch.from_numpy(np.arange(self.prompts.longest) >= lengths[:, None]).to(device)
            self.own.append(_Completions(int(starts_R[rows[0]]), reads_R[rows].tolist(), beyond_RS, mine_R))

    def inputs(self) -> dict[str, Any]:
        """What the model's forward is called with, and the positions to be scored."""
        return {
            "input_ids": self.input_ids,
            "position_ids": self.position_ids,
            "packed": self,
            "at": self.at_N,
            "following": self.following_N,
        }

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """Outputs (1, tokens, heads, dim) of queries, keys and values (1, heads, tokens, dim)."""
        prompt = self.prompts.apart(key), self.prompts.apart(value)
        grouped = query.shape[1] > key.shape[1]
        attended = scaled_dot_product_attention(
            self.prompts.apart(query), *prompt, is_causal=True, scale=scale, enable_gqa=grouped
        )
        outputs = [self.prompts.behind(attended)]
        outputs += [own.attend(query, key, value, prompt, scale) for own in self.own]
        return torch.cat(outputs)[None]


def _by_length(reads_R: np.ndarray, prompt: int) -> tuple[np.ndarray, list[int]]:
    """An order of the completions, and where to cut it, so that padding costs attention little.

    As they are, uncut, where it costs little anyway: small passes gain from fewer calls.
    """
    order_R = np.argsort(-reads_R, kind="stable")
    cuts, longest, wasted = [], int(reads_R.max()), 0
    for place, read in enumerate(reads_R[order_R].tolist()):
        wasted += (longest - read) * (prompt + longest)
        if wasted > _WASTED:
            cuts.append(place)
            longest, wasted = read, 0
    return (order_R if cuts else np.arange(len(reads_R))), cuts


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
    for row, sample in enumerate(samples):
        if choice := sample.choice:
            at.append(np.full(len(choice.tokens), row * width + len(sample.prompt) - 1 + choice.at))
            following.append(np.array(choice.tokens, dtype=np.int64))
    return {
        "input_ids": torch.from_numpy(ids_BL).to(device),
        "attention_mask": torch.from_numpy(attended_BL).to(device),
        "position_ids": torch.arange(width, device=device).expand(len(rows), width),
        "at": torch.from_numpy(np.concatenate(at)).to(device),
        "following": torch.from_numpy(np.concatenate(following)).to(device),
    }
