"""From log-probabilities to probabilities."""

import math


def probability(logprob: float) -> float:
    """exp, at most 1: rounding can leave a log-probability a hair above 0."""
    return math.exp(min(0.0, logprob))


def response_likelihood(logprob: float | None, tokens: int) -> float | None:
    """The geometric mean of the probabilities of a response's tokens; None where they are not known.

    ``logprob`` is the sum over the response's own tokens, without those of forced continuations. The paper
    writes p(y|x)/|y|, which underflows for any real response and prefers short ones; dividing the logarithm
    by the length is what is meant by an average.

    >>> round(response_likelihood(-2.0, 10), 4), response_likelihood(None, 10), response_likelihood(0.0, 0)
    (0.8187, None, None)
    """
    return probability(logprob / tokens) if logprob is not None and tokens else None
