"""How an update is cut into passes through the model: what need not be computed, and what goes together.

A pass is one forward and backward. Its size in memory is its number of tokens, and a group that shares its
prompt brings that prompt once: so groups stay together, passes are filled up to a budget of tokens, and
groups of similar length go side by side, because attention pads them to the longest. Attention alone still
needs the prompt's keys and values once for each completion, so they are bounded as well.

Each completion carries the weight of its tokens in the loss, worked out for the whole update beforehand. The
gradient is a sum over tokens, so it does not depend on how the update is cut, nor on leaving out completions
from which nothing flows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

#: Logits that are held at once at most: 256 MB in float32. Where there are more, they are made twice.
#: Here, and not with the head, because the estimate of a run's memory does without torch.
HELD_LOGITS = 2**26
#: Keys and values that attention may hold for a pass, in multiples of its tokens: most of a token's memory is
#: elsewhere, and 32 completions of 300 tokens behind 1,300 have 4.7.
REPEATED = 5
#: Numbers in the mask of a pass whose prompts have different lengths, for each head that shares keys. Prompts
#: of one length need one mask for all completions.
_MASK = 2**25


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """A place in a completion where it is known what each of several tokens would have been worth."""

    at: int
    """The number of the token in the completion."""
    tokens: tuple[int, ...]
    rewards_K: NDArray[np.float64]
    weight: float = 0.0
    """What its loss is multiplied by."""


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """A completion as the loss sees it. Arrays have one entry for each token of the completion."""

    group: int
    """The number of its prompt in the update."""
    prompt: Sequence[int]
    completion: Sequence[int]
    advantages_T: NDArray[np.float64]
    counted_T: NDArray[np.bool_]
    weight: float = 0.0
    """What each counted token's loss is multiplied by."""
    choice: Choice | None = None
    sampled_T: NDArray[np.float64] | None = None
    """The log-probabilities by which its tokens were drawn, NaN where unknown; None where none is known."""

    @property
    def counted(self) -> int:
        """How many of its tokens count."""
        return int(self.counted_T.sum())

    @property
    def has_advantage(self) -> bool:
        """Whether the policy gradient of any token that counts is other than zero."""
        return bool(self.advantages_T[self.counted_T].any())

    @property
    def teaches(self) -> bool:
        """Whether anything is learned from it."""
        return self.has_advantage or self.choice is not None

    def choice_alone(self) -> Sample:
        """It up to its choice, of which nothing else counts."""
        assert self.choice is not None
        kept = self.choice.at + 1
        nothing = np.zeros(kept)
        return replace(
            self,
            completion=self.completion[:kept],
            advantages_T=nothing,
            counted_T=nothing.astype(bool),
            sampled_T=None,
        )

    @property
    def read(self) -> int:
        """Tokens of the completion that the model reads: nothing is predicted from the last one."""
        return len(self.completion) - 1


def common_beginning(rows: Sequence[Sequence[int]]) -> int:
    """How many tokens all rows begin with."""
    together = zip(*rows, strict=False)
    return next((place for place, ids in enumerate(together) if len(set(ids)) > 1), min(map(len, rows)))


def cut_plain(samples: Sequence[Sample], rows: int) -> list[list[Sample]]:
    """``rows`` completions at a time, in the order given."""
    return [list(samples[start : start + rows]) for start in range(0, len(samples), rows)]


def cut_shared(samples: Sequence[Sample], budget: int) -> list[list[Sample]]:
    """Whole groups, of similar length, up to ``budget`` tokens at a time, a prompt counted once.

    Rows x (longest prompt + longest completion) stay below a multiple of it. A group that is larger is cut
    into parts, each with the prompt; a single completion may exceed the budget.
    """
    groups: dict[int, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.group, []).append(sample)
    parts = [part for group in groups.values() for part in _parts(group, budget)]
    parts.sort(key=lambda part: (max(sample.read for sample in part), len(part[0].prompt)), reverse=True)
    passes: list[list[Sample]] = []
    size = None
    for part in parts:
        own = _Size.of(part)
        both = size and size.beside(own)
        if both and both.fits(budget):
            passes[-1] += part
            size = both
        else:
            passes.append(list(part))
            size = own
    return passes


@dataclass(frozen=True, slots=True)
class _Size:
    """What a pass holds, as far as it decides whether more may come."""

    tokens: int
    rows: int
    prompt: int
    """The longest one."""
    read: int
    """Of the longest completion."""
    alike: bool = True
    """Whether all prompts have one length."""

    @classmethod
    def of(cls, group: Sequence[Sample]) -> _Size:
        prompt, reads = len(group[0].prompt), [sample.read for sample in group]
        return cls(prompt + sum(reads), len(group), prompt, max(reads))

    def beside(self, other: _Size) -> _Size:
        """Both in one pass."""
        prompt, read = max(self.prompt, other.prompt), max(self.read, other.read)
        alike = self.alike and other.alike and self.prompt == other.prompt
        return _Size(self.tokens + other.tokens, self.rows + other.rows, prompt, read, alike)

    def fits(self, budget: int) -> bool:
        keys = self.rows * (self.prompt + self.read)
        mask = 0 if self.alike else keys * self.read
        return self.tokens <= budget and keys <= REPEATED * budget and mask <= _MASK


def _parts(group: list[Sample], budget: int) -> list[list[Sample]]:
    if _Size.of(group).fits(budget):
        return [group]
    # Longest first, so that those of one part are alike.
    ordered = sorted(group, key=lambda sample: sample.read, reverse=True)
    parts: list[list[Sample]] = []
    size = None
    for sample in ordered:
        if size:
            size = _Size(size.tokens + sample.read, size.rows + 1, size.prompt, size.read)
        if size and size.fits(budget):
            parts[-1].append(sample)
        else:
            parts.append([sample])
            size = _Size.of([sample])
    return parts
