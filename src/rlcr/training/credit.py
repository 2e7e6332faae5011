"""Where each part of the reward acts: from rewards and token spans to an advantage for every token.

``all``                   the whole reward on every token: RLCR.
``analysis+confidence``   the whole reward, but only tokens of the analysis and the confidence are learned
                          from: the paper's masked calibration baseline, whose answers must not change.
``decoupled``             correctness acts on think and answer, calibration on analysis and confidence, each
                          centred in its group (as DCPO does); format acts on every token.
``expected``              as decoupled, but on the token with the first decimal of a confidence calibration
                          acts by its expectation: what each number would have earned in its place is known,
                          since the verdict is, so that the gradient takes all of them, weighed by the model's
                          own probabilities, instead of the one that was sampled. The same gradient on
                          average, without the noise of sampling. In most vocabularies these are the ten
                          digits; in some, numbers of up to three. A confidence without decimals is as in
                          decoupled.

A token belongs to a part when it overlaps the text between the part's tags. One that holds only characters
of tags, or joins two tags (``><``), belongs to no part, and so does the token that ends the response. A
malformed response has no parts: ``analysis+confidence`` learns nothing from it, ``decoupled`` applies all of
its reward to all of its tokens, since nothing finer can be said.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcr.engine.batches import Choice
from rlcr.response import Response, Span, read_confidence
from rlcr.reward import Reward, group_advantages
from rlcr.training.recipes.settings import Credit

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_SOLUTION = ("think", "answer")
_DOUBT = ("analysis", "confidence")
#: In ``decoupled``, the tags on whose tokens a part of the reward acts; the others act on every token.
_ACTS_ON = {"correctness": _SOLUTION, "abstention": _SOLUTION, "calibration": _DOUBT}
#: A token that is a number or part of one.
_NUMBER = re.compile(r"[0-9]*\.?[0-9]+")


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


@lru_cache(maxsize=1)
def number_tokens(tokenizer: Any) -> Mapping[str, int]:
    """The tokens that are digits with at most one point between them, by their text, ordered by their ids.

    A vocabulary has another order each time it is read, and sums over it then other last digits: a resumed
    run would not end in the same weights.
    """
    vocabulary = sorted(tokenizer.get_vocab().items(), key=itemgetter(1))
    return {text: token for text, token in vocabulary if _NUMBER.fullmatch(text)}


def confidence_choice(
    reward: Reward,
    response: Response,
    correct: bool,
    token_spans: Sequence[Span],
    numbers: Mapping[str, int],
) -> Choice | None:
    """What each number would have earned, weighted, in place of the token with a confidence's first decimal.

    None where there is no decimal, or its token holds more than digits and a point.
    """
    if not response.well_formed or "confidence" not in response.spans:
        return None
    start, stop = response.spans["confidence"]
    point = response.text.find(".", start, stop)
    at = next((t for t, (first, last) in enumerate(token_spans) if first <= point + 1 < last), None)
    if point < 0 or at is None:
        return None
    first, last = token_spans[at]
    if first < start or last > stop or response.text[first:last] not in numbers:
        return None
    before, behind = response.text[start:first], response.text[last:stop]
    read = {token: read_confidence(f"{before}{text}{behind}") for text, token in numbers.items()}
    stated = {token: value for token, (value, leniency) in read.items() if value is not None and not leniency}
    if len(stated) == 1:
        return None  # nothing but a zero can stand behind "1."
    earned_K = reward.weights["calibration"] * reward.calibration(list(stated.values()), correct)
    return Choice(at, tuple(stated), earned_K)
