"""How probable the model found what it wrote, from the log-probabilities that the sampler returned.

    answer-probability           mean of the probabilities of the answer's tokens (in the records already)
    answer-probability-min       the least of them
    answer-probability-product   their product: the probability of the whole answer, given what comes before
    response-likelihood          exp(mean log-probability) of the whole response: length-normalised

The answer's tokens are those that overlap its characters between the tags, without the tags; of a forced
answer, those of the continuation. Log-probabilities are those of the untempered model. Local models always
tell them, servers where they can; where one of them is no log-probability, all of that response are missing
(:func:`rlcr.metrics.likelihood.sound_logprobs`). A response without an answer has no answer probability.

Different from the paper: its span includes tag tokens, and spans of 30 tokens or more count as 0.5.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from rlcr.errors import RlcrError
from rlcr.metrics.likelihood import sound_logprobs
from rlcr.runs.columns import Column
from rlcr.runs.record import Record
from rlcr.runs.store import Run

Read = Callable[[Record, str], float | None]


def _least(record: Record, grading: str) -> float | None:
    logprobs = _answer(record, grading)
    return math.exp(min(logprobs)) if logprobs else None


def _product(record: Record, grading: str) -> float | None:
    logprobs = _answer(record, grading)
    return math.exp(math.fsum(logprobs)) if logprobs else None


def _likelihood(record: Record, grading: str) -> float | None:
    return record.likelihood


def _answer(record: Record, grading: str) -> list[float]:
    return sound_logprobs(record.answer_logprobs.get(grading) or ())


PROBABILITIES: dict[str, Read] = {
    "answer-probability-min": _least,
    "answer-probability-product": _product,
    "response-likelihood": _likelihood,
}


def probabilities(run: Run, name: str) -> Column:
    """One of the columns above."""
    read, grading = PROBABILITIES[name], run.described["grading"]
    column = {r.key: read(r, grading) for r in run.records()}
    if column and all(value is None for value in column.values()):
        raise RlcrError(
            f"{run.folder}: no log-probabilities in its records to make {name} of (the server told none);"
            " evaluate with a server that does, or a local model"
        )
    return column
