"""One GRPO update, as plainly as it can be written: the oracle for the trainer's gradients.

One completion at a time, no padding, no tiles, no tricks: what the paper's formulas say.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Row:
    """A completion: token ids, which part of the response each token belongs to, and its rewards by part.

    ``owner`` holds for each token "solution" (think and answer), "doubt" (analysis and confidence) or "".
    ``rewards`` is None where the completion could not be scored; ``malformed`` ones have no owners.
    """

    prompt: list[int]
    completion: list[int]
    owner: list[str]
    rewards: dict[str, float] | None
    malformed: bool = False
    left_out: bool = False
    sampled: list[float] | None = None
    """The log-probabilities by which the tokens were drawn."""
    digit: int | None = None
    """The token that is the first decimal of the confidence, where that is one token."""
    digit_rewards: dict[int, float] | None = None
    """What each digit's token would have earned there for calibration."""


def grpo_step(
    model: Any,
    groups: list[list[Row]],
    *,
    credit: str = "all",
    temperature: float = 1.0,
    entropy: float = 0.0,
    confidence_entropy: float = 0.0,
    reference: Any = None,
    kl: float = 0.0,
    cap: float | None = None,
    again: Sequence[Row] = (),
) -> dict[str, torch.Tensor]:
    """The gradient of the loss: the mean over the tokens that count, and that over expected confidences.

    Of the rows ``again`` only the confidence counts.
    """
    model.zero_grad()
    losses, expectations = [], []

    def expectation(row: Row, logps_TV: torch.Tensor) -> torch.Tensor:
        assert row.digit is not None
        assert row.digit_rewards is not None
        p_D = logps_TV[row.digit, list(row.digit_rewards)].exp()
        rewards_D = torch.tensor(list(row.digit_rewards.values()), dtype=torch.float64).to(p_D)
        rewards_D = rewards_D - confidence_entropy * p_D.detach().log()
        return -(p_D * (rewards_D - (p_D @ rewards_D / p_D.sum()).detach())).sum()

    def logps_of(row: Row) -> torch.Tensor:
        ids = torch.tensor([row.prompt + row.completion])
        return torch.log_softmax(model(ids).logits[0, len(row.prompt) - 1 : -1] / temperature, dim=-1)

    for row in again:
        expectations.append(expectation(row, logps_of(row)))
    for group in groups:
        scored = [row.rewards for row in group if row.rewards is not None]
        for row in group:
            if row.left_out:
                continue
            advantage = dict.fromkeys(("format", "correctness", "calibration"), 0.0)
            for part in advantage if row.rewards is not None else ():
                assert row.rewards is not None
                mean = sum(rewards[part] for rewards in scored) / len(scored)
                advantage[part] = row.rewards[part] - mean
            ids = torch.tensor([row.prompt + row.completion])
            start = len(row.prompt) - 1
            logps_TV = logps_of(row)
            for t, token in enumerate(row.completion):
                if credit == "analysis+confidence" and row.owner[t] != "doubt":
                    continue
                value = advantage["format"]
                apart = credit in ("decoupled", "expected") and not row.malformed
                by_expectation = credit == "expected" and t == row.digit
                if not apart or row.owner[t] == "solution":
                    value += advantage["correctness"]
                if (not apart or row.owner[t] == "doubt") and not by_expectation:
                    value += advantage["calibration"]
                loss = -value * logps_TV[t, token]
                if cap is not None:
                    assert row.sampled is not None
                    loss = loss * min(math.exp(logps_TV[t, token].item() - row.sampled[t]), cap)
                if by_expectation:
                    expectations.append(expectation(row, logps_TV))
                loss = loss + entropy * (logps_TV[t].exp() * logps_TV[t]).sum()
                if kl:
                    with torch.no_grad():
                        other = torch.log_softmax(reference(ids).logits[0, start + t] / temperature, dim=-1)
                    gap = other[token] - logps_TV[t, token]
                    loss = loss + kl * (gap.exp() - gap - 1)
                losses.append(loss)
    total = torch.stack(losses).mean()
    if expectations:
        total = total + torch.stack(expectations).mean()
    total.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
