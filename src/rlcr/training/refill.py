"""Dynamic sampling: groups whose completions all earn alike make room for groups of other problems.

Nothing is learned from such a group, and late in a run they are most of an update. Others take their places,
drawn from all problems of the run but those the update has met, by the seed and the number of the update:
a resumed run draws the same, and all processes agree without asking. Problems are drawn as they come, and
not to be solved less often later: the order of the epoch stays as it is.

Differs from DAPO, which goes on until the update is full: here the recipe bounds how often, and what still
teaches nothing then stays and is counted (``zero_variance_groups``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rlcr.training.batch import Batch, Example, ScoredBatch
from rlcr.training.measurements import equal_groups


def refill(
    scored: ScoredBatch,
    pool: Sequence[Example],
    again: Callable[[Batch], ScoredBatch],
    *,
    times: int,
    seed: int,
) -> tuple[ScoredBatch, int]:
    """The update after ``times`` draws at most, and how many groups made room for others.

    ``again`` samples and scores; every process calls it as often as the others, some with no rows.
    """
    met, groups = {rollout.problem for rollout in scored.rollouts}, 0
    for attempt in range(times):
        flat = np.flatnonzero(equal_groups(scored.rollouts, scored.sampled.batch.group)).tolist()
        others = [index for index, example in enumerate(pool) if example.problem.id not in met]
        if not flat or not others:
            break
        rng = np.random.default_rng([seed, scored.sampled.batch.update, attempt])
        drawn = rng.choice(others, size=min(len(flat), len(others)), replace=False).tolist()
        replacing = {group: pool[index] for group, index in zip(flat, drawn, strict=False)}
        scored = _replaced(scored, replacing, again)
        met |= {example.problem.id for example in replacing.values()}
        groups += len(replacing)
    return scored, groups


def _replaced(
    scored: ScoredBatch, replacing: Mapping[int, Example], again: Callable[[Batch], ScoredBatch]
) -> ScoredBatch:
    """The update with completions of these problems in the places of these groups."""
    old, batch = scored.sampled, scored.sampled.batch
    size = batch.group
    rows = [row for row, place in enumerate(batch.places) if place // size in replacing]
    places = [batch.places[row] for row in rows]
    fresh = again(replace(batch, examples=[replacing[place // size] for place in places], places=places))
    rollouts = list(scored.rollouts)
    everywhere = [group * size + number for group in sorted(replacing) for number in range(size)]
    for place, rollout in zip(everywhere, fresh.rollouts, strict=True):
        rollouts[place] = rollout

    def merged(before: Sequence[Any], after: Sequence[Any]) -> list[Any]:
        values = list(before)
        for row, value in zip(rows, after, strict=True):
            values[row] = value
        return values

    new = fresh.sampled
    sampled = replace(
        old,
        batch=replace(batch, examples=merged(batch.examples, new.batch.examples)),
        completions=merged(old.completions, new.completions),
        logps=merged(old.logps, new.logps),
        truncated=merged(old.truncated, new.truncated),
    )
    responses, spans = merged(scored.responses, fresh.responses), merged(scored.spans, fresh.spans)
    return ScoredBatch(sampled, responses, spans, rollouts)
