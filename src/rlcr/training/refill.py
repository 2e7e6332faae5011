"""Dynamic sampling: groups whose completions all earn alike make room for groups of other problems.

Nothing is learned from such a group, and late in a run they are most of an update. Others take their places,
drawn from all problems of the run but those the update has met, by the seed and the number of the update:
a resumed run draws the same, and all processes agree without asking. Problems are drawn as they come, and
not to be solved less often later: the order of the epoch stays as it is.

Differs from DAPO, which goes on until the update is full: here the recipe bounds how often, and what still
teaches nothing then stays and is counted (``zero_variance_groups``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rlcr.training.batch import Batch, Example, ScoredBatch
from rlcr.training.measurements import equal_groups


@dataclass(frozen=True)
class Refill:
    """What takes the places of groups that teach nothing."""

    batch: Batch
    """The rows of this process."""
    everywhere: Sequence[int]
    """The places of all processes."""
    groups: int

    def into(self, scored: ScoredBatch, fresh: ScoredBatch) -> ScoredBatch:
        """The update with the fresh completions in their places."""
        rollouts = list(scored.rollouts)
        for place, rollout in zip(self.everywhere, fresh.rollouts, strict=True):
            rollouts[place] = rollout
        old, new = scored.sampled, fresh.sampled
        row_of = {place: row for row, place in enumerate(old.batch.places)}
        rows = [row_of[place] for place in self.batch.places]

        def merged(before: Sequence[Any], after: Sequence[Any]) -> list[Any]:
            values = list(before)
            for row, value in zip(rows, after, strict=True):
                values[row] = value
            return values

        examples = merged(old.batch.examples, new.batch.examples)
        sampled = replace(
            old,
            batch=replace(old.batch, examples=examples),
            completions=merged(old.completions, new.completions),
            logps=merged(old.logps, new.logps),
            truncated=merged(old.truncated, new.truncated),
        )
        return ScoredBatch(
            sampled, merged(scored.responses, fresh.responses), merged(scored.spans, fresh.spans), rollouts
        )


def refill_of(scored: ScoredBatch, pool: Sequence[Example], seed: int, attempt: int) -> Refill | None:
    """Other problems for the groups that teach nothing; None where there are no such groups, or no others."""
    batch = scored.sampled.batch
    flat = np.flatnonzero(equal_groups(scored.rollouts, batch.group)).tolist()
    met = {rollout.problem for rollout in scored.rollouts}
    others = [index for index, example in enumerate(pool) if example.problem.id not in met] if flat else []
    flat = flat[: len(others)]
    if not flat:
        return None
    rng = np.random.default_rng([seed, batch.update, attempt])
    drawn = dict(zip(flat, rng.choice(others, size=len(flat), replace=False).tolist(), strict=True))
    size = batch.group
    own = [place for place in batch.places if place // size in drawn]
    return Refill(
        batch=replace(batch, examples=[pool[drawn[place // size]] for place in own], places=own),
        everywhere=[group * size + number for group in flat for number in range(size)],
        groups=len(flat),
    )
