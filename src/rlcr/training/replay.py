"""Learning the confidence of earlier completions once more (``confidence_replay``).

With ``credit: expected`` the gradient of a confidence needs no sampling: the verdict says what each number
would have earned. So a completion goes on teaching its confidence in later updates, at the price of reading
it again. Only that: its other tokens are taught once, by the policy that drew them. What is left out: old
completions are those of older weights, and are not reweighted for it; confidences are learned for answers
that the model gave a while ago.

Each process replays its own completions. Which, depends on seed, update and process alone, and what may be
replayed is stored with each checkpoint, so that a resumed run replays what the first would have.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rlcr.engine.batches import Choice, Sample, common_beginning
from rlcr.errors import RlcrError
from rlcr.runs.lines import write_whole

#: Completions that are kept: older ones say little about what the model answers now.
KEPT = 2048


class _Kept(NamedTuple):
    """A completion up to its confidence, and what each number would have earned there."""

    prompt: list[int]
    completion: list[int]
    tokens: list[int]
    rewards: list[float]


class Replay:
    """The latest completions of this process whose confidence can be learned by its expectation."""

    def __init__(self, count: int = 0, *, seed: int = 0, process: int = 0) -> None:
        """``count`` of them are learned again in each update."""
        self._count, self._seed, self._process = count, seed, process
        self._kept: deque[_Kept] = deque(maxlen=KEPT)

    def draw(self, update: int, group: int) -> list[Sample]:
        """Earlier completions, none twice, of which nothing but the confidence counts.

        They are one group, of that number, where prompts begin alike, as those of a task do: the beginning is
        read once. Otherwise their groups are numbered from there.
        """
        random = np.random.default_rng([self._seed, update, self._process])
        count = min(self._count, len(self._kept))
        if not count:
            return []
        drawn = [self._kept[place] for place in random.choice(len(self._kept), size=count, replace=False)]
        begin = common_beginning([kept.prompt for kept in drawn])
        if begin:
            return [_sample(kept, begin, group) for kept in drawn]
        return [_sample(kept, len(kept.prompt), group + number) for number, kept in enumerate(drawn)]

    def keep(self, samples: Iterable[Sample]) -> None:
        """Keep what has a confidence to learn of an update's own completions."""
        if self._count:
            self._kept.extend(
                _Kept(list(s.prompt), list(s.choice_alone().completion), list(c.tokens), c.rewards_K.tolist())
                for s in samples
                if (c := s.choice)
            )

    def save(self, folder: Path) -> None:
        """Store what is kept with a checkpoint."""
        if self._count:
            write_whole(folder / self._file, json.dumps(list(self._kept)) + "\n")

    def load(self, folder: Path) -> None:
        """Keep what was stored with a checkpoint."""
        if self._count:
            path = folder / self._file
            if not path.exists():
                raise RlcrError(f"{path}: not there: resume with as many processes as wrote the checkpoint")
            rows = json.loads(path.read_text(encoding="utf-8"))
            self._kept = deque((_Kept(*row) for row in rows), maxlen=KEPT)

    @property
    def _file(self) -> str:
        return f"replay-{self._process}.json"


def _sample(kept: _Kept, begin: int, group: int) -> Sample:
    """As a completion of the first tokens of its prompt."""
    completion = [*kept.prompt[begin:], *kept.completion]
    nothing = np.zeros(len(completion))
    choice = Choice(len(completion) - 1, tuple(kept.tokens), np.array(kept.rewards))
    return Sample(group, kept.prompt[:begin], completion, nothing, nothing.astype(bool), choice=choice)
