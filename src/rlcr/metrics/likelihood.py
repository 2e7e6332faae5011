"""From log-probabilities to likelihoods, and what is no log-probability."""

from __future__ import annotations

import math
from collections.abc import Iterable

#: Servers round: the log-probability of a token that was all but certain may come out a hair above 0.
_ROUNDING = 1e-3
#: No float32 log-softmax is lower, and sums stay finite. Some servers write -9999 for impossible.
_LOWEST = -1e6


def sound_logprobs(values: Iterable[float | None]) -> list[float]:
    """Log-probabilities fit for use: none above 0, and none at all where one of them cannot be one.

    A mean or product over the tokens that are left would be another quantity than the one it is called, so
    a single None, NaN, infinity, value well above 0 or below -1e6 makes those of the whole text missing.

    >>> sound_logprobs([-0.5, 1e-6]), sound_logprobs([-0.5, float("nan")]), sound_logprobs([-0.5, 0.2])
    ([-0.5, 0.0], [], [])
    """
    sound: list[float] = []
    for value in values:
        if value is None or not _LOWEST <= value <= _ROUNDING:
            return []
        sound.append(min(value, 0.0))
    return sound


def response_likelihood(logprob: float | None, tokens: int) -> float | None:
    """The geometric mean of the probabilities of a response's tokens; None where they are not known.

    ``logprob`` is the sum over the response's own tokens, without those of forced continuations. The paper
    writes p(y|x)/|y|, which underflows for any real response and prefers short ones; dividing the logarithm
    by the length is what is meant by an average.

    >>> round(response_likelihood(-2.0, 10), 4), response_likelihood(None, 10), response_likelihood(0.0, 0)
    (0.8187, None, None)
    """
    mean = sound_logprobs([logprob / tokens]) if logprob is not None and tokens else []
    return math.exp(mean[0]) if mean else None
