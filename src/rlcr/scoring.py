r"""Proper scoring rules, and the incentive theorem as code.

A scoring rule :math:`S(q, c)` is the loss for stating confidence q when the answer turns out correct
(c = 1) or wrong (c = 0). The reward family is :math:`R(c, q) = \lambda c - S(q, c)`. Two questions decide
whether training on it does what it should:

*calibration*   Is honesty optimal? E_c S(q, c) with c ~ Bernoulli(p) must be least at q = p: S is proper.
*correctness*   Is a likelier answer always worth more? With q = p the expected reward is
                :math:`W(p) = \lambda p - p S(p, 1) - (1 - p) S(p, 0)`, and for a proper rule
                :math:`W'(p) = \lambda - (S(p, 1) - S(p, 0))`, so it never falls if and only if
                :math:`\lambda \ge \sup_p S(p, 1) - S(p, 0)`, the least sufficient lambda.

Brier and spherical need lambda >= 1. The logarithmic rule needs an infinite one: with any finite lambda a
small enough chance of being right is worth less than a certainly wrong answer with confidence 0.

Differs from the paper: its proof drops a sign in W and a term in W'; the forms above are the right ones.
For a rule that is not proper the correctness question is asked of the best dishonest statement q*(p).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlcr.errors import RlcrError, nearest

Floats = NDArray[np.float64]
#: Loss for confidence q in [0, 1] and outcome c in {0, 1}, element by element.
Loss = Callable[[Floats, Floats], Floats]


@dataclass(frozen=True)
class ScoringRule:
    """A loss S(q, c), lower is better, with what is known of it in closed form.

    ``worst`` is its largest value: what a malformed response is charged. ``least_lambda`` is the least
    correctness weight that makes likelier answers worth more. Leave either None to have it found
    numerically.

    >>> cubic = ScoringRule("cubic", lambda q, c: np.abs(q - c) ** 3)
    >>> check_incentives(cubic, 1.0).proper
    False
    """

    name: str
    loss: Loss
    worst: float | None = None
    least_lambda: float | None = None

    def __call__(self, confidence: ArrayLike, correct: ArrayLike) -> Floats:
        """S(q, c), element by element. Lower is better.

        >>> BRIER([0.9, 0.9], [1, 0])
        array([0.01, 0.81])
        """
        q, c = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=np.float64)
        if not np.all((q >= 0) & (q <= 1)):
            raise RlcrError(f"confidence must be in [0, 1], got {q[~((q >= 0) & (q <= 1))].flat[0]}")
        if not np.all((c == 0) | (c == 1)):
            raise RlcrError(f"correct must be 0 or 1, got {c[~((c == 0) | (c == 1))].flat[0]}")
        q, c = np.broadcast_arrays(q, c)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            try:
                loss = self.loss(q, c)
            except (ValueError, TypeError):  # `if c:` and the math module take single numbers only
                loss = np.vectorize(self.loss, otypes=[np.float64])(q, c)
            return np.asarray(loss, dtype=np.float64)

    def largest_loss(self) -> float:
        """The supremum of S over all q and c; infinite for the exact logarithm."""
        if self.worst is not None:
            return self.worst
        losses = np.concatenate([self(_GRID, np.zeros_like(_GRID)), self(_GRID, np.ones_like(_GRID))])
        return math.inf if np.isnan(losses).any() else float(losses.max())


def _brier(q: Floats, c: Floats) -> Floats:
    return (q - c) ** 2


def _log(q: Floats, c: Floats) -> Floats:
    return -np.log(np.where(c == 1, q, 1 - q))


def _spherical(q: Floats, c: Floats) -> Floats:
    return -np.where(c == 1, q, 1 - q) / np.sqrt(q**2 + (1 - q) ** 2)


def log_clipped(epsilon: float = 0.001) -> ScoringRule:
    """The logarithmic rule with q clipped to [epsilon, 1 - epsilon], which makes it bounded.

    Proper, though not strictly: all statements beyond the clip are worth the same.

    >>> round(log_clipped(0.001).largest_loss(), 4), round(log_clipped(0.001).least_lambda, 4)
    (6.9078, 6.9068)
    """
    if not 0 < epsilon < 0.5:
        raise RlcrError(f"the clip of the log rule must be in (0, 0.5), got {epsilon}")

    def loss(q: Floats, c: Floats) -> Floats:
        return _log(np.clip(q, epsilon, 1 - epsilon), c)

    return ScoringRule("log-clipped", loss, -math.log(epsilon), math.log((1 - epsilon) / epsilon))


BRIER = ScoringRule("brier", _brier, worst=1.0, least_lambda=1.0)
LOG = ScoringRule("log", _log, worst=math.inf, least_lambda=math.inf)
SPHERICAL = ScoringRule("spherical", _spherical, worst=0.0, least_lambda=1.0)

RULES: dict[str, ScoringRule] = {
    "brier": BRIER,
    "log": LOG,
    "log-clipped": log_clipped(),
    "spherical": SPHERICAL,
}


def get_rule(name: str) -> ScoringRule:
    """The scoring rule of that name."""
    if name not in RULES:
        raise RlcrError(f"unknown scoring rule {name!r}: {nearest(name, list(RULES))}")
    return RULES[name]


# --- the theorem ------------------------------------------------------------------------------------

# Fine in the middle, and ever finer towards 0 and 1, where unbounded rules show themselves.
_ENDS = np.logspace(-12, -3, 37)
_GRID: Floats = np.unique(np.concatenate([np.linspace(0, 1, 1001), _ENDS, 1 - _ENDS]))


@dataclass(frozen=True)
class Incentives:
    """What R = lam * c - S(q, c) teaches. ``p`` and ``expected_reward`` are the curve W(p).

    ``falling`` is the widest interval of p on which W falls, None if it never does: there, a model
    earns more with an answer that is less likely to be right.
    """

    rule: str
    lam: float
    proper: bool
    dishonest_example: tuple[float, float] | None
    """A chance of being right p and the statement q that pays best there, where that is not p."""
    correctness: bool
    least_lambda: float
    falling: tuple[float, float] | None
    p: Floats
    expected_reward: Floats

    @property
    def sound(self) -> bool:
        """Both incentives hold."""
        return self.proper and self.correctness


def check_incentives(rule: ScoringRule | str | Loss, lam: float = 1.0) -> Incentives:
    """Check both halves of the theorem for R = lam * c - S(q, c).

    ``rule`` may be a name, or any function of q and c, on arrays or on single numbers.

    >>> check_incentives("brier").sound
    True
    >>> check_incentives(lambda q, c: abs(q - c)).proper
    False
    >>> report = check_incentives(LOG, 1.0)
    >>> report.proper, report.correctness, report.least_lambda, report.falling
    (True, False, inf, (0.0, 0.269))
    """
    if isinstance(rule, str):
        rule = get_rule(rule)
    elif not isinstance(rule, ScoringRule):
        rule = ScoringRule(getattr(rule, "__name__", "yours"), rule)
    if not (math.isfinite(lam) and lam >= 0):
        raise RlcrError(f"lambda must be a finite number of at least 0, got {lam}")
    p = _GRID
    if_right, if_wrong = rule(p, np.ones_like(p)), rule(p, np.zeros_like(p))
    undefined = ~(np.isfinite(if_right) & np.isfinite(if_wrong))[1:-1]
    if undefined.any():
        q = p[1:-1][undefined][0]
        raise RlcrError(f"rule {rule.name}: the loss at confidence {q:.3g} is not a finite number")

    best_q, best_loss = best_statement(p, p, if_right, if_wrong)
    honest_loss = expected_loss(p, if_right, if_wrong)
    gain = np.nan_to_num(honest_loss - best_loss, nan=0.0)
    # A rule may be flat around its minimum, where rounding picks a neighbour: not a gain.
    dishonest = int(np.argmax(gain))
    proper = bool(gain[dishonest] <= 1e-9 * max(1.0, abs(float(best_loss[dishonest]))))

    least = rule.least_lambda
    if least is None:
        least = _least_lambda(if_right, if_wrong, p if proper else best_q)
    expected_reward = lam * p - best_loss
    return Incentives(
        rule=rule.name,
        lam=lam,
        proper=proper,
        dishonest_example=None if proper else (float(p[dishonest]), float(best_q[dishonest])),
        correctness=bool(lam >= least - 1e-9),
        least_lambda=least,
        falling=_widest_fall(p, expected_reward),
        p=p,
        expected_reward=expected_reward,
    )


def expected_loss(p: Floats, if_right: Floats, if_wrong: Floats) -> Floats:
    """P * S(., 1) + (1 - p) * S(., 0), where a loss that cannot happen (0 * inf) costs nothing."""
    with np.errstate(invalid="ignore"):
        return np.where(p == 0, 0, p * if_right) + np.where(p == 1, 0, (1 - p) * if_wrong)


def best_statement(p_P: Floats, q_Q: Floats, if_right_Q: Floats, if_wrong_Q: Floats) -> tuple[Floats, Floats]:
    """For each chance p of being right, the q with the least expected loss, and that loss."""
    losses_PQ = expected_loss(p_P[:, None], if_right_Q[None, :], if_wrong_Q[None, :])
    losses_PQ = np.where(np.isnan(losses_PQ), np.inf, losses_PQ)
    best_P = np.argmin(losses_PQ, axis=1)
    return q_Q[best_P], losses_PQ[np.arange(len(p_P)), best_P]


def _least_lambda(if_right: Floats, if_wrong: Floats, stated: Floats) -> float:
    """Sup over p of S(q, 1) - S(q, 0) at the q stated for p: the slope that lambda must outweigh."""
    slope = if_right - if_wrong
    at_stated = slope[np.searchsorted(_GRID, stated)]
    if not np.isfinite(at_stated).all():
        return math.inf  # a pole at 0 or 1, the only places where a loss may be infinite
    return float(max(0.0, at_stated.max()))


def _widest_fall(p: Floats, reward: Floats) -> tuple[float, float] | None:
    falls = np.diff(reward) < -1e-15  # below rounding, a flat stretch is not a fall
    if not falls.any():
        return None
    edges = np.flatnonzero(np.diff(np.concatenate([[False], falls, [False]])))
    starts, ends = edges[::2], edges[1::2]
    widest = int(np.argmax(p[ends] - p[starts]))
    return float(p[starts[widest]]), float(p[ends[widest]])
