"""What a task is, what is asked of it, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError
from rlcr.problem import Problem
from rlcr.tasks.plumbing import problem_files
from rlcr.tasks.plumbing.source import Source


@dataclass(frozen=True)
class TaskRequest:
    """One call of :func:`rlcr.tasks.load`, checked and with every default filled in.

    ``size`` is what the user asked for; ``None`` means the paper's size, ``usual_size``, or the whole
    source where that is smaller or the paper names none.
    """

    task: str
    split: str
    seed: int
    size: int | None
    usual_size: int | None
    verifier: str
    instruction: str
    settings: Mapping[str, Any]
    data_dir: Path | None

    @property
    def wanted(self) -> int | None:
        """How many problems to build at most; None for all."""
        return self.usual_size if self.size is None else self.size

    def check_size(self, available: int) -> list[str]:
        """A note when there are fewer than the usual size, an error when fewer than were asked for."""
        if self.size is not None and available < self.size:
            raise RlcrError(
                f"{self.task}: {self.size:,} problems asked for, but the {self.split} source holds"
                f" {available:,}"
            )
        if self.size is None and self.usual_size is not None and available < self.usual_size:
            return [f"all {available:,} problems at hand instead of the paper's {self.usual_size:,}"]
        return []

    def problem(self, key: str | int, question: str, gold: tuple[str, ...], **extras: Any) -> Problem:
        """A problem of this task. ``key`` makes its id, ``task/split/key``."""
        name = f"{self.task}/{self.split}/{key}"
        # In the order in which they come back from a file.
        extras = {key: extras[key] for key in sorted(extras)}
        return Problem(name, question, gold, self.verifier, self.instruction, extras)


@dataclass(frozen=True)
class Built:
    """What a builder returns: the problems, where they came from, and what had to be done to them."""

    problems: list[Problem]
    source: str
    source_sha256: str = ""
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Task:
    """A named set of problems.

    ``sizes`` gives the size of each split as the paper uses it (None where it does not).
    ``verifier`` is the default; the user may choose one of ``also`` instead. A task that the paper
    grades with a judge has it there: its default needs no model, and is the stricter one.
    ``settings`` lists every setting with its default, whose type a value must have; those in ``lists`` may
    also be several, those in ``optional`` None. With ``open_settings`` others are passed on too.
    ``abstention`` is an answer by which the task lets a model abstain.
    """

    name: str
    about: str
    sizes: Mapping[str, int | None]
    verifier: str
    build: Callable[[TaskRequest], Built]
    also: tuple[str, ...] = ()
    instruction: str = ""
    metrics: str = ""
    source: Source | None = None
    made_by: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    lists: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    open_settings: bool = False
    abstention: str = ""

    @property
    def origin(self) -> str:
        """Where the problems come from, for people: a hub id with its revision, or what makes them."""
        return str(self.source) if self.source else self.made_by


@dataclass(frozen=True)
class TaskSet:
    """Problems, and everything needed to say which ones they are."""

    problems: tuple[Problem, ...]
    task: str
    split: str
    seed: int
    settings: Mapping[str, Any]
    verifier: str
    source: str
    source_sha256: str
    notes: tuple[str, ...] = ()

    @classmethod
    def restored(cls, provenance: Mapping[str, Any], problems: Iterable[Problem]) -> TaskSet:
        """The set that had this provenance, from problems that were kept."""
        known = {field.name for field in fields(cls)} & provenance.keys()
        kept: dict[str, Any] = {name: provenance[name] for name in known}
        kept["notes"] = tuple(provenance["notes"])
        return cls(problems=tuple(problems), **kept)

    @cached_property
    def sha256(self) -> str:
        """The hash of the built set: of the bytes that ``rlcr tasks build`` writes."""
        return problem_files.sha256(self.problems)

    def provenance(self) -> dict[str, Any]:
        """What goes into every result, ready for JSON."""
        return {
            "task": self.task,
            "split": self.split,
            "size": len(self.problems),
            "seed": self.seed,
            "settings": dict(self.settings),
            "verifier": self.verifier,
            "source": self.source,
            "source_sha256": self.source_sha256,
            "sha256": self.sha256,
            "notes": list(self.notes),
        }
