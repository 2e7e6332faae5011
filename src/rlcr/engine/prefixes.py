# pyright: basic
"""A model run once over many sequences that begin alike, without padding and without reading anything twice.

All sequences of a batch lie behind each other in one row of tokens, as a tree: the beginning that all share
(the system prompt), then what the responses to one question share, then each response. Every piece is there
once and attends to itself and to the pieces above it. That is the same as running each whole sequence by
itself: a token sees exactly the tokens before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

#: The name under which transformers finds the function. No mask function has it, so models make no mask.
NAME = "rlcr_prefixes"


@dataclass(slots=True)
class Piece:
    """Some tokens of the row, and the pieces that come before them in their sequences."""

    start: int
    stop: int
    above: tuple[Piece, ...] = ()
    mask_TS: Tensor | None = field(default=None, repr=False)
    """Which keys each token sees; None where that is plainly the tokens before it."""

    @property
    def position(self) -> int:
        """Where its first token stands in its sequences."""
        return sum(piece.stop - piece.start for piece in self.above)


@dataclass(frozen=True)
class Tree:
    """A batch: tokens, their positions, the pieces, and the place of each sequence's last token."""

    ids: list[int]
    pieces: list[Piece]
    last: list[int]

    def positions(self) -> list[int]:
        """The position of each token in its own sequences."""
        return [piece.position + step for piece in self.pieces for step in range(piece.stop - piece.start)]


def grow(sequences: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Tree:
    """The tree of (prompt, response) pairs; those of one prompt must follow each other."""
    prompts = list(dict.fromkeys(tuple(prompt) for prompt, _ in sequences))
    trunk_length = common(prompts) if len(prompts) > 1 else 0
    # A prompt that is all trunk would leave nothing for its own piece, which is fine: it is empty.
    ids: list[int] = list(prompts[0][:trunk_length])
    pieces = [Piece(0, trunk_length)] if trunk_length else []
    trunk = tuple(pieces)
    branch = trunk
    current: tuple[int, ...] | None = None
    last = []
    for prompt, response in sequences:
        if tuple(prompt) != current:
            current = tuple(prompt)
            branch = trunk
            if len(current) > trunk_length:
                piece = Piece(len(ids), len(ids) + len(current) - trunk_length, trunk)
                ids += current[trunk_length:]
                pieces.append(piece)
                branch = (*trunk, piece)
        if response:
            pieces.append(Piece(len(ids), len(ids) + len(response), branch))
            ids += response
            last.append(len(ids) - 1)
        else:
            last.append(branch[-1].stop - 1)
    return Tree(ids, pieces, last)


def common(prompts: Sequence[Sequence[int]]) -> int:
    """The length of what all prompts begin with."""
    first, least = prompts[0], min(map(len, prompts))
    for place in range(least):
        if any(prompt[place] != first[place] for prompt in prompts):
            return place
    return least


def attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any,
    scaling: float | None = None,
    pieces: Sequence[Piece] | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """The function that transformers calls in every layer, on one row (1, heads, tokens, dim)."""
    if pieces is None:
        raise TypeError("the model does not hand keywords down to its attention")
    for name in ("sliding_window", "softcap", "s_aux", "position_bias"):
        if kwargs.get(name) is not None:
            raise TypeError(f"its attention has a {name}")
    repeats = query.shape[1] // key.shape[1]
    if repeats > 1:
        key, value = (x.repeat_interleave(repeats, dim=1) for x in (key, value))
    output = torch.empty_like(query)
    for piece in pieces:
        own = slice(piece.start, piece.stop)
        keys, values = key[:, :, own], value[:, :, own]
        if piece.above:
            parts = [slice(above.start, above.stop) for above in piece.above]
            keys, values = (
                torch.cat([*(x[:, :, part] for part in parts), x[:, :, own]], dim=2) for x in (key, value)
            )
        output[:, :, own] = scaled_dot_product_attention(
            query[:, :, own],
            keys,
            values,
            attn_mask=piece.mask_TS,
            is_causal=piece.mask_TS is None,
            scale=scaling,
        )
    return output.transpose(1, 2), None


AttentionInterface.register(NAME, attention)


@contextmanager
def switched(model: Any) -> Iterator[None]:
    """Our attention in place of the model's own."""
    own = model.config._attn_implementation
    model.set_attn_implementation(NAME)
    try:
        yield
    finally:
        model.set_attn_implementation(own)


def run(decoder: Any, tree: Tree, device: Any) -> Tensor:
    """The last hidden states (tokens, hidden) of a tree. Only inside `switched`."""
    for piece in tree.pieces:
        length, before = piece.stop - piece.start, piece.position
        if before:
            seen = torch.ones(length, before + length, dtype=torch.bool, device=device)
            piece.mask_TS = seen.tril(before)
    output = decoder(
        input_ids=torch.tensor([tree.ids], device=device),
        position_ids=torch.tensor([tree.positions()], device=device),
        use_cache=False,
        pieces=tree.pieces,
    )
    return output.last_hidden_state[0]
