# pyright: basic
"""The batch as the model sees it: which rows share which prompts, and where everything is stored."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rlcr.engine.decoding import Decode, OwnPart, PromptPart
from rlcr.engine.slabs import Slab, Slabs
from rlcr.sample.jobs import Job


class Group:
    """A prompt in use."""

    slab: Slab[Group]
    slot: int

    def __init__(self, job: Job) -> None:
        self.job = job
        self.waiting = deque(job.samples)
        self.rows: list[Row] = []
        # After the prompt: what the first token of every sample is chosen from.
        self.logits_V = torch.empty(0)


class Row:
    """A sample in the batch."""

    slab: Slab[Row]
    slot: int

    def __init__(self, group: Group, sample: int, seat: int) -> None:
        self.group = group
        self.sample = sample
        self.seat = seat


@dataclass(frozen=True, slots=True)
class Layout:
    """Rows in the order of their slabs and slots; valid until samples come, go or move."""

    rows: list[Row]
    seats_B: np.ndarray
    slabs: list[tuple[Slab[Row], int, int]]
    prompts: list[PromptPart]
    place_B: Tensor

    def plan(self, stored_B: np.ndarray) -> Decode:
        """A step in which each row has stored this many tokens and adds one."""
        device = self.place_B.device
        own = []
        for slab, start, stop in self.slabs:
            stored = stored_B[start:stop]
            lengths = torch.from_numpy(stored).to(device)
            own.append(OwnPart(slab, start, stop, lengths, int(stored.max()) + 1, _mask(stored + 1, device)))
        return Decode(own, self.prompts, self.place_B)


def arrange(own_slabs: Slabs[Row], prompt_slabs: Slabs[Group], device: torch.device) -> Layout:
    """Lay out the rows that are in slabs now, with the prompts that they share."""
    slabs, rows = [], []
    for slab in own_slabs.occupied():
        slabs.append((slab, len(rows), len(rows) + len(slab.members)))
        rows += slab.members
    index_of = {id(row): index for index, row in enumerate(rows)}
    place_B = np.zeros(len(rows), dtype=np.int64)
    prompts, base = [], 0
    for slab in prompt_slabs.occupied():
        samples = max(len(group.rows) for group in slab.members)
        if not samples:
            continue
        rows_PN = np.zeros((len(slab.members), samples), dtype=np.int64)
        for line, group in enumerate(slab.members):
            for column, row in enumerate(group.rows):
                rows_PN[line, column] = index_of[id(row)]
                place_B[index_of[id(row)]] = base + line * samples + column
        base += rows_PN.size
        lengths = np.array([len(group.job.ids) for group in slab.members])
        shared = torch.from_numpy(rows_PN).to(device)
        prompts.append(PromptPart(slab, shared, int(lengths.max()), _mask(lengths, device)))
    seats_B = np.array([row.seat for row in rows])
    return Layout(rows, seats_B, slabs, prompts, torch.from_numpy(place_B).to(device))


def _mask(lengths: np.ndarray, device: torch.device) -> Tensor | None:
    """0 where a member has tokens and -inf behind them, (members, 1, longest); None if all are equal."""
    longest = int(lengths.max())
    if int(lengths.min()) == longest:
        return None
    lengths_N1 = torch.from_numpy(lengths)[:, None].to(device)
    beyond_NS = torch.arange(longest, device=device)[None] >= lengths_N1
    return torch.zeros(beyond_NS.shape, device=device).masked_fill_(beyond_NS, -torch.inf)[:, None]
