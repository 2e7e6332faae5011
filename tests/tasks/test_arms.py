import json
import math
from collections import Counter
from itertools import product

import numpy as np
import pytest
from scipy.stats import chisquare
from tests.counting import calls_of

from rlcr.errors import RlcrError
from rlcr.metrics import auroc, ece
from rlcr.scoring import BRIER, LOG, SPHERICAL, ScoringRule, log_clipped
from rlcr.tasks.arms import ABSTAIN, SIZES, Arms, build, sequence_problem
from rlcr.tasks.arms_optimum import (
    exact_evaluation,
    optimum,
    read_answers,
    sequence_problems,
    sequences,
    world,
)
from rlcr.verify.math import verify_math

DEFAULT = Arms()
PINNED = [([1, 4, 0, 3, 0], ("0",)), ([4, 0], ("4",)), ([4], ("2",)), ([4, 2], ("0",))]
OTHERS = [
    Arms(arms=2, max_draws=4),
    Arms(arms=3, min_draws=2, max_draws=4, prior=0.5),
    Arms(arms=3, min_draws=0, max_draws=0, prior=(3.0, 1.0, 2.0)),
    Arms(arms=4, min_draws=1, max_draws=3, prior=(0.2, 1.0, 2.5, 4.0)),
]


# --- problems ---------------------------------------------------------------------------------------


def test_sizes_ids_and_reproducibility():
    train, test = build("train", None, 0), build("test", None, 0)
    assert (len(train), len(test)) == (10_000, 1_000) == tuple(SIZES.values())
    assert len({problem.id for problem in [*train, *test]}) == 11_000
    assert build("train", 50, 0) == train[:50]
    assert [p.extras["draws"] for p in build("train", 50, 1)] != [p.extras["draws"] for p in train[:50]]
    # Pinned: the same on every machine and version.
    assert [(p.extras["draws"], p.gold) for p in test[:4]] == PINNED


def test_splits_are_independent():
    train, test = build("train", 4000, 3), build("test", 4000, 3)
    same = np.mean([a.gold == b.gold for a, b in zip(train, test, strict=True)])
    assert abs(same - 1 / 5) < 4 * math.sqrt(0.2 * 0.8 / 4000)


@pytest.mark.parametrize("task", [DEFAULT, *OTHERS])
def test_built_problems_follow_the_exact_distribution(task: Arms):
    problems = build("train", 20_000, 7, **task.as_extras())
    seen = Counter((tuple(p.extras["draws"]), int(p.gold[0])) for p in problems)
    w = world(task)
    expected = (w.probs_S[:, None] * w.predictive_SK).ravel() * len(problems)
    observed = np.array([seen[draws, arm] for draws in sequences(task) for arm in range(task.arms)])
    assert observed.sum() == len(problems)
    frequent = expected >= 8  # rare cells are pooled, as a chi-square test needs
    observed = np.append(observed[frequent], observed[~frequent].sum())
    expected = np.append(expected[frequent], expected[~frequent].sum())
    if expected[-1] == 0:
        observed, expected = observed[:-1], expected[:-1]
    assert chisquare(observed, expected).pvalue > 1e-3


def test_gold_passes_its_verifier_and_others_fail():
    problems = build("test", 300, 0)
    assert all(v.correct for v in verify_math(problems, [p.gold[0] for p in problems]))
    assert not any(v.correct for v in verify_math(problems, ["-1"] * len(problems)))
    assert not any(
        v.correct for v in verify_math(problems, [str((int(p.gold[0]) + 1) % 5) for p in problems])
    )


def test_question_says_what_the_paper_says():
    problem = sequence_problem(DEFAULT, [1, 1, 0])
    for needed in ("5 arms", "0 to 4", "1, 1, 0", "shown: 3"):
        assert needed in problem.question
    assert "-1 with confidence 0" in problem.instruction
    assert "none" in sequence_problem(DEFAULT, []).question


def test_extras_survive_json_and_give_the_settings_back():
    task = OTHERS[-1]
    extras = json.loads(json.dumps(build("train", 1, 0, **task.as_extras())[0].extras))
    draws = extras.pop("draws")
    assert Arms(**extras) == task
    assert tuple(draws) in sequences(task)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"arms": 1}, "at least 2 arms"),
        ({"arms": 2.5}, "whole number"),
        ({"min_draws": 4, "max_draws": 2}, "min_draws <= max_draws"),
        ({"min_draws": -1}, "min_draws <= max_draws"),
        ({"prior": 0}, "above 0"),
        ({"prior": math.nan}, "above 0"),
        ({"prior": (1, 2)}, "2 numbers for 5 arms"),
        ({"prior": "flat"}, "must be a number"),
        ({"prior": None}, "must be a number"),
    ],
)
def test_bad_settings(settings: dict, message: str):
    with pytest.raises(RlcrError, match=message):
        build("train", 1, 0, **settings)


def test_bad_split_size_and_draws():
    with pytest.raises(RlcrError, match="did you mean train"):
        build("trian", 1, 0)
    with pytest.raises(RlcrError, match="at least 0"):
        build("train", -1, 0)
    with pytest.raises(RlcrError, match="from 0 to 4"):
        sequence_problem(DEFAULT, [5])


# --- the world --------------------------------------------------------------------------------------


def test_3906_sequences_with_chances_that_sum_to_one():
    w = world(DEFAULT)
    assert len(sequences(DEFAULT)) == len(w.probs_S) == len(sequence_problems(DEFAULT)) == 3906
    assert w.probs_S.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(w.predictive_SK.sum(axis=1), 1)
    assert len({problem.id for problem in sequence_problems(DEFAULT)}) == 3906


@pytest.mark.parametrize("task", [DEFAULT, *OTHERS])
def test_world_against_brute_force(task: Arms):
    """The chance of a sequence by gamma functions, and of the next draw by Bayes' rule."""

    def chance(draws: tuple[int, ...]) -> float:
        counts, total = Counter(draws), sum(task.prior_K)
        log = math.lgamma(total) - math.lgamma(total + len(draws))
        log += sum(math.lgamma(a + counts[arm]) - math.lgamma(a) for arm, a in enumerate(task.prior_K))
        return math.exp(log)

    lengths = range(task.min_draws, task.max_draws + 1)
    every = [draws for n in lengths for draws in product(range(task.arms), repeat=n)]
    assert sequences(task) == every
    w = world(task)
    np.testing.assert_allclose(w.probs_S, [chance(draws) / len(lengths) for draws in every], rtol=1e-10)
    predictive = [[chance((*draws, arm)) / chance(draws) for arm in range(task.arms)] for draws in every]
    np.testing.assert_allclose(w.predictive_SK, predictive, rtol=1e-10)


def test_too_many_sequences():
    with pytest.raises(RlcrError, match="too many"):
        world(Arms(arms=10, max_draws=9))
    with pytest.raises(RlcrError, match="too many"):
        sequences(Arms(arms=10, max_draws=9))


# --- the optimum ------------------------------------------------------------------------------------


def test_known_optimum_under_brier():
    best = optimum(DEFAULT)
    assert (best.accuracy, best.brier, best.reward) == pytest.approx((0.3299, 0.2133, 0.1166), abs=5e-5)
    assert (best.answers_S >= 0).all()
    assert best.answers_S[0] == 0  # nothing seen: all arms tie
    assert best.confidences_S[0] == pytest.approx(1 / 5)
    # The likeliest arm is the most frequent one, the lowest of several.
    for draws, answer in zip(sequences(DEFAULT)[1:], best.answers_S[1:], strict=True):
        assert answer == min(range(5), key=lambda arm: (-draws.count(arm), arm))


@pytest.mark.parametrize("rule", [LOG, log_clipped(0.001)])
def test_under_the_log_rule_abstaining_is_optimal_in_every_state(rule: ScoringRule):
    best = optimum(DEFAULT, rule)
    assert (best.answers_S == ABSTAIN).all()
    assert (best.confidences_S == 0).all()
    assert (best.accuracy, best.brier) == (0, 0)
    honest = optimum(DEFAULT)  # states the true chance of the likeliest arm
    result = exact_evaluation(DEFAULT, (honest.answers_S, honest.confidences_S), rule=rule)
    assert result.reward == pytest.approx(-0.286, abs=5e-4)
    assert result.share is None


def test_with_a_large_lambda_the_log_rule_wants_answers():
    assert (optimum(DEFAULT, LOG, 4.0).answers_S >= 0).all()


def test_calibration_alone_wants_abstention():
    best = optimum(DEFAULT, BRIER, 0.0)
    assert (best.answers_S == ABSTAIN).all()
    assert best.reward == 0


def test_one_constant_confidence_earns_93_percent():
    best = optimum(DEFAULT)
    shares = {
        q: exact_evaluation(DEFAULT, (best.answers_S, np.full(3906, q))).share for q in np.arange(0, 1, 0.01)
    }
    top = max(shares, key=lambda q: shares[q] or 0)
    assert top == pytest.approx(0.33)
    assert shares[top] == pytest.approx(0.933, abs=1e-3)


@pytest.mark.parametrize("task", OTHERS)
@pytest.mark.parametrize("rule", [BRIER, SPHERICAL, log_clipped(0.01)], ids=lambda rule: rule.name)
@pytest.mark.parametrize("lam", [0.0, 1.0, 3.0])
def test_optimum_against_a_search_over_everything(task: Arms, rule: ScoringRule, lam: float):
    """Try every answer with a grid of confidences in every state, in the slow obvious way."""
    grid = np.linspace(0, 1, 401)
    w, best = world(task), optimum(task, rule, lam)
    for s in range(len(w.probs_S)):
        found = -float(rule(0, 0))
        for p in w.predictive_SK[s]:
            worth = lam * p - p * rule(grid, np.ones(401)) - (1 - p) * rule(grid, np.zeros(401))
            found = max(found, float(worth.max()))
        assert found <= best.rewards_S[s] + 1e-12
        assert found == pytest.approx(best.rewards_S[s], abs=1e-4)
    result = exact_evaluation(task, (best.answers_S, best.confidences_S), rule=rule, lam=lam)
    assert result.reward == pytest.approx(best.reward, abs=1e-12)
    assert (result.accuracy, result.brier) == pytest.approx((best.accuracy, best.brier), abs=1e-12)
    assert result.share is None or result.share == pytest.approx(1)


def test_improper_rule_gets_its_best_dishonest_confidence():
    absolute = ScoringRule("absolute", lambda q, c: np.abs(q - c))
    best = optimum(Arms(arms=2, min_draws=3, max_draws=3), absolute)
    assert set(best.confidences_S) == {1.0}  # after three draws one of two arms is more than even: say 1


def test_cached_arrays_are_read_only():
    with pytest.raises(ValueError, match="read-only"):
        optimum(DEFAULT).answers_S[0] = 3


# --- any policy -------------------------------------------------------------------------------------


def test_monte_carlo_agrees_with_the_closed_form():
    """200,000 instances as the paper describes them: sample p, draw from it, play the best policy."""
    rng, count = np.random.default_rng(0), 200_000
    draws_I6 = (
        rng.random((count, 6, 1)) > rng.dirichlet(np.ones(5), count).cumsum(axis=1)[:, None, :-1]
    ).sum(-1)
    shown_I = rng.integers(0, 6, count)
    # The index of the first N draws among all sequences: those that are shorter, then base 5.
    powers_N = 5 ** np.arange(6)
    index_I = np.zeros(count, dtype=np.int64)
    for t in range(5):
        index_I = np.where(t < shown_I, 5 * index_I + draws_I6[:, t], index_I)
    index_I += np.array([0, *powers_N.cumsum()[:-1]])[shown_I]
    gold_I = draws_I6[np.arange(count), shown_I]

    for rule in (BRIER, SPHERICAL, log_clipped(0.001)):
        best = optimum(DEFAULT)
        exact = exact_evaluation(DEFAULT, (best.answers_S, best.confidences_S), rule=rule)
        correct_I, stated_I = best.answers_S[index_I] == gold_I, best.confidences_S[index_I]
        sampled = {
            "accuracy": correct_I.astype(float),
            "brier": (stated_I - correct_I) ** 2,
            "mean_confidence": stated_I,
            "reward": correct_I - rule(stated_I, correct_I),
        }
        for name, values in sampled.items():
            error = values.std() / math.sqrt(count)
            assert abs(values.mean() - getattr(exact, name)) < 4 * error, name
        assert exact.auroc == pytest.approx(auroc(correct_I, stated_I), abs=0.006)
        assert exact.ece == pytest.approx(0, abs=1e-12)
        assert ece(correct_I, stated_I) < 0.01


def test_ece_and_auroc_agree_with_the_sampled_metrics():
    """A policy with all kinds of confidence, against the metrics of a large weighted replica."""
    task = Arms(arms=2, max_draws=2)
    # Every chance of this task is a multiple of 1/72 after weighing, so a finite replica is exact.
    rng = np.random.default_rng(1)
    w, shown = world(task), sequences(task)
    answers, stated = rng.integers(0, 2, len(shown)), rng.choice([0.0, 0.3, 0.31, 0.6, 0.7, 1.0], len(shown))
    correct, confidence = [], []
    for s in range(len(shown)):
        for arm in range(2):
            copies = w.probs_S[s] * w.predictive_SK[s, arm] * 72
            assert copies == pytest.approx(round(copies), abs=1e-9)
            correct += [arm == answers[s]] * round(copies)
            confidence += [stated[s]] * round(copies)
    result = exact_evaluation(task, (answers, stated))
    assert result.ece == pytest.approx(ece(correct, confidence), abs=1e-12)
    assert result.auroc == pytest.approx(auroc(correct, confidence), abs=1e-12)
    assert result.accuracy == pytest.approx(np.mean(correct), abs=1e-12)


def test_mapping_and_arrays_and_samples_agree():
    best = optimum(DEFAULT)
    arrays = exact_evaluation(DEFAULT, (best.answers_S, best.confidences_S))
    said = zip(best.answers_S.tolist(), best.confidences_S.tolist(), strict=True)
    assert exact_evaluation(DEFAULT, dict(zip(sequences(DEFAULT), said, strict=True))) == arrays
    # Half of the time the best policy, half of the time abstaining: the mean of both.
    mixed = exact_evaluation(
        DEFAULT,
        (np.stack([best.answers_S, np.full(3906, -1)], 1), np.stack([best.confidences_S, np.zeros(3906)], 1)),
    )
    assert mixed.reward == pytest.approx(arrays.reward / 2)
    assert mixed.accuracy == pytest.approx(arrays.accuracy / 2)
    assert mixed.abstained == pytest.approx(0.5)


def test_abstaining_always():
    result = exact_evaluation(DEFAULT, (np.full(3906, -1), np.zeros(3906)))
    assert (result.accuracy, result.brier, result.ece, result.reward) == (0, 0, 0, 0)
    assert result.auroc is None
    assert result.abstained == pytest.approx(1)


def test_malformed_is_wrong_at_the_minimum():
    policy = dict.fromkeys(sequences(DEFAULT), (None, None))
    result = exact_evaluation(DEFAULT, policy)
    assert (result.accuracy, result.abstained) == (0, 0)
    assert (result.brier, result.reward, result.malformed, result.ece) == pytest.approx((1, -1, 1, 1))
    only_the_answer = dict.fromkeys(sequences(DEFAULT), (0, None))
    assert exact_evaluation(DEFAULT, only_the_answer) == result
    assert exact_evaluation(DEFAULT, policy, rule=log_clipped(0.01)).reward == pytest.approx(math.log(0.01))
    assert exact_evaluation(DEFAULT, policy, rule=LOG).reward == -math.inf


def test_no_arm_is_wrong_but_not_malformed():
    result = exact_evaluation(DEFAULT, (np.full(3906, 7), np.full(3906, 0.5)))
    assert result.accuracy == 0
    assert result.brier == pytest.approx(0.25)
    assert result.malformed == 0


def test_read_answers_agrees_with_the_verifier():
    assert read_answers(DEFAULT, ["4", "5", "-1", "arm", "", None, "4"]) == [4, -2, -1, -2, -2, None, 4]


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({(): (0, 0.2)}, "says nothing for the draws"),
        (([0], [0.2]), "needs 3,906 rows"),
        ((np.zeros((3906, 0)), np.zeros((3906, 0))), "needs 3,906 rows"),
        ((np.zeros(3906), np.zeros((3906, 2))), "confidences"),
        ((np.zeros(3906), np.full(3906, 1.5)), r"in \[0, 1\], got 1.5"),
    ],
)
def test_bad_policies(policy, message: str):
    with pytest.raises(RlcrError, match=message):
        exact_evaluation(DEFAULT, policy)


def test_work_does_not_grow_with_the_sequences_or_samples():
    best = optimum(DEFAULT)
    samples = (np.tile(best.answers_S[:, None], 8), np.tile(best.confidences_S[:, None], 8))
    exact_evaluation(DEFAULT, samples)  # once, for what is remembered of the task
    more = (np.tile(samples[0], 4), np.tile(samples[1], 4))
    calls = calls_of(lambda: exact_evaluation(DEFAULT, samples))
    assert calls < 1000  # of 31,248 samples: arrays do the work
    assert calls_of(lambda: exact_evaluation(DEFAULT, more)) < 1.1 * calls
