r"""The arm task without sampling noise: its best policy, and the exact worth of any policy.

Everything is a finite sum over the sequences of draws that can be shown (3,906 with the default settings).
For a sequence s with counts n_i among N draws, and a the prior with sum A:

    chance of s             P(s) = 1/(number of possible N) * \prod_t (n_{x_t} before t + a_{x_t}) / (t + A)
    chance of arm i next    p_i(s) = (n_i + a_i) / (N + A)
    worth of (i, q)         lam * p_i - p_i S(q, 1) - (1 - p_i) S(q, 0)
    worth of (-1, q)        -S(q, 0): an answer that is no arm is never right

Known values for the default settings, lam = 1: under Brier the optimum has accuracy 0.3299, Brier 0.2133 and
reward 0.1166, and the best arm with one constant confidence earns 93% of that; under the log rule abstaining
is best in every state, and honest play earns -0.286.

Axes: S sequences in the order of :func:`sequences`, K arms, M samples of a policy for one sequence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlcr.errors import RlcrError
from rlcr.metrics.kernel import fixed_bins
from rlcr.problem import Problem
from rlcr.scoring import BRIER, ScoringRule, best_statement, expected_loss
from rlcr.tasks.arms import ABSTAIN, Arms, sequence_problem
from rlcr.verify.math import verify_math

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
#: What a policy says on each sequence: (answer, confidence), None for either where it is malformed.
Policy = Mapping[tuple[int, ...], tuple[int | None, float | None]]

#: More sequences than this are refused: their number is K to the power of N.
MAX_SEQUENCES = 2_000_000


# --- the task ---------------------------------------------------------------------------------------


def sequences(task: Arms) -> list[tuple[int, ...]]:
    """Every sequence of draws that can be shown: the shortest first, then in the order of the arms.

    >>> sequences(Arms(arms=2, max_draws=2))
    [(), (0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1)]
    >>> len(sequences(Arms()))
    3906
    """
    _check_count(task)
    return [draws for count in _counts(task) for draws in product(range(task.arms), repeat=count)]


def sequence_problems(task: Arms) -> list[Problem]:
    """One problem for each of :func:`sequences`, to ask a model for its policy."""
    return [sequence_problem(task, draws) for draws in sequences(task)]


@dataclass(frozen=True)
class World:
    """All there is to know of a task: the chance of each sequence, and of each arm to come next."""

    probs_S: Floats
    predictive_SK: Floats


@lru_cache(maxsize=16)
def world(task: Arms) -> World:
    """The exact chances, aligned with :func:`sequences`.

    >>> w = world(Arms(arms=2, max_draws=1))
    >>> w.probs_S, w.predictive_SK[1]
    (array([0.5 , 0.25, 0.25]), array([0.66666667, 0.33333333]))
    """
    _check_count(task)
    probs, predictives = [], []
    # Sequences of one length; each step appends every arm to each of them, the last draw running fastest.
    weights_SK, probs_S = np.array([task.prior_K]), np.ones(1)
    predictive_SK = weights_SK / weights_SK.sum()
    for count in range(task.max_draws + 1):
        if count > 0:
            probs_S = (probs_S[:, None] * predictive_SK).ravel()
            weights_SK = (weights_SK[:, None, :] + np.eye(task.arms)).reshape(-1, task.arms)
        predictive_SK = weights_SK / weights_SK.sum(axis=1, keepdims=True)
        if count >= task.min_draws:
            probs.append(probs_S)
            predictives.append(predictive_SK)
    both = World(np.concatenate(probs) / len(_counts(task)), np.concatenate(predictives))
    for array in (both.probs_S, both.predictive_SK):
        array.flags.writeable = False  # the cache hands the same arrays to everyone
    return both


def _counts(task: Arms) -> range:
    return range(task.min_draws, task.max_draws + 1)


def _check_count(task: Arms) -> None:
    number = sum(task.arms**count for count in _counts(task))
    if number > MAX_SEQUENCES:
        raise RlcrError(
            f"{task.arms} arms and up to {task.max_draws} draws give {number:,} sequences, too many for an "
            f"exact evaluation (at most {MAX_SEQUENCES:,}): use fewer arms or draws"
        )


# --- the optimum ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Optimum:
    """The best policy for a reward, and what it earns. ``answers_S`` holds -1 where abstaining is best."""

    answers_S: Ints
    confidences_S: Floats
    rewards_S: Floats
    reward: float
    accuracy: float
    brier: float


@lru_cache(maxsize=16)
def optimum(task: Arms, rule: ScoringRule = BRIER, lam: float = 1.0) -> Optimum:
    """The policy of highest expected lam * c - S(q, c), state by state.

    In each state: an arm with the confidence that suits it best, or -1 with confidence 0. For a proper rule
    that confidence is the arm's own chance; for another it is found on a grid of thousandths. Ties go to
    honesty, to the lowest arm, and to an arm before abstaining.

    >>> best = optimum(Arms())
    >>> round(best.accuracy, 4), round(best.brier, 4), round(best.reward, 4)
    (0.3299, 0.2133, 0.1166)
    """
    w = world(task)
    # Few chances are distinct, (n_i + a_i) / (N + A), and the best statement depends on nothing else.
    chances_P, where_SK = np.unique(w.predictive_SK, return_inverse=True)
    where_SK = where_SK.reshape(w.predictive_SK.shape)  # flat in numpy 2.0
    stated_P, losses_P = _best_statements(rule, chances_P)
    worth_SK = (lam * chances_P - losses_P)[where_SK]
    best_S = np.argmax(worth_SK, axis=1)
    every_S = np.arange(len(best_S))
    worth_S = worth_SK[every_S, best_S]
    abstaining = -float(rule(0.0, 0))
    abstains_S = abstaining > worth_S
    answers_S = np.where(abstains_S, ABSTAIN, best_S)
    confidences_S = np.where(abstains_S, 0.0, stated_P[where_SK[every_S, best_S]])
    rewards_S = np.where(abstains_S, abstaining, worth_S)
    chance_S = np.where(abstains_S, 0.0, w.predictive_SK[every_S, best_S])
    for array in (answers_S, confidences_S, rewards_S):
        array.flags.writeable = False
    return Optimum(
        answers_S,
        confidences_S,
        rewards_S,
        reward=float(w.probs_S @ rewards_S),
        accuracy=float(w.probs_S @ chance_S),
        brier=float(w.probs_S @ _rule_loss(BRIER, chance_S, confidences_S)),
    )


def _best_statements(rule: ScoringRule, chances_P: Floats) -> tuple[Floats, Floats]:
    """For each chance of being right, the confidence of least expected loss, and that loss."""
    grid_Q = np.linspace(0, 1, 1001)
    losses = rule(grid_Q, np.ones_like(grid_Q)), rule(grid_Q, np.zeros_like(grid_Q))
    stated_P, least_P = best_statement(chances_P, grid_Q, *losses)
    honest_P = _rule_loss(rule, chances_P, chances_P)
    dishonest_P = least_P < honest_P - 1e-9  # less than that is rounding
    return np.where(dishonest_P, stated_P, chances_P), np.where(dishonest_P, least_P, honest_P)


def _rule_loss(rule: ScoringRule, chance: Floats, stated: Floats) -> Floats:
    """The loss to expect of stating a confidence with this chance of being right."""
    if_right, if_wrong = rule(stated, np.ones_like(stated)), rule(stated, np.zeros_like(stated))
    return expected_loss(chance, if_right, if_wrong)


# --- any policy -------------------------------------------------------------------------------------

#: An answer that is neither an arm nor an abstention, but was well-formed: wrong at its stated confidence.
NO_ARM = -2


def read_answers(task: Arms, texts: Iterable[str | None]) -> list[int | None]:
    """The arm that each answer names, -1 for an abstention, -2 for anything else, None for no answer.

    What names an arm is what the task's verifier would accept for it, so that exact and sampled evaluation
    agree. None, which :func:`exact_evaluation` takes for a malformed response, is for responses that are.

    >>> read_answers(Arms(), ["3", " 0 ", "-1", "7", None])
    [3, 0, -1, -2, None]
    """
    choices = [*range(task.arms), ABSTAIN]
    asked = [Problem(str(choice), "", (str(choice),), "math") for choice in choices]

    def read(text: str) -> int:
        verdicts = verify_math(asked, [text] * len(asked))
        return next((choice for choice, v in zip(choices, verdicts, strict=True) if v.correct), NO_ARM)

    texts = list(texts)
    known = {text: read(text) for text in dict.fromkeys(texts) if text is not None}
    return [None if text is None else known[text] for text in texts]


@dataclass(frozen=True)
class ExactEvaluation:
    """What a policy is worth in expectation over all instances of the task.

    ``share`` is the reward as a part of the optimum's, None where that is not above 0 (as under the log
    rule, where the best is to abstain for nothing). ``auroc`` is None where all answers are wrong.
    """

    accuracy: float
    brier: float
    ece: float
    auroc: float | None
    mean_confidence: float
    reward: float
    optimal_reward: float
    share: float | None
    abstained: float
    malformed: float


def exact_evaluation(
    task: Arms, policy: Policy | tuple[ArrayLike, ArrayLike], *, rule: ScoringRule = BRIER, lam: float = 1.0
) -> ExactEvaluation:
    """The exact expected accuracy, Brier, ECE, AUROC and reward lam * c - S(q, c) of a policy.

    ``policy`` maps every sequence to (answer, confidence), or is a pair of arrays aligned with
    :func:`sequences`, answers and confidences, of shape S or S x M: M samples of a policy that is not
    deterministic, each given equal weight.

    Accuracy, AUROC, reward and share: higher is better. Brier and ECE: lower is better. ECE is the
    population's: sequences are grouped by stated confidence into the paper's ten bins (left-closed, float
    edges, 1.0 in the last) and weighed with their chances. AUROC is the chance that a right answer was
    stated with more confidence than a wrong one, ties half.

    A malformed response (an answer or confidence that is None or NaN) is wrong and gets the rule's minimum,
    as in :mod:`rlcr.reward`; in the metrics it counts as wrong with confidence 1, the worst there is. A
    number that is no arm is wrong.

    >>> always_arm_0 = {draws: (0, 0.2) for draws in sequences(Arms())}
    >>> result = exact_evaluation(Arms(), always_arm_0)
    >>> round(result.accuracy, 4), round(result.reward, 4), round(result.share, 2)
    (0.2, 0.04, 0.34)
    """
    w = world(task)
    answers_SM, confidences_SM = _policy_arrays(task, policy)
    malformed_SM = np.isnan(answers_SM) | np.isnan(confidences_SM)
    stated_SM = np.where(malformed_SM, 1.0, confidences_SM)
    weight_SM = np.broadcast_to(w.probs_S[:, None] / answers_SM.shape[1], answers_SM.shape)

    names_arm_SM = ~malformed_SM & np.isin(answers_SM, np.arange(task.arms))
    arm_SM = np.where(names_arm_SM, answers_SM, 0).astype(np.int64)
    chance_SM = np.where(names_arm_SM, np.take_along_axis(w.predictive_SK, arm_SM, axis=1), 0.0)

    worth_SM = lam * chance_SM - _rule_loss(rule, chance_SM, stated_SM)
    worth_SM = np.where(malformed_SM, -rule.largest_loss(), worth_SM)
    reward = float((weight_SM * worth_SM).sum())
    optimal_reward = optimum(task, rule, lam).reward
    stated, weight, right = stated_SM.ravel(), weight_SM.ravel(), (weight_SM * chance_SM).ravel()
    return ExactEvaluation(
        accuracy=float(right.sum()),
        brier=float((weight_SM * _rule_loss(BRIER, chance_SM, stated_SM)).sum()),
        ece=_ece(stated, weight, right),
        auroc=_auroc(stated, weight, right),
        mean_confidence=float(weight @ stated),
        reward=reward,
        optimal_reward=optimal_reward,
        share=reward / optimal_reward if optimal_reward > 0 else None,
        abstained=float(weight_SM[~malformed_SM & (answers_SM == ABSTAIN)].sum()),
        malformed=float(weight_SM[malformed_SM].sum()),
    )


def _policy_arrays(task: Arms, policy: Policy | tuple[ArrayLike, ArrayLike]) -> tuple[Floats, Floats]:
    """Answers and confidences as S x M floats, NaN where malformed."""
    if isinstance(policy, Mapping):
        said_S2 = _matrix([_said(policy, draws) for draws in sequences(task)], task)
        answers_SM, confidences_SM = said_S2[:, :1], said_S2[:, 1:]
    else:
        answers_SM, confidences_SM = (_matrix(values, task) for values in policy)
    if answers_SM.shape != confidences_SM.shape:
        raise RlcrError(
            f"answers are {answers_SM.shape}, confidences {confidences_SM.shape}: need one for each"
        )
    outside = (confidences_SM < 0) | (confidences_SM > 1)  # False for NaN
    if outside.any():
        raise RlcrError(f"confidence must be in [0, 1], got {confidences_SM[outside][0]}")
    return answers_SM, confidences_SM


def _said(policy: Policy, draws: tuple[int, ...]) -> tuple[int | None, float | None]:
    if draws not in policy:
        raise RlcrError(f"the policy says nothing for the draws {list(draws)}: it must cover every sequence")
    return policy[draws]


def _matrix(values: Any, task: Arms) -> Floats:
    count = len(world(task).probs_S)
    array = np.asarray(values, dtype=np.float64)  # makes None a NaN
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or array.shape[0] != count or array.shape[1] == 0:
        raise RlcrError(f"a policy needs {count:,} rows, one for each sequence; got shape {array.shape}")
    return array


def _ece(stated: Floats, weight: Floats, right: Floats) -> float:
    """Sum over bins of |mean confidence - accuracy| times the chance of the bin."""
    bins = fixed_bins(stated, "paper", 10)
    return float(np.abs(np.bincount(bins, weight * stated - right, minlength=10)).sum())


def _auroc(stated: Floats, weight: Floats, right: Floats) -> float | None:
    values, group = np.unique(stated, return_inverse=True)
    right_V = np.bincount(group, right, minlength=len(values))
    wrong_V = np.bincount(group, weight - right, minlength=len(values))
    pairs = right_V.sum() * wrong_V.sum()
    beaten_V = np.cumsum(wrong_V) - wrong_V / 2
    return float(right_V @ beaten_V / pairs) if pairs > 0 else None
