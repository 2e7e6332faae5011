"""The reward for verl (0.9), by its name in verl's configuration:

    reward.custom_reward_function.path=pkg://rlcr.adapters.verl
    +reward.custom_reward_function.reward_kwargs.verifier=math

verl calls it for one sample, in threads or in Ray workers, and has no way to leave a sample out: what is
unscorable gets a constant (``unscorable``, 0 by default) and is counted under that name. Where a gold is to
blame, the usual case, all well-formed samples of its group get the same and learn nothing from it.
"""

from __future__ import annotations

from typing import Any

from rlcr.adapters.core import Row, Scorer, needs_constant


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: object,
    extra_info: object = None,
    *,
    reward_router_address: object = None,
    reward_model_tokenizer: object = None,
    **settings: Any,
) -> dict[str, float | None]:
    """The total as ``score`` and everything for the log: the same keys for every sample, never NaN.

    ``extra_info`` may hold ``verifier``, ``choices`` and ``question``; ``settings``, verl's
    ``reward_kwargs``, are those of :class:`~rlcr.adapters.core.Scorer`. ``acc`` is None where unscorable and
    ``confidence`` where none is stated. What a reward model would need (``reward_router_address``,
    ``reward_model_tokenizer``) is not used.
    """
    scorer = needs_constant(Scorer.of(settings, unscorable=0.0), "verl")
    (found,) = scorer.score([Row.of(solution_str, ground_truth, extra_info)])
    numbers = found.to_dict()
    score, acc = numbers.pop("reward"), numbers.pop("correct")
    return {"score": score, "acc": acc, **numbers}
