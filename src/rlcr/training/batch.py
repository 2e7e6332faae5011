"""What flows through an update before it learns: prompts, completions, and what they are worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlcr.problem import Problem
from rlcr.prompts import opens_think
from rlcr.response import Response, Span
from rlcr.training.data import RenderedPrompt
from rlcr.training.rollouts import Rollout


@dataclass(frozen=True)
class Example:
    """A problem as the trainer meets it: with its prompt, rendered and tokenised."""

    problem: Problem
    prompt: RenderedPrompt

    @property
    def think_open(self) -> bool:
        """Whether the prompt ends inside ``<think>``."""
        return opens_think(self.prompt.text)


@dataclass(frozen=True)
class Batch:
    """Prompts of one update that this process answers: one row for each completion, groups together."""

    update: int
    """Its number; the first is 1."""
    examples: Sequence[Example]
    places: Sequence[int]
    """The place of each row among those of all processes; they go up."""
    group: int

    @property
    def numbers(self) -> list[int]:
        """The number of each row in its group; a group may lie across two processes."""
        return [place % self.group for place in self.places]


class Drawn(NamedTuple):
    """A completion, as a sampler hands it over."""

    row: int
    ids: list[int]
    logps: Sequence[float | None]
    """By which its tokens were drawn, at the temperature of the sampling; empty where nobody knows."""


@dataclass(frozen=True)
class SampledBatch:
    """What the model wrote."""

    batch: Batch
    completions: list[list[int]]
    logps: list[NDArray[np.float64] | None]
    """By which they were drawn; NaN or None where nobody knows."""
    truncated: list[bool]


@dataclass(frozen=True)
class ScoredBatch:
    """What was read in it, and what it is worth."""

    sampled: SampledBatch
    responses: list[Response]
    spans: list[list[Span]]
    """Of the tokens of each completion."""
    rollouts: list[Rollout]
    """Of all processes, in group order."""
