"""What the mean of several confidences in the same answer is worth: Brier score and ECE against their number.

Over all subsets of k of the K confidences in an answer the expected Brier score has a closed form: with their
mean m and variance v (divided by K), and c for correct,

    (m - c)^2 + v / k (K - k) / (K - 1)

so that averaging can only help, by what the confidences differ. ECE is over seeded orders. Analyses that
state no confidence are left out, and counted; curves stop at the largest k that nine in ten answers have,
and are over the same answers at every k.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlcr.many.curves import curve_to_dict
from rlcr.many.pool import Floats, Ints, nine_in_ten_have
from rlcr.many.vote_confidence import Stated, ece_estimate
from rlcr.metrics import Estimate
from rlcr.metrics.bootstrap import question_weights, ratio
from rlcr.runs.record import Key
from rlcr.runs.store import Run

_ORDERS = 200


def measure_analyses(run: Run, analyses: Mapping[Key, Sequence[float | None]]) -> dict[str, Any]:
    """The curves of every task of a run, as JSON. Unscorable answers are left out, and counted."""
    rows: dict[str, list[tuple[str, int, Sequence[float | None]]]] = {}
    unscorable: dict[str, int] = {}
    for record in run.records():
        confidences = analyses.get(record.key)
        if confidences is None:
            continue
        task = record.task
        if record.correct is None:
            unscorable[task] = unscorable.get(task, 0) + 1
        else:
            rows.setdefault(task, []).append((record.id, int(record.correct), confidences))
    tasks, details = {}, {}
    for task, answers in sorted(rows.items()):
        names, correct, confidences = zip(*answers, strict=True)
        tasks[task], counts = ensemble(names, correct, confidences)
        details[task] = counts | {"unscorable answers": unscorable.get(task, 0)}
    return {"tasks": tasks, "details": details}


def ensemble(
    questions: Sequence[str],
    correct: Sequence[int],
    confidences: Sequence[Sequence[float | None]],
    *,
    seed: int = 0,
    resamples: int = 1000,
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """The curves of answers with their confidences, in the shape that the report draws, and counts."""
    stated = [np.array([q for q in row if q is not None], np.float64) for row in confidences]
    sizes = np.array([len(row) for row in stated])
    most = nine_in_ten_have(sizes)
    counts = {
        "answers": len(sizes),
        "analyses": sum(map(len, confidences)),
        "without confidence": sum(map(len, confidences)) - int(sizes.sum()),
        "answers with fewer analyses": int((sizes < max(1, most)).sum()),
    }
    if not most:
        return [], counts
    kept = np.flatnonzero(sizes >= most).tolist()
    names = sorted({questions[n] for n in kept})
    question = np.array([names.index(questions[n]) for n in kept])
    right = np.array([correct[n] for n in kept], np.float64)
    values = [stated[n] for n in kept]
    weights_RQ = question_weights(len(names), resamples, seed)
    means = _running_means(values, most, seed)
    brier = [_brier(values, right, question, k, weights_RQ) for k in range(1, most + 1)]
    ece = [_ece(means[:, :, k], right, question, weights_RQ) for k in range(most)]
    return [
        curve_to_dict("mean of k analyses", metric, range(1, most + 1), estimates, [how] * most)
        for metric, how, estimates in (("Brier score", "closed", brier), ("ECE", "drawn", ece))
    ], counts


def _brier(
    values: Sequence[Floats], right_A: Floats, question_A: Ints, k: int, weights_RQ: Floats
) -> Estimate:
    loss_Q, answers_Q = np.zeros((2, weights_RQ.shape[1]))
    for at, correct, row in zip(question_A, right_A, values, strict=True):
        noise = row.var() / k * (len(row) - k) / (len(row) - 1) if len(row) > 1 else 0.0
        loss_Q[at] += (row.mean() - correct) ** 2 + noise
        answers_Q[at] += 1
    return ratio(loss_Q, answers_Q, weights_RQ).estimate()


def _running_means(values: Sequence[Floats], most: int, seed: int) -> Floats:
    """The mean of the first k confidences of random orders: shape (answers, orders, k)."""
    rng = np.random.default_rng([seed, most])
    drawn = [rng.permuted(np.tile(row, (_ORDERS, 1)), axis=1)[:, :most] for row in values]
    return np.cumsum(drawn, axis=2) / np.arange(1, most + 1)


def _ece(mean_AS: Floats, right_A: Floats, question_A: Ints, weights_RQ: Floats) -> Estimate:
    """Answers to one question stand side by side, so that questions are what is resampled."""
    orders = mean_AS.shape[1]
    shape = weights_RQ.shape[1], int(np.bincount(question_A).max()) * orders
    confidence, right, weight = (np.zeros(shape) for _ in range(3))
    taken = np.zeros(shape[0], np.int64)
    for at, means, correct in zip(question_A, mean_AS, right_A, strict=True):
        span = slice(taken[at], taken[at] + orders)
        confidence[at, span], right[at, span], weight[at, span] = means, correct, 1
        taken[at] += orders
    # Means of round numbers are round: 0.3 must not become 0.30000000000000004 and change its bin.
    return ece_estimate(Stated(np.round(confidence, 9), right, weight), weights_RQ)
