"""The reward: named, weighted parts, for a whole batch at once.

    total = w_format * format + w_correctness * correctness + w_calibration * calibration + …

========== =================================================== =============================
part        well-formed response                                malformed response
========== =================================================== =============================
format      1                                                   0
correctness 1 if correct, else 0                                0
calibration -S(q, correct), S the scoring rule                  the rule's minimum (Brier -1)
abstention  the value of an abstention if it is one, else 0     0
========== =================================================== =============================

With the default weights of one half the Brier reward is half of ``1[correct] - (q - 1[correct])^2`` plus
half a point for the format: -0.5 malformed, 0 wrong and sure, 0.5 wrong and unsure, 1 right and sure. A
malformed response must be worth less than a wrong and sure one, which is why its calibration is the
minimum and not 0: 0 would be the best score there is.

An *unscorable* response (it could not be judged right or wrong) has no reward: ``scorable`` is False, it is
left out of its group's mean and has advantage 0. A malformed one is unscorable only if the parser failed on
it.

Differs from the authors' code: theirs writes calibration as 1 - (q - c)^2, which adds a constant that
cancels inside a group; theirs lets ``nan`` pass as a confidence, here nothing that is not finite can leave.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlcr.errors import RlcrError, nearest
from rlcr.problem import Problem
from rlcr.response import Response, get_format, parse
from rlcr.scoring import BRIER, SPHERICAL, ScoringRule, log_clipped
from rlcr.verify import Grading, Verdict, of_responses, verify

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Verifying(Protocol):
    """A verdict for each answer, as :func:`rlcr.verify.verify` gives."""

    def __call__(
        self, problems: Sequence[Problem], answers: Sequence[str | None], *, grading: Grading
    ) -> list[Verdict]:
        """In the order of the answers."""
        ...


PARTS = ("format", "correctness", "calibration", "abstention")
#: What an abstention is worth, before its weight: half a correct answer.
ABSTENTION = 0.5


@dataclass(frozen=True, slots=True)
class RewardParts:
    """The rewards of a batch, part by part, before weights; and their weighted sum.

    All numbers are finite. Where ``scorable`` is False the response has no reward and its numbers,
    which are 0 except for the format, mean nothing.
    """

    parts: Mapping[str, Floats]
    total: Floats
    scorable: Bools

    def totals(self) -> list[float | None]:
        """One reward for each response, None where there is none: what a trainer's reward hook returns."""
        return [float(t) if s else None for t, s in zip(self.total, self.scorable, strict=True)]


@dataclass(frozen=True, slots=True)
class Scored:
    """A batch of completions with all that was found out about them."""

    responses: list[Response]
    verdicts: list[Verdict]
    rewards: RewardParts


@dataclass(frozen=True)
class Reward:
    """A reward: a tag set, weights of named parts, and the scoring rule behind the calibration part.

    >>> reward = get_reward("rlcr")
    >>> problem = Problem("1", "Capital of France?", ("Paris",), "exact")
    >>> text = get_format("rlcr").render(think="…", answer="Paris", analysis="…", confidence="0.8")
    >>> scored = reward.score([text, "Paris"], [problem, problem])
    >>> scored.rewards.totals()
    [0.98, -0.5]
    """

    format: str
    weights: Mapping[str, float]
    rule: ScoringRule | None = None

    def __post_init__(self) -> None:
        for part, weight in self.weights.items():
            if part not in PARTS:
                raise RlcrError(f"unknown reward part {part!r}: {nearest(part, list(PARTS))}")
            if not math.isfinite(weight):
                raise RlcrError(f"the weight of reward part {part} must be a finite number, got {weight}")
        if "calibration" in self.weights:
            if self.rule is None:
                raise RlcrError("a reward with a calibration part needs a scoring rule")
            if not math.isfinite(self.rule.largest_loss()):
                raise RlcrError(
                    f"scoring rule {self.rule.name} is unbounded, so a reward of it can be infinite: "
                    "use a bounded one (brier, spherical, log-clipped)"
                )
            if "confidence" not in get_format(self.format).tags:
                raise RlcrError(f"format {self.format} has no confidence: use confidence or rlcr")

    def score(
        self,
        completions: Sequence[str],
        problems: Sequence[Problem],
        *,
        think_open: bool = False,
        grading: Grading = "strict",
        verifying: Verifying = verify,
    ) -> Scored:
        """Parse strictly, verify what is well-formed, and reward. One verification for each completion.

        ``verifying`` may be another function like :func:`rlcr.verify.verify`, such as one that remembers.
        """
        if len(completions) != len(problems):
            raise RlcrError(f"{len(completions)} completions for {len(problems)} problems")
        responses = [parse(text, self.format, think_open=think_open) for text in completions]
        return self.judge(responses, problems, grading=grading, verifying=verifying)

    def judge(
        self,
        responses: Sequence[Response],
        problems: Sequence[Problem],
        *,
        grading: Grading = "strict",
        verifying: Verifying = verify,
    ) -> Scored:
        """Verify and reward responses that are parsed already, strictly."""
        # The answer of a malformed response is None: wrong, without asking the verifier.
        answers = [response.answer for response in responses]
        verdicts = of_responses(responses, verifying(problems, answers, grading=grading))
        return Scored(list(responses), verdicts, self.reward(responses, verdicts))

    def reward(self, responses: Sequence[Response], verdicts: Sequence[Verdict]) -> RewardParts:
        """The reward of strictly parsed responses with their verdicts."""
        if len(responses) != len(verdicts):
            raise RlcrError(f"{len(responses)} responses for {len(verdicts)} verdicts")
        well_formed = np.array([r.well_formed for r in responses], dtype=bool)
        correct = np.array([v.outcome == "correct" for v in verdicts], dtype=bool) & well_formed
        abstained = np.zeros_like(well_formed)
        if "abstention" in self.weights:
            abstained = np.array([abstains(r.answer) for r in responses], dtype=bool) & well_formed
            correct &= ~abstained
        unscorable = np.array([v.outcome == "unscorable" for v in verdicts], dtype=bool)
        unread = np.array([bool(r.error) for r in responses], dtype=bool)
        scorable = ~(unscorable & well_formed & ~abstained | unread)

        parts: dict[str, Floats] = {}
        if "format" in self.weights:
            parts["format"] = well_formed.astype(np.float64)
        if "correctness" in self.weights:
            parts["correctness"] = correct.astype(np.float64)
        if "calibration" in self.weights:
            parts["calibration"] = np.where(scorable, self._calibration(responses, correct, well_formed), 0.0)
        if "abstention" in self.weights:
            parts["abstention"] = np.where(abstained, ABSTENTION, 0.0)
        total = np.zeros(len(responses))
        for name, values in parts.items():
            total += self.weights[name] * values
        return RewardParts(parts, np.where(scorable, total, 0.0), scorable)

    def calibration(self, confidence: ArrayLike, correct: bool) -> Floats:
        """The calibration part of well-formed responses that state these confidences, before its weight."""
        assert self.rule is not None, "there is no calibration part without a rule"
        return -self.rule(confidence, correct)

    def _calibration(self, responses: Sequence[Response], correct: Bools, well_formed: Bools) -> Floats:
        assert self.rule is not None, "checked when the reward was made"
        stated = np.array([r.confidence if r.well_formed else 0.0 for r in responses], dtype=np.float64)
        return np.where(well_formed, -self.rule(stated, correct), -self.rule.largest_loss())


def abstains(answer: str | None) -> bool:
    """Whether an answer is the abstention that the ``abstain`` prompt asks for.

    >>> abstains("I don't know."), abstains("I do not know"), abstains("I know"), abstains(None)
    (True, True, False, False)
    """
    if answer is None or len(answer) > 40:
        return False
    words = re.sub(r"[^a-z ]", "", " ".join(answer.lower().split()))
    return words.strip() in ("i dont know", "i do not know")


def group_advantages(rewards_PG: Floats, scorable_PG: Bools | None = None) -> Floats:
    """Reward minus the mean of its group, without division by the group's spread; unscorable ones get 0.

    Rows are prompts, columns the completions of each. Dividing by the standard deviation, as GRPO often
    does, makes models overconfident, so the paper leaves it out. Equal rewards give exactly 0, even where
    their mean is rounded: an advantage of 0 means that there is nothing to learn.

    >>> group_advantages(np.array([[1.0, 0.0, 5.0]]), np.array([[True, True, False]]))
    array([[ 0.5, -0.5,  0. ]])
    """
    if scorable_PG is None:
        scorable_PG = np.ones_like(rewards_PG, dtype=bool)
    count_P1 = np.maximum(scorable_PG.sum(axis=1, keepdims=True), 1)
    mean_P1 = np.where(scorable_PG, rewards_PG, 0.0).sum(axis=1, keepdims=True) / count_P1
    high_P1 = np.where(scorable_PG, rewards_PG, -np.inf).max(axis=1, keepdims=True, initial=-np.inf)
    low_P1 = np.where(scorable_PG, rewards_PG, np.inf).min(axis=1, keepdims=True, initial=np.inf)
    return np.where(scorable_PG & (high_P1 != low_P1), rewards_PG - mean_P1, 0.0)


_HALF = 0.5  # the authors' weight of every part

_RLCR = Reward("rlcr", {"format": _HALF, "correctness": _HALF, "calibration": _HALF}, BRIER)

REWARDS: dict[str, Reward] = {
    "rlcr": _RLCR,
    "rlvr": Reward("rlvr", {"format": _HALF, "correctness": _HALF}),
    "rlcr-log": replace(_RLCR, rule=log_clipped(0.001)),
    "rlcr-spherical": replace(_RLCR, rule=SPHERICAL),
    "calibration-only": replace(_RLCR, weights={"format": _HALF, "calibration": _HALF}),
    # +1 for correct, 0 for wrong, 0.5 for "I don't know", as in the paper's Abstention-RL.
    "abstention": Reward("rlvr", {"format": _HALF, "correctness": _HALF, "abstention": _HALF}),
}


def get_reward(name: str, *, format: str | None = None, weights: Mapping[str, float] | None = None) -> Reward:
    """A preset, with another tag set or other weights where given (``weights`` are merged in).

    >>> get_reward("rlcr", format="confidence", weights={"calibration": 1.0}).weights["calibration"]
    1.0
    """
    if name not in REWARDS:
        raise RlcrError(f"unknown reward {name!r}: {nearest(name, list(REWARDS))}")
    preset = REWARDS[name]
    for part in weights or {}:
        if part not in preset.weights:
            known = nearest(part, list(preset.weights))
            raise RlcrError(f"reward {name} has no part {part!r}: {known}")
    return replace(
        preset,
        format=get_format(format).name if format else preset.format,
        weights={**preset.weights, **(weights or {})},
    )
