# pyright: basic
"""Where keys and values live while sampling: slabs of equal capacity, written in place.

A prompt's keys and values are stored once, however many samples continue it; each sample stores only its own
tokens. A slab holds members (prompts or samples) of one class of lengths, side by side without holes, so
that attention over all of them is one batched matrix product on a slice, with little padding and without
gathering. A sample that outgrows its slab moves to the next one, of twice the capacity.
"""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor


class Member(Protocol):
    """What lives in a slab: it knows its place."""

    slab: Any
    slot: int


M = TypeVar("M", bound=Member)


class Slab(Generic[M]):
    """Keys and values, for every layer, of members that each have room for ``capacity`` tokens."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.members: list[M] = []
        # Layer -> keys and values, each (slots, heads, capacity, dim). Layers may differ in heads and dim.
        self.layers: dict[int, tuple[Tensor, Tensor]] = {}

    @property
    def tokens(self) -> int:
        """How many tokens the members may hold."""
        return len(self.members) * self.capacity

    def add(self, member: M) -> None:
        """Give a member the next free slot."""
        member.slab, member.slot = self, len(self.members)
        self.members.append(member)

    def layer(self, index: int, keys: Tensor, values: Tensor, extra: int = 0) -> tuple[Tensor, Tensor]:
        """A layer's buffers, with slots for all members and ``extra`` ones, for keys and values like these.

        Growing happens here, layer by layer as the model runs, so that there are never two copies of more
        than one layer.
        """
        buffers = self.layers.get(index)
        wanted = len(self.members) + extra
        if buffers is None or not wanted <= len(buffers[0]) <= max(2 * wanted, 16):
            slots = wanted
            if buffers is not None and wanted > len(buffers[0]):
                slots = max(wanted, len(buffers[0]) * 5 // 4)
            # Zeros, not uninitialised memory: padding is read, and 0 * nan is nan. Untouched zero pages cost
            # no memory on a CPU.
            fresh = tuple(
                like.new_zeros(slots, like.shape[1], self.capacity, like.shape[3]) for like in (keys, values)
            )
            if buffers is not None:
                kept = min(slots, len(buffers[0]))
                for new, old in zip(fresh, buffers, strict=True):
                    new[:kept].copy_(old[:kept])
            self.layers[index] = buffers = (fresh[0], fresh[1])
        return buffers

    def remove(self, members: list[M]) -> None:
        """Remove members; the last ones take their slots."""
        gone = {id(member) for member in members}
        kept = len(self.members) - len(members)
        holes = sorted(member.slot for member in members if member.slot < kept)
        movers = [member for member in self.members[kept:] if id(member) not in gone]
        if not kept:
            self.layers.clear()
        elif holes:
            sources = torch.tensor([member.slot for member in movers])
            targets = torch.tensor(holes)
            for pair in self.layers.values():
                for buffer in pair:
                    buffer[targets.to(buffer.device)] = buffer[sources.to(buffer.device)]
        for member, slot in zip(movers, holes, strict=True):
            member.slot = slot
            self.members[slot] = member
        del self.members[kept:]

    def take_from(self, other: Slab[M], members: list[M]) -> None:
        """Move members here from a slab of smaller capacity."""
        sources = torch.tensor([member.slot for member in members])
        first = len(self.members)
        emptied = len(members) == len(other.members)
        for index in list(other.layers):
            keys, values = other.layers[index]
            mine = self.layer(index, keys, values, extra=len(members))
            for new, old in zip(mine, (keys, values), strict=True):
                new[first : first + len(members), :, : other.capacity] = old[sources.to(old.device)]
            if emptied:  # so that there are never two copies of more than one layer
                del other.layers[index]
        other.remove(members)
        for member in members:
            self.add(member)


class Slabs(Generic[M]):
    """Slabs by capacity, made when first needed."""

    def __init__(self) -> None:
        self.by_capacity: dict[int, Slab[M]] = {}

    def __getitem__(self, capacity: int) -> Slab[M]:
        if capacity not in self.by_capacity:
            self.by_capacity[capacity] = Slab(capacity)
        return self.by_capacity[capacity]

    def occupied(self) -> list[Slab[M]]:
        """Those with members, smallest capacity first."""
        return [self.by_capacity[c] for c in sorted(self.by_capacity) if self.by_capacity[c].members]

    @property
    def tokens(self) -> int:
        """How many tokens all members may hold."""
        return sum(slab.tokens for slab in self.by_capacity.values())


def prompt_capacity(length: int) -> int:
    """The class of a prompt: lengths within a quarter of each other share a slab.

    >>> [prompt_capacity(n) for n in (5, 33, 400, 401, 1300)]
    [32, 48, 480, 480, 1504]
    """
    capacity = 32
    while capacity < length:
        capacity = -(-capacity * 5 // 4 // 16) * 16
    return capacity


def sample_capacity(length: int, limit: int) -> int:
    """The class of a sample that holds ``length`` tokens of at most ``limit``: 64 and doubling."""
    capacity = 64
    while capacity < length:
        capacity *= 2
    return min(capacity, max(limit, 1))
