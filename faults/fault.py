"""What a fault is, and what a trial of it came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Outcome:
    """What was found after one trial. All zeros and no notes: nothing went wrong.

    ``lost`` and ``doubled`` count completions (or lines of another kind); ``wrong`` counts everything else
    that must not be: a result that differs from that of the undisturbed run, a traceback, a file half
    written, damage that nobody noticed. ``counted`` is what else is worth adding up over the trials, such as
    kills. Every wrong thing has a line in ``notes``.
    """

    lost: int = 0
    doubled: int = 0
    wrong: int = 0
    counted: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def fail(self, note: str) -> None:
        """Count something wrong, and say what."""
        self.wrong += 1
        self.notes.append(note)

    def count(self, what: str, number: float = 1) -> None:
        """Add to what is counted."""
        self.counted[what] = self.counted.get(what, 0) + number

    def compare_keys(self, expected: Iterable[Hashable], found: Iterable[Hashable]) -> None:
        """Count the keys that are missing, and those that are there more often than they should be."""
        lost, doubled = Counter(expected), Counter(found)
        lost, doubled = lost - doubled, doubled - lost
        self.lost += lost.total()
        self.doubled += doubled.total()
        for what, keys in (("lost", lost), ("doubled or never asked for", doubled)):
            if keys:
                self.notes.append(f"{what}: {', '.join(map(str, list(keys)[:3]))}")


#: Makes one trial in an empty folder; the number decides what is drawn at random.
Trial = Callable[[Path, int], Outcome]


@dataclass(frozen=True)
class Fault:
    """One row of the table.

    ``prepare`` makes, in a folder that stays until all trials are made, what they share (a model, the
    undisturbed run, a server), and gives the function that makes a trial.
    """

    what: str
    trials: int
    prepare: Callable[[Path], AbstractContextManager[Trial]]
    torch: bool = False
    """Whether its commands take torch and what is built on it."""
