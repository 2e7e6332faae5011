"""Agreement between samples, alone and together with what the model states.

    agreement   share of the n samples of a question that give the same answer, itself among them
    hybrid      stated confidence and agreement together

Answers are the same by the task's own equality (:mod:`rlcr.many.equivalence`). A response without an answer
agrees with nothing: 0.

The hybrid is the mean of both, unless it may learn from verdicts of other questions: then logistic
regression says what each is worth. Where a model stated no confidence the unlearned hybrid is the agreement
alone.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcr.confidence.learning import Learned, learn
from rlcr.confidence.rows import Rows
from rlcr.errors import RlcrError
from rlcr.many.equivalence import NO_GROUP, group_many
from rlcr.runs.columns import VERBALISED, Column

_WEIGHT = 0.5


def agreement(rows: Rows) -> Column:
    """↑ For each completion, the share of its question's samples with the same answer: count / n."""
    answers: dict[str, dict[int, str | None]] = {}
    for record in rows.records():
        answers.setdefault(record.id, {})[record.sample] = record.answer
    if max(map(len, answers.values()), default=0) < 2:
        raise RlcrError(
            f"{rows.run.folder}: one sample of each question, and agreement needs at least two:"
            " `rlcr eval … --samples 8`"
        )
    grouped = group_many((rows.problems[name], list(by.values())) for name, by in answers.items())
    column: Column = {}
    for (name, by), groups in zip(answers.items(), grouped, strict=True):
        counts = Counter(groups)
        for sample, group in zip(by, groups, strict=True):
            column[name, sample] = 0.0 if group == NO_GROUP else counts[group] / len(groups)
    return column


def hybrid(rows: Rows, train: Rows | None) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Both together, and how: the mean, or with ``train`` by weights learned on other questions."""
    if train is None:
        stated, agreed = rows.column(VERBALISED), rows.aligned(agreement(rows))
        mean = _WEIGHT * stated + (1 - _WEIGHT) * agreed
        details = {"weights": {VERBALISED: _WEIGHT, "agreement": 1 - _WEIGHT}, "learned": False}
        return np.where(np.isnan(stated), agreed, mean), details
    learned: Learned = learn(_features, _fit, rows, train)
    return learned.confidence, learned.details | {"learned": True}


def _features(rows: Rows) -> NDArray[np.float64]:
    return np.column_stack([rows.column(VERBALISED), rows.aligned(agreement(rows))])


def _fit(features_NF: NDArray[np.float64], correct_N: NDArray[np.int64], questions: list[str]) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression().fit(features_NF, correct_N)
