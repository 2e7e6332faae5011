"""Grading and metrics for lm-evaluation-harness (0.4.13), in a task folder's ``utils.py``:

    from rlcr.adapters.lm_eval import accuracy, auroc, brier, ece, make_process_results
    process_results = make_process_results(gold="answer", verifier="math")

and in its YAML ``process_results: !function utils.process_results``, each metric with
``aggregation: !function utils.accuracy``, and a filter without steps, which keeps the repeats of a document:
the default keeps the first. The harness has no standard error for aggregations that are not its own; for
intervals use `rlcr metrics` on the samples that it logs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rlcr.adapters.core import Scorer
from rlcr.adapters.fields import Fields
from rlcr.adapters.measuring import REPORTED, Sample, value_of

#: What the harness keeps of a document, for each metric, until it aggregates: [correct, confidence] of every
#: repeat, as JSON.
Item = list[list[Any]]
ProcessResults = Callable[[Mapping[str, Any], Sequence[Any]], dict[str, Item]]


def make_process_results(
    *,
    gold: str = "gold",
    choices: str | None = None,
    question: str | None = None,
    verifier_column: str | None = None,
    **settings: Any,
) -> ProcessResults:
    """The ``process_results(doc, results)``. ``gold``, ``choices`` and ``question`` name fields of a doc.

    So does ``verifier_column``, where docs have verifiers of their own. ``settings`` are those of the core's
    ``Scorer``; answers are read and compared as by `rlcr score`.
    """
    scorer = Scorer.of(settings)
    fields = Fields(gold, choices, question, verifier_column)

    def process_results(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Item]:
        # One request for a document, whose filtered response is a text, or a list where repeats are kept.
        (responses,) = results
        texts = responses if isinstance(responses, (list, tuple)) else [responses]
        fields.check(doc)
        records = scorer.grade([fields.row(text, doc.__getitem__) for text in texts])
        item = [[record.correct, record.confidence] for record in records]
        return dict.fromkeys(REPORTED, item)

    return process_results


def _samples(items: Iterable[Item]) -> list[Sample]:
    return [
        Sample(question, correct, confidence)
        for question, item in enumerate(items)
        for correct, confidence in item
    ]


def accuracy(items: Iterable[Item]) -> float:
    """The share of right answers among those that can be scored."""
    return value_of(_samples(items), "accuracy")


def auroc(items: Iterable[Item]) -> float:
    """How well confidences tell right answers from wrong ones; NaN where all are alike."""
    return value_of(_samples(items), "auroc")


def brier(items: Iterable[Item]) -> float:
    """The mean squared difference of confidence and verdict."""
    return value_of(_samples(items), "brier")


def ece(items: Iterable[Item]) -> float:
    """The expected calibration error, in the paper's bins."""
    return value_of(_samples(items), "ece")
