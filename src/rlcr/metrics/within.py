"""Discrimination within questions: of a right and a wrong sample of one question, which is more confident?

AUROC over all rows also rewards knowing which questions are easy. Whether confidence can choose among several
samples of one question depends on the pairs within questions alone.
"""

from __future__ import annotations

import numpy as np

from rlcr.metrics.bootstrap import Resampled, ratio
from rlcr.metrics.inputs import Floats, Ints

#: The note of an estimate that is undefined.
NO_PAIRS = "no question has both a right and a wrong sample"


def within_question(correct_N: Ints, confidence_N: Floats, question_N: Ints, weights_RQ: Floats) -> Resampled:
    """↑ How often the right sample is the more confident one, over all right-wrong pairs within questions.

    Ties count half; each question weighs by its pairs; questions are resampled. `question_N` numbers the
    questions, the columns of the weights. Undefined where no question has both.

    Whether a sample is right is the caller's to say, and two answers are in use: the verdict of the sample
    itself (beside AUROC and Brier score of the same rows), and in votes the verdict of its answer, which is
    what a vote is scored by. They differ where equal answers were judged differently.

    >>> rows = np.array([1, 0, 0, 1]), np.array([0.9, 0.2, 0.5, 0.5]), np.array([0, 0, 1, 1])
    >>> within_question(*rows, np.ones((1, 2))).value
    0.75
    """
    questions = weights_RQ.shape[1]
    order_N = np.lexsort((confidence_N, question_N))
    right_N, confidence_N, question_N = correct_N[order_N] == 1, confidence_N[order_N], question_N[order_N]
    right_Q, wrong_Q = (np.bincount(question_N[rows], minlength=questions) for rows in (right_N, ~right_N))
    # Samples of one question with equal confidence are a step: those before it in the question are below it.
    is_new_N = np.ones(len(order_N), bool)
    is_new_N[1:] = (np.diff(question_N) > 0) | (np.diff(confidence_N) > 0)
    starts_S = np.flatnonzero(is_new_N)
    right_S, wrong_S = (np.add.reduceat(rows.astype(np.int64), starts_S) for rows in (right_N, ~right_N))
    question_S = question_N[starts_S]
    below_S = (np.cumsum(wrong_S) - wrong_S) - (np.cumsum(wrong_Q) - wrong_Q)[question_S]
    wins_Q = np.bincount(question_S, right_S * (below_S + wrong_S / 2), minlength=questions)
    return ratio(wins_Q.astype(np.float64), (right_Q * wrong_Q).astype(np.float64), weights_RQ)
