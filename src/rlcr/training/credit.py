"""Where each part of the reward acts: from rewards and token spans to an advantage for every token.

``all``                   the whole reward on every token: RLCR.
``analysis+confidence``   the whole reward, but only tokens of the analysis and the confidence are learned
                          from: the paper's masked calibration baseline, whose answers must not change.
``decoupled``             correctness acts on think and answer, calibration on analysis and confidence, each
                          centred in its group (as DCPO does); format acts on every token.
``expected``              as decoupled, but on the first decimal of a confidence calibration acts by its
                          expectation: what each of the ten digits would have earned is known, since the
                          verdict is, so that the gradient takes all of them, weighed by the model's own
                          probabilities, instead of the one that was sampled. The same gradient on average,
                          without the noise of sampling. Where a digit is no token of its own, or the
                          confidence is not of the form 0.7 or 0.73, it is as decoupled.

A token belongs to a part when it overlaps the text between the part's tags. One that holds only characters
of tags, or joins two tags (``><``), belongs to no part, and so does the token that ends the response. A
malformed response has no parts: ``analysis+confidence`` learns nothing from it, ``decoupled`` applies all of
its reward to all of its tokens, since nothing finer can be said.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcr.engine.batches import Choice
from rlcr.response import Response, Span
from rlcr.reward import Reward, group_advantages
from rlcr.training.recipes.settings import Credit

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_SOLUTION = ("think", "answer")
_DOUBT = ("analysis", "confidence")
#: In ``decoupled``, the tags on whose tokens a part of the reward acts; the others act on every token.
_ACTS_ON = {"correctness": _SOLUTION, "abstention": _SOLUTION, "calibration": _DOUBT}
#: A confidence below 1 in decimals: what stands before its first decimal, that, and what stands behind.
_DECIMALS = re.compile(r"(\s*0?\.)(\d)(\d*\s*)")


def part_advantages(
    parts: Mapping[str, Floats], weights: Mapping[str, float], scorable: Bools, group: int
) -> dict[str, Floats]:
    """Each part's weighted reward minus its mean in the group; their sum is the advantage of the response.

    Rows are completions, ``group`` consecutive ones to a prompt. What cannot be scored has advantage 0 and
    does not count in the mean.
    """
    scorable_PG = scorable.reshape(-1, group)
    return {
        name: group_advantages(weights[name] * values.reshape(-1, group), scorable_PG).reshape(-1)
        for name, values in parts.items()
    }


def tokens_of(tags: Sequence[str], response: Response, token_spans: Sequence[Span]) -> Bools:
    """Which tokens overlap the text of any of these parts and no text of another part."""
    if not token_spans:
        return np.zeros(0, dtype=bool)
    starts_T, stops_T = np.array(token_spans, dtype=np.int64).T
    inside_T = np.zeros(len(token_spans), dtype=bool)
    elsewhere_T = np.zeros(len(token_spans), dtype=bool)
    for tag, (start, stop) in response.spans.items():
        overlaps_T = (np.minimum(stops_T, stop) > np.maximum(starts_T, start)) & (start < stop)
        if tag in tags:
            inside_T |= overlaps_T
        else:
            elsewhere_T |= overlaps_T
    return inside_T & ~elsewhere_T


def token_credit(
    credit: Credit,
    advantages: Mapping[str, float],
    response: Response,
    token_spans: Sequence[Span],
) -> tuple[Floats, Bools]:
    """The advantage of each token of one completion, and which tokens count in the loss.

    ``advantages`` are those of the completion's reward parts (:func:`part_advantages`).
    """
    whole = sum(advantages.values())
    everything_T = np.ones(len(token_spans), dtype=bool)
    if credit == "all":
        return np.full(len(token_spans), whole), everything_T
    if credit == "analysis+confidence":
        return np.full(len(token_spans), whole), tokens_of(_DOUBT, response, token_spans)
    if not response.well_formed:  # decoupled and expected
        return np.full(len(token_spans), whole), everything_T
    advantage_T = np.zeros(len(token_spans))
    for name, value in advantages.items():
        where = _ACTS_ON.get(name)
        advantage_T += value * (everything_T if where is None else tokens_of(where, response, token_spans))
    return advantage_T, everything_T


def digit_tokens(tokenizer: Any) -> tuple[int, ...]:
    """The tokens of the digits 0 to 9; empty where a tokenizer has none for some digit alone."""
    ids = [tokenizer.encode(str(digit), add_special_tokens=False) for digit in range(10)]
    return tuple(one[0] for one in ids) if all(len(one) == 1 for one in ids) else ()


def digit_choice(
    reward: Reward,
    response: Response,
    correct: bool,
    ids: Sequence[int],
    token_spans: Sequence[Span],
    digits: Sequence[int],
) -> Choice | None:
    """What each digit would have earned in the place of the confidence's first decimal, by its weight.

    None where that place is not one token: there only the sampled digit is known to be a way to write.
    """
    if not response.well_formed or "confidence" not in response.spans:
        return None
    start, stop = response.spans["confidence"]
    decimals = _DECIMALS.fullmatch(response.text[start:stop])
    if decimals is None:
        return None
    before, written, behind = decimals.groups()
    place = (start + len(before), start + len(before) + 1)
    at = next((t for t, span in enumerate(token_spans) if span == place), None)
    if at is None or ids[at] != digits[int(written)]:
        return None
    stated = [float(f"{before}{digit}{behind}") for digit in range(10)]
    return Choice(at, tuple(digits), reward.weights["calibration"] * reward.calibration(stated, correct))
