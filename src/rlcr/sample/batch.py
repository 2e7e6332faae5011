# pyright: basic
"""Continuous batching: which samples are in the batch, from one step to the next.

A group is a prompt in use: its keys and values are computed and stored once. Its samples take seats in the
batch as seats become free, leave at once when they finish, and the next prompts enter, so that the batch
stays full until the work runs out. What a step needs of each sample (last token, position, limit, random
stream) lies in arrays by seat, and the layout of the batch changes only when samples come or go: Python's
work in a step hardly grows with the batch.

Memory is bounded by a budget of cached tokens. Lengths of responses are not known beforehand, so samples are
admitted on the mean length seen so far; when the guess was too low, the shortest samples give way and later
resume by reading what they wrote. Their random numbers depend on positions only, so nothing else changes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from rlcr.engine.decoding import PREFILL_TOKENS, PackedModel
from rlcr.engine.slabs import Slabs, prompt_capacity, sample_capacity
from rlcr.errors import RlcrError
from rlcr.sample import Completion, Sampling
from rlcr.sample.choice import choose, stream
from rlcr.sample.jobs import Job, Maker
from rlcr.sample.layout import Group, Layout, Row, arrange

#: The guess at a response's length before any has finished.
FIRST_GUESS = 256


class Batch:
    """The samples of jobs, which may be added at any time."""

    def __init__(
        self,
        model: PackedModel,
        maker: Maker,
        *,
        token_budget: int,
        max_rows: int,
        first_guess: int = FIRST_GUESS,
    ) -> None:
        self.model = model
        self.maker = maker
        self.sampling: Sampling = maker.sampling
        self.jobs: deque[Job] = deque()
        self.token_budget = token_budget
        self.groups: list[Group] = []
        self.rows: list[Row] = []
        self.free = list(range(max_rows))[::-1]
        self.prompt_slabs: Slabs[Group] = Slabs()
        self.own_slabs: Slabs[Row] = Slabs()
        self.layout: Layout | None = None
        self.full = False  # no more samples fit until some leave
        self.first_guess = first_guess
        self.finished_rows = self.finished_tokens = self.least_guess = 0
        self.eos = np.array(sorted(maker.eos_ids), dtype=np.int64)
        # By seat. Tokens and log-probabilities are those since the sample (last) entered the batch.
        self.streams = np.zeros(max_rows, dtype=np.uint64)
        self.offsets = np.zeros(max_rows, dtype=np.int64)  # the position in the response of token 0
        self.prompts = np.zeros(max_rows, dtype=np.int64)  # tokens of the prompt
        self.counts = np.zeros(max_rows, dtype=np.int64)  # tokens chosen, of which the last is not stored yet
        self.limits = np.zeros(max_rows, dtype=np.int64)
        self.tokens = np.zeros((max_rows, 64), dtype=np.int64)
        self.logprobs = np.zeros((max_rows, 64), dtype=np.float32)

    def add(self, jobs: Iterable[Job]) -> None:
        """More work, to follow what is waiting."""
        # Longest first: what needs most memory comes while the batch is easiest to plan, and neighbours
        # have similar lengths, so that little is padded.
        self.full = False
        self.jobs.extend(sorted(jobs, key=lambda job: len(job.ids), reverse=True))

    @property
    def busy(self) -> bool:
        """Whether there is anything left to do."""
        return bool(self.rows or self.groups or self.jobs)

    def advance(self) -> list[Completion]:
        """Admit what fits and take steps until some samples have finished; those."""
        finished: list[Completion] = []
        with self.model.active():
            while self.busy and not finished:
                finished += self._admit()
                if self.rows:
                    self._make_room()
                    finished += self._step()
        return finished

    # Entering -----------------------------------------------------------------------------------------------

    def _guess(self, limit: int) -> int:
        """How many tokens a sample may come to hold."""
        mean = self.finished_tokens // self.finished_rows if self.finished_rows else self.first_guess
        return min(limit, max(32, mean * 5 // 4, self.least_guess))

    def _committed(self) -> int:
        """Tokens that the prompts and samples of the batch hold or are expected to."""
        own = sum(max(row.slab.capacity, self._guess(int(self.limits[row.seat]))) for row in self.rows)
        return self.prompt_slabs.tokens + own

    def _admit(self) -> list[Completion]:
        """Start samples of prompts in use, then of new prompts, while there are seats and memory."""
        if self.full or not self.free or not (self.jobs or any(group.waiting for group in self.groups)):
            return []
        committed = self._committed()
        starting: list[tuple[Group, int]] = []
        entering: list[Group] = []

        def start(group: Group) -> None:
            nonlocal committed
            guess = self._guess(group.job.limit)
            while group.waiting and len(starting) < len(self.free):
                if committed + guess > self.token_budget and (self.rows or starting):
                    break
                committed += guess
                starting.append((group, group.waiting.popleft()))

        for group in self.groups:
            start(group)
        while self.jobs and len(starting) < len(self.free):
            job = self.jobs[0]
            room = prompt_capacity(len(job.ids))
            if committed + room + self._guess(job.limit) > self.token_budget and (self.rows or starting):
                break
            committed += room
            group = Group(self.jobs.popleft())
            entering.append(group)
            start(group)
        self.full = not starting
        self._prefill(entering)
        return self._start(starting)

    def _prefill(self, groups: Sequence[Group]) -> None:
        """Compute and store the prompts, in lots of bounded size."""
        self.groups += groups
        for group in groups:
            self.prompt_slabs[prompt_capacity(len(group.job.ids))].add(group)
        lot: list[Group] = []
        for index, group in enumerate(groups):
            lot.append(group)
            following = len(groups[index + 1].job.ids) if index + 1 < len(groups) else PREFILL_TOKENS
            if sum(len(g.job.ids) for g in lot) + following > PREFILL_TOKENS:
                logits_PV = self.model.prefill([g.job.ids for g in lot], [(g.slab, g.slot) for g in lot])
                for g, logits_V in zip(lot, logits_PV, strict=True):
                    g.logits_V = logits_V.clone() if len(lot) > 1 else logits_V
                lot = []

    def _start(self, starting: Sequence[tuple[Group, int]]) -> list[Completion]:
        """Choose the first token of samples; those that have not finished with it join the batch."""
        if not starting:
            return []
        rows = []
        for group, sample in starting:
            row = Row(group, sample, self.free.pop())
            group.rows.append(row)
            job = group.job
            self.streams[row.seat] = stream(self.sampling.seed, job.key, sample)
            self.offsets[row.seat] = job.position
            self.prompts[row.seat] = len(job.ids)
            self.counts[row.seat] = 0
            self.limits[row.seat] = job.limit
            rows.append(row)
        logits_BV = torch.stack([group.logits_V for group, _ in starting])
        seats_B = np.array([row.seat for row in rows])
        ended_B = self._choose(logits_BV, seats_B, rows)
        for group, _ in starting:
            if not group.waiting:
                group.logits_V = torch.empty(0)
        staying = [row for row, ended in zip(rows, ended_B, strict=True) if not ended]
        for row in staying:
            self.own_slabs[sample_capacity(1, int(self.limits[row.seat]))].add(row)
        self.rows += staying
        self.layout = None
        return self._leave([row for row, ended in zip(rows, ended_B, strict=True) if ended])

    # One step -----------------------------------------------------------------------------------------------

    def _step(self) -> list[Completion]:
        """One more token for every sample in the batch."""
        device = self.model.device
        if self.layout is None:
            self.layout = arrange(self.own_slabs, self.prompt_slabs, device)
        layout = self.layout
        seats_B = layout.seats_B
        last_B = self.counts[seats_B] - 1
        tokens_B = torch.from_numpy(self.tokens[seats_B, last_B]).to(device)
        positions_B = torch.from_numpy(self.prompts[seats_B] + last_B).to(device)
        logits_BV = self.model.decode(tokens_B, positions_B, layout.plan(last_B))
        ended_B = self._choose(logits_BV, seats_B, layout.rows)
        ended = [layout.rows[index] for index in np.flatnonzero(ended_B).tolist()]
        return self._leave(ended) if ended else []

    def _choose(self, logits_BV: Tensor, seats_B: np.ndarray, rows: Sequence[Row]) -> np.ndarray:
        """Choose a token for each row and note it; whether the row has ended."""
        counts_B = self.counts[seats_B]
        positions_B = self.offsets[seats_B] + counts_B
        choice = choose(
            logits_BV, self.streams[seats_B], positions_B, self.sampling, tempered=self.maker.tempered
        )
        if np.isnan(choice.logprobs_B).any():
            key = rows[int(np.flatnonzero(np.isnan(choice.logprobs_B))[0])].group.job.key
            raise RlcrError(f"{key}: the model's output is not a number; its weights may be damaged")
        if int(counts_B.max()) >= self.tokens.shape[1]:
            self.tokens = np.concatenate([self.tokens, np.zeros_like(self.tokens)], axis=1)
            self.logprobs = np.concatenate([self.logprobs, np.zeros_like(self.logprobs)], axis=1)
        self.tokens[seats_B, counts_B] = choice.tokens_B
        self.logprobs[seats_B, counts_B] = choice.logprobs_B
        self.counts[seats_B] += 1
        ended_B = np.isin(choice.tokens_B, self.eos) | (self.counts[seats_B] >= self.limits[seats_B])
        if self.maker.stops:
            for index in np.flatnonzero(~ended_B).tolist():
                row, done = rows[index], rows[index].group.job.done
                fresh = self.tokens[row.seat, : self.counts[row.seat]]  # a view: nothing is copied here
                ended_B[index] = self.maker.stops_at(
                    row.group.job, [*done, *fresh.tolist()] if done else fresh
                )
        return ended_B

    def _make_room(self) -> None:
        """Move samples that fill their slab to the next; if the budget is spent, the shortest give way."""
        for slab in reversed(self.own_slabs.occupied()) if self._any_fills_its_slab() else ():
            full = [row for row in slab.members if self.counts[row.seat] > slab.capacity]
            if full:
                capacity = sample_capacity(slab.capacity + 1, int(max(self.limits[r.seat] for r in full)))
                self.own_slabs[capacity].take_from(slab, full)
                self.layout = None
        while len(self.rows) > 1 and self.prompt_slabs.tokens + self.own_slabs.tokens > self.token_budget:
            row = min(reversed(self.rows), key=lambda row: self.counts[row.seat])
            # The guess was too low: fewer at once from now on.
            self.least_guess = max(self.least_guess, int(self.counts.max()) * 5 // 4)
            job = row.group.job
            ids, logprobs = self._written(row)
            fresh = len(ids) - len(job.done)
            resumed = Job(
                key=job.key,
                samples=(row.sample,),
                ids=(*job.ids, *ids[len(job.done) :]),
                prompt_tokens=job.prompt_tokens,
                prefix_ids=job.prefix_ids,
                limit=job.limit - fresh,
                think_open=job.think_open,
                done=tuple(ids),
                done_logprobs=tuple(logprobs),
            )
            self._remove([row])
            self.jobs.append(resumed)

    def _any_fills_its_slab(self) -> bool:
        """Whether any must move. Asked in every step, so without Python's work for each row."""
        if self.layout is None:
            return True
        # The token chosen last is stored in the coming step.
        counts_B = self.counts[self.layout.seats_B]
        return any(
            bool((counts_B[start:stop] > slab.capacity).any()) for slab, start, stop in self.layout.slabs
        )

    # Leaving ------------------------------------------------------------------------------------------------

    def _written(self, row: Row) -> tuple[list[int], list[float]]:
        """All that a sample has written."""
        count = self.counts[row.seat]
        job = row.group.job
        tokens = self.tokens[row.seat, :count].tolist()
        return [*job.done, *tokens], [*job.done_logprobs, *self.logprobs[row.seat, :count].tolist()]

    def _leave(self, rows: list[Row]) -> list[Completion]:
        """Finished samples leave, and prompts that are no longer needed."""
        completions = []
        for row in rows:
            ids, logprobs = self._written(row)
            job = row.group.job
            stopped = ids[-1] in self.maker.eos_ids or (
                bool(self.maker.stops) and self.maker.stops_at(job, ids)
            )
            reason: Literal["stop", "length"] = "stop" if stopped else "length"
            completions.append(self.maker.completion(job, row.sample, ids, logprobs, reason))
            self.finished_rows += 1
            self.finished_tokens += len(ids)
        self._remove(rows)
        return completions

    def _remove(self, rows: list[Row]) -> None:
        self.full = False
        gone = {id(row) for row in rows}
        for slab in {id(row.slab): row.slab for row in rows if hasattr(row, "slab")}.values():
            slab.remove([row for row in slab.members if id(row) in gone])
        for row in rows:
            row.group.rows.remove(row)
            self.counts[row.seat] = 0
            self.free.append(row.seat)
        self.rows = [row for row in self.rows if id(row) not in gone]
        done = [group for group in self.groups if not group.rows and not group.waiting]
        for slab in {id(group.slab): group.slab for group in done}.values():
            slab.remove([group for group in done if group.slab is slab])
        self.groups = [group for group in self.groups if group.rows or group.waiting]
        self.layout = None
