"""Do the confidences of a model agree with each other? The paper's three looks, from records alone.

- Intra-solution spread: the standard deviation of the confidences that K analyses of one and the same answer
  end with (`rlcr analyses` samples them). Ideal is 0.
- Answer-independent spread: the standard deviation of the confidences of all responses to one question.
- Inter-solution sum: the sum over the different answers a_k to a question of their mean confidences,

      S = sum over k of (sum of q_i over responses with a_k) / (number of responses with a_k)

  Only one answer can be right, so that a coherent model has S at most 1.

Standard deviations are those of a population (divided by K), over at least two confidences. Responses
without an answer take no part in sums, responses without a confidence in nothing; a question that has none
left has no sum, and is counted. Zero is a confidence like any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rlcr.many.analyses import ANALYSES, read_analyses
from rlcr.many.pool import Pool, read_pools
from rlcr.metrics import Estimate
from rlcr.metrics.bootstrap import question_weights, ratio
from rlcr.runs.columns import VERBALISED, column_files
from rlcr.runs.stamps import stamp, write_derived
from rlcr.runs.store import open_run

COHERENCE = "coherence.json"


def spread(confidences: Sequence[float | None]) -> float | None:
    """↓ The standard deviation of the confidences that are stated; None for fewer than two.

    >>> spread([0.2, 0.4, None]), spread([0.7]), spread([0.0, 0.0])
    (0.1, None, 0.0)
    """
    stated = [value for value in confidences if value is not None and value == value]
    return round(float(np.std(stated)), 12) if len(stated) > 1 else None


def confidence_sum(groups: Sequence[int], confidences: Sequence[float | None]) -> float | None:
    """→ at most 1. The sum over different answers of their mean confidence; None where none is stated.

    >>> confidence_sum([0, 0, 1], [0.8, 0.6, 0.5])
    1.2
    >>> confidence_sum([0, 0], [0.3, 0.5]), confidence_sum([-1, -1], [0.9, 0.9])
    (0.4, None)
    """
    by_answer: dict[int, list[float]] = {}
    for group, value in zip(groups, confidences, strict=True):
        if group >= 0 and value is not None and value == value:
            by_answer.setdefault(group, []).append(value)
    if not by_answer:
        return None
    return round(sum(sum(values) / len(values) for values in by_answer.values()), 12)


@dataclass(frozen=True)
class TaskCoherence:
    """The three looks at one task, and what had to be left out."""

    sums: list[float]
    answers: list[int]
    """How many different answers with a confidence are in each sum."""
    over_responses: list[float]
    over_analyses: list[float]
    counts: Mapping[str, int]

    def to_dict(self) -> dict[str, Any]:
        """As JSON: the numbers that the report draws, and their summary."""
        return {
            "sums": self.sums,
            "spread": self.over_responses,
            "spread_of_analyses": self.over_analyses,
            "summary": {name: estimate.to_dict() for name, estimate in self.summary().items()},
            "counts": dict(self.counts),
        }

    def summary(self) -> dict[str, Estimate]:
        """Means over questions with their intervals."""
        sums = np.array(self.sums)
        looks = {
            "mean_sum": sums,
            "share_above_1": (sums > 1 + 1e-9).astype(float),
            "mean_excess": np.maximum(sums - 1, 0),
            "mean_spread": np.array(self.over_responses),
            "mean_spread_of_analyses": np.array(self.over_analyses),
        }
        return {name: _mean(values) for name, values in looks.items()}


def coherence(folder: Path, *, confidence: str = VERBALISED) -> dict[str, TaskCoherence]:
    """Compute all of it for a finished run and write coherence.json into its folder. Nothing is sampled."""
    run = open_run(folder)
    used = [ANALYSES] if confidence == VERBALISED else []
    made_from = stamp(run, [*column_files(confidence), *used])
    analyses = read_analyses(run) if used else {}
    tasks = {}
    for task, pool in read_pools(run, confidence).items():
        wanted = set(pool.ids)
        tasks[task] = task_coherence(pool, [q for (name, _), q in analyses.items() if name in wanted])
    contents = {
        "confidence": confidence,
        "analyses": sum(map(len, analyses.values())),
        "tasks": {name: task.to_dict() for name, task in tasks.items()},
    }
    write_derived(run, COHERENCE, contents, made_from)
    return tasks


def task_coherence(pool: Pool, analyses: Sequence[Sequence[float | None]] = ()) -> TaskCoherence:
    """The three looks at a pool, with the confidences of several analyses of the same answers."""
    sums, answers, spreads = [], [], []
    for row, size in enumerate(pool.size_Q.tolist()):
        groups, confidences = pool.group_QM[row, :size].tolist(), pool.confidence_QM[row, :size].tolist()
        spreads.append(spread(confidences))
        if (total := confidence_sum(groups, confidences)) is not None:
            sums.append(total)
            stated = zip(groups, confidences, strict=True)
            answers.append(len({group for group, value in stated if group >= 0 and value == value}))
    within = [spread(confidences) for confidences in analyses]
    counts = pool.counts() | {
        "questions without a sum": len(pool) - len(sums),
        "questions with one answer": sum(n == 1 for n in answers),
        "questions without a spread": sum(value is None for value in spreads),
        "answers analysed": len(analyses),
        "analysed answers without a spread": sum(value is None for value in within),
    }
    return TaskCoherence(
        sums,
        answers,
        [value for value in spreads if value is not None],
        [value for value in within if value is not None],
        counts,
    )


def _mean(values: np.ndarray[Any, np.dtype[np.float64]]) -> Estimate:
    if not len(values):
        return Estimate(None, None, None, "nothing to average")
    return ratio(values, np.ones(len(values)), question_weights(len(values), 1000)).estimate()
