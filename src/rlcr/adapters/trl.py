"""The reward for TRL's own ``GRPOTrainer`` (1.16): one function with the totals.

    GRPOTrainer(…, reward_funcs=make_reward(gold="answer", verifier="math"),
                args=GRPOConfig(scale_rewards="none", loss_type="bnpo", beta=0.0, …))

One function and not one for each part: TRL leaves a completion out of its group only where *every* function
returns None. The parts go to the log. Advantages are then those of :func:`rlcr.reward.group_advantages`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from rlcr.adapters.core import Rewarded, Scorer
from rlcr.adapters.fields import Fields
from rlcr.prompts import opens_think


class RewardFunction(Protocol):
    """What TRL calls, with every column of the data set by its name."""

    __name__: str

    def __call__(
        self,
        *,
        prompts: Sequence[object],
        completions: Sequence[object],
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """A total for each completion, None where nobody can judge it."""
        ...


def make_reward(
    *,
    gold: str = "gold",
    choices: str | None = None,
    question: str | None = None,
    verifier_column: str | None = None,
    **settings: Any,
) -> RewardFunction:
    """The reward function. ``gold``, ``choices`` and ``question`` name columns of the data set.

    So does ``verifier_column``, where rows have verifiers of their own. ``settings`` are those of
    :class:`~rlcr.adapters.core.Scorer`. Where prompts are plain texts, each says itself whether it ends
    inside ``<think>``; where they are messages, ``think_open`` does.

    >>> rlcr = make_reward(gold="answer")
    >>> text = "<think>…</think><answer>4</answer><analysis>…</analysis><confidence>0.8</confidence>"
    >>> rlcr(prompts=["2 + 2?"], completions=[text], answer=["4"])
    [0.98]
    """
    scorer = Scorer.of(settings)
    fields = Fields(gold, choices, question, verifier_column)

    def rlcr(
        *,
        prompts: Sequence[object],
        completions: Sequence[object],
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        fields.check(columns)
        rows = [
            fields.row(
                completion,
                lambda name, number=number: columns[name][number],
                think_open=opens_think(prompt) or None if isinstance(prompt, str) else None,
            )
            for number, (prompt, completion) in enumerate(zip(prompts, completions, strict=True))
        ]
        found = scorer.score(rows)
        if log_metric:
            for name, value in means(found).items():
                log_metric(f"rlcr/{name}", value)
        return [one.total for one in found]

    return rlcr


def means(found: Sequence[Rewarded]) -> dict[str, float]:
    """The mean of each number over the completions that can be scored and have it."""
    columns: dict[str, list[float]] = {"unscorable": [float(not one.scorable) for one in found]}
    for one in found:
        if one.scorable:
            for name, value in one.to_dict().items():
                if value is not None and name != "unscorable":
                    columns.setdefault(name, []).append(value)
    return {name: math.fsum(column) / len(column) for name, column in columns.items() if column}
