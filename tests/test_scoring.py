"""Scoring rules and the incentive theorem, against worked cases and numeric search."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcr.errors import RlcrError
from rlcr.scoring import BRIER, LOG, RULES, SPHERICAL, ScoringRule, check_incentives, get_rule, log_clipped

chances = st.floats(0, 1)


def expected_loss(rule: ScoringRule, q: float, p: float) -> float:
    """E_c S(q, c) with c ~ Bernoulli(p), the obvious way."""
    return sum(weight * float(rule(q, c)) for c, weight in ((1, p), (0, 1 - p)) if weight)


@pytest.mark.parametrize(
    ("rule", "q", "if_right", "if_wrong"),
    [
        (BRIER, 0.7, 0.09, 0.49),
        (LOG, 0.25, math.log(4), math.log(4 / 3)),
        (LOG, 0.0, math.inf, 0.0),
        (SPHERICAL, 0.6, -0.6 / math.sqrt(0.52), -0.4 / math.sqrt(0.52)),
        (log_clipped(0.001), 0.0, math.log(1000), -math.log(0.999)),
    ],
)
def test_worked_values(rule: ScoringRule, q: float, if_right: float, if_wrong: float) -> None:
    np.testing.assert_allclose(rule([q, q], [1, 0]), [if_right, if_wrong])


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
@given(p=chances, q=chances)
def test_every_rule_is_proper(rule: ScoringRule, p: float, q: float) -> None:
    honest, other = expected_loss(rule, p, p), expected_loss(rule, q, p)
    assert honest <= other + 1e-12


@given(p=chances, q=chances)
def test_brier_regret_is_the_squared_distance_from_honesty(p: float, q: float) -> None:
    regret = expected_loss(BRIER, q, p) - expected_loss(BRIER, p, p)
    assert regret == pytest.approx((q - p) ** 2, abs=1e-12)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
def test_closed_forms_agree_with_the_numeric_search(rule: ScoringRule) -> None:
    numeric = ScoringRule("numeric", rule.loss)
    assert numeric.largest_loss() == pytest.approx(rule.largest_loss())
    assert check_incentives(numeric).least_lambda == pytest.approx(rule.least_lambda)
    assert check_incentives(numeric).proper


@pytest.mark.parametrize("rule", [BRIER, SPHERICAL])
def test_bounded_rules_need_lambda_of_one(rule: ScoringRule) -> None:
    assert check_incentives(rule, 1.0).sound
    assert check_incentives(rule, 1.0).falling is None
    too_little = check_incentives(rule, 0.9)
    assert too_little.proper
    assert not too_little.correctness
    assert too_little.falling is not None


@pytest.mark.parametrize("lam", [0.5, 1.0, 10.0])
def test_no_lambda_saves_the_log_rule(lam: float) -> None:
    report = check_incentives(LOG, lam)
    assert report.proper
    assert not report.correctness
    assert report.least_lambda == math.inf
    # W'(p) = lam - log((1 - p) / p) is negative below 1 / (1 + e^lam).
    assert report.falling is not None
    low, high = report.falling
    assert low == 0
    assert high == pytest.approx(1 / (1 + math.exp(lam)), abs=2e-3)


def test_the_expected_reward_curve_is_the_formula() -> None:
    report = check_incentives(BRIER, 1.0)
    np.testing.assert_allclose(report.expected_reward, report.p**2, atol=1e-12)


def test_an_improper_rule_is_found_out() -> None:
    absolute = ScoringRule("absolute", lambda q, c: np.abs(q - c))
    report = check_incentives(absolute)
    assert not report.proper
    assert report.dishonest_example is not None
    p, q = report.dishonest_example
    assert q == (0.0 if p < 0.5 else 1.0)
    assert not report.sound


def test_a_steep_rule_of_the_users_own_needs_a_larger_lambda() -> None:
    steep = ScoringRule("steep", lambda q, c: 3 * (q - c) ** 2)
    assert not check_incentives(steep, 2.9).correctness
    assert check_incentives(steep, 3.0).sound
    assert check_incentives(steep).least_lambda == pytest.approx(3.0)


def test_bad_input() -> None:
    with pytest.raises(RlcrError, match=r"confidence must be in \[0, 1\], got 1.7"):
        BRIER([0.2, 1.7], [1, 1])
    with pytest.raises(RlcrError, match="confidence must be"):
        BRIER(math.nan, 1)
    with pytest.raises(RlcrError, match="correct must be 0 or 1, got 0.5"):
        BRIER(0.5, 0.5)
    with pytest.raises(RlcrError, match="lambda must be"):
        check_incentives(BRIER, math.nan)
    with pytest.raises(RlcrError, match="did you mean brier"):
        get_rule("bier")
    with pytest.raises(RlcrError, match="not a finite number"):
        check_incentives(ScoringRule("hole", lambda q, c: np.where(q == 0.5, np.nan, q)))
    with pytest.raises(RlcrError, match="clip"):
        log_clipped(0.5)
