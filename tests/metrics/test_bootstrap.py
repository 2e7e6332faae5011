"""The one bootstrap against the loop one would write first; discrimination within questions pair by pair."""

import numpy as np
import pytest

from rlcr import metrics
from rlcr.metrics.bootstrap import Estimate, Resampled, question_weights, ratio, ratios
from rlcr.metrics.likelihood import response_likelihood
from rlcr.metrics.within import NO_PAIRS, within_question


def test_a_ratio_under_weights_is_that_of_the_questions_drawn() -> None:
    rng = np.random.default_rng(0)
    above_QN = rng.random((30, 3))
    below_QN = above_QN + rng.random((30, 3))
    drawn_RQ = rng.integers(30, size=(40, 30))
    weights_RQ = np.stack([np.bincount(row, minlength=30) for row in drawn_RQ]).astype(float)
    found = ratios(above_QN, below_QN, weights_RQ)
    for n, one in enumerate(found):
        plain = [above_QN[row, n].sum() / below_QN[row, n].sum() for row in drawn_RQ]
        np.testing.assert_allclose(one.draws_R, plain)
        estimate = one.estimate()
        assert estimate.value == pytest.approx(above_QN[:, n].sum() / below_QN[:, n].sum())
        assert (estimate.low, estimate.high) == pytest.approx(tuple(np.quantile(plain, [0.025, 0.975])))
    less = found[1].minus(found[0])
    plain = found[1].draws_R - found[0].draws_R
    assert (less.low, less.high) == pytest.approx(tuple(np.quantile(plain, [0.025, 0.975])))
    assert less.p_value == pytest.approx(2 * (min((plain <= 0).sum(), (plain >= 0).sum()) + 1) / 41)


def test_votes_and_summaries_draw_the_same_questions() -> None:
    """The same accuracy of the same questions has the same interval, wherever it is computed."""
    rng = np.random.default_rng(1)
    correct_QS = rng.integers(0, 2, (50, 4))
    right_Q = correct_QS.sum(axis=1).astype(float)
    mean = ratio(right_Q, np.full(50, 4.0), question_weights(50, 200)).estimate()
    rows = correct_QS.ravel(), rng.random(200)
    summary = metrics.summary(*rows, question=np.repeat(np.arange(50), 4), resamples=200)
    assert summary.metrics["accuracy"] == mean


def test_undefined_resamples_are_left_out_and_counted() -> None:
    half = Resampled(0.5, np.array([0.5, np.nan, 0.5, np.inf]))
    assert half.estimate() == Estimate(0.5, 0.5, 0.5, "undefined in 2 of 4 resamples, which are left out")
    assert half.alike
    assert Resampled(np.nan, np.ones(3)).estimate("why") == Estimate(None, None, None, "why")
    assert Resampled(0.5, np.empty(0)).estimate() == Estimate(0.5, None, None)
    assert not Resampled(0.5, np.empty(0)).alike
    assert half.minus(Resampled(np.nan, np.full(4, np.nan)), "why").p_value is None


@pytest.mark.parametrize("seed", range(5))
def test_within_question_is_over_all_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    questions, n = 12, 80
    question_N, correct_N = rng.integers(questions, size=n), rng.integers(2, size=n)
    confidence_N = rng.integers(0, 6, n) / 5  # many ties
    weights_RQ = question_weights(questions, 5, seed)
    found = within_question(correct_N, confidence_N, question_N, weights_RQ)
    for weight_Q, value in [(np.ones(questions), found.value), *zip(weights_RQ, found.draws_R, strict=True)]:
        won = pairs = 0.0
        for i in np.flatnonzero(correct_N == 1):
            for j in np.flatnonzero((correct_N == 0) & (question_N == question_N[i])):
                weight = weight_Q[question_N[i]]
                pairs += weight
                won += weight * (np.sign(confidence_N[i] - confidence_N[j]) + 1) / 2
        assert value == pytest.approx(won / pairs)


def test_within_question_by_hand() -> None:
    correct, question = np.array([1, 0, 0, 1, 1, 1]), np.array([0, 0, 0, 1, 1, 2])
    a = np.array([0.5, 0.2, 0.5, 0.1, 0.9, 0.3])
    weights_RQ = question_weights(3, 50)
    first, second = (within_question(correct, q, question, weights_RQ) for q in (a, 1 - a))
    assert first.value == 0.75  # one pair won, one tied; the others have no wrong sample
    assert second.minus(first).value == pytest.approx(-0.5)
    alone = within_question(np.array([1, 1]), np.array([0.1, 0.2]), np.array([0, 1]), np.ones((1, 2)))
    assert alone.estimate(NO_PAIRS) == Estimate(None, None, None, NO_PAIRS)
    nobody = within_question(np.array([], int), np.array([]), np.array([], int), np.ones((1, 2)))
    assert nobody.estimate(NO_PAIRS).value is None


def test_the_likelihood_of_a_response_is_by_its_own_tokens() -> None:
    assert response_likelihood(-2.0, 10) == pytest.approx(np.exp(-0.2))
    assert response_likelihood(1e-9, 10) == 1
    assert response_likelihood(None, 30) is None
    assert response_likelihood(0.0, 0) is None  # an imported run has no tokens
