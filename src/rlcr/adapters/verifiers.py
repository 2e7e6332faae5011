"""A task and a taskset for verifiers (0.4) and, through it, prime-rl.

verifiers finds a taskset by the name of a top-level module. Ours needs a file of two lines
(`rlcr adapters example verifiers` writes it):

    from rlcr.adapters.verifiers import RlcrTaskset
    __all__ = ["RlcrTaskset"]

What is unscorable raises, so that the trace has an error and no reward, and trainers skip it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import verifiers.v1 as vf  # pyright: ignore[reportMissingImports]
from pydantic import Field

from rlcr.adapters.core import Rewarded, Row, Scorer
from rlcr.prompts import load_prompt, user_message
from rlcr.tasks import read_problems


class UnscorableError(Exception):
    """Nobody can judge this completion; it has no reward."""


class RlcrData(vf.TaskData):
    """A problem: what is needed to judge a response to it."""

    question: str = ""
    gold: tuple[str, ...] = ()
    verifier: str | None = None
    extras: dict[str, Any] = Field(default_factory=dict)


class RlcrTaskConfig(vf.TaskConfig):
    """The settings of the reward: those of :class:`~rlcr.adapters.core.Scorer`."""

    reward: str = "rlcr"
    verifier: str = "exact"
    format: str | None = None
    weights: dict[str, float] | None = None
    think_open: bool = False
    special_tokens: tuple[str, ...] = ()


class RlcrTask(vf.Task[RlcrData, vf.State, RlcrTaskConfig]):
    """One question, whose reward is that of the last message of the assistant."""

    @vf.reward
    async def rlcr(self, trace: Any) -> float:
        """The total."""
        found = await self._found(trace)
        if found.total is None:
            raise UnscorableError(found.reason)
        return found.total

    @vf.metric
    async def parts(self, trace: Any) -> dict[str, float]:
        """Every part of the reward, the verdict, and the confidence where one is stated."""
        numbers = (await self._found(trace)).to_dict()
        return {name: value for name, value in numbers.items() if value is not None and name != "reward"}

    async def _found(self, trace: Any) -> Rewarded:
        config = self.config
        scorer = Scorer(
            reward=config.reward,
            verifier=config.verifier,
            format=config.format,
            weights=config.weights,
            think_open=config.think_open,
            special_tokens=config.special_tokens,
        )
        data = self.data
        messages = trace.assistant_messages
        row = Row(messages[-1] if messages else None, data.gold, data.question, data.extras, data.verifier)
        return (await scorer.score_async([row]))[0]


class RlcrTasksetConfig(vf.TasksetConfig):
    """A file of problems (`rlcr tasks build`) and the prompt that asks for the tags."""

    task: RlcrTaskConfig = RlcrTaskConfig()
    problems: Path = Path("problems.jsonl")
    prompt: str = "rlcr"


class RlcrTaskset(vf.Taskset[RlcrTask, RlcrTasksetConfig]):
    """The problems of a file."""

    def load(self) -> Iterable[RlcrTask]:
        """Every problem as a task."""
        prompt = load_prompt(self.config.prompt, format=self.config.task.format)
        for problem in read_problems(self.config.problems):
            data = RlcrData(
                id=problem.id,
                prompt=user_message(problem),
                system_prompt=prompt.text,
                question=problem.question,
                gold=problem.gold,
                verifier=problem.verifier,
                extras=dict(problem.extras),
            )
            yield RlcrTask(data, self.config.task)
