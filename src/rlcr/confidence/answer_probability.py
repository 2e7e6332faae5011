"""How probable the model found what it wrote, from the log-probabilities that the sampler returned.

    answer-probability           mean of the probabilities of the answer's tokens (in the records already)
    answer-probability-min       the least of them
    answer-probability-product   their product: the probability of the whole answer, given what comes before
    response-likelihood          exp(mean log-probability) of the whole response: length-normalised

The answer's tokens are those that overlap its characters between the tags, without the tags; of a forced
answer, those of the continuation. Log-probabilities are those of the untempered model. Local models always
return them, servers where they can; where one of them is not valid, all of that response are missing
(:func:`rlcr.metrics.likelihood.sound_logprobs`). A response without an answer has no answer probability.

Different from the paper: its span includes tag tokens, and spans of 30 tokens or more count as 0.5.
"""

from __future__ import annotations

import math

from rlcr.errors import RlcrError
from rlcr.metrics.likelihood import sound_logprobs
from rlcr.runs.columns import Column
from rlcr.runs.record import Record
from rlcr.runs.store import Run

_RESPONSE = "response-likelihood"
#: From the log-probabilities of the answer's tokens to that of the answer.
_OF_ANSWER = {"answer-probability-min": min, "answer-probability-product": math.fsum}
PROBABILITIES = (*_OF_ANSWER, _RESPONSE)


def probabilities(run: Run, name: str) -> Column:
    """One of the columns above."""
    grading = run.described["grading"]
    column = {
        r.key: r.likelihood if name == _RESPONSE else _probability(r, name, grading) for r in run.records()
    }
    if column and all(value is None for value in column.values()):
        raise RlcrError(
            f"{run.folder}: no log-probabilities in its records to make {name} of (the server sent none);"
            " evaluate with a server that does, or a local model"
        )
    return column


def _probability(record: Record, name: str, grading: str) -> float | None:
    logprobs = sound_logprobs(record.answer_logprobs.get(grading) or ())
    return math.exp(_OF_ANSWER[name](logprobs)) if logprobs else None
