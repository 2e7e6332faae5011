"""Votes: equal to every subset counted one by one, as theory says on simulated pools, and documented where data lack."""

from pathlib import Path

import numpy as np
import pytest
from tests.many.pools import Kind, brute_force, ragged, simulated
from tests.report.run_folders import problem, record, write_artefacts, write_run

from rlcr import metrics
from rlcr.errors import RlcrError
from rlcr.many import exact
from rlcr.many.curves import scaling, softmax
from rlcr.many.pool import make_pool, read_pools
from rlcr.many.stopping import Rule, chance, final_votes, simulate
from rlcr.many.subsets import weighted
from rlcr.many.vote import Votes, task_votes
from rlcr.many.vote_confidence import voted_confidence
from rlcr.metrics.likelihood import response_likelihood
from rlcr.report.artefacts import read_artefacts
from rlcr.report.reading import read_runs


def test_a_problem_that_is_gone_is_named(tmp_path: Path) -> None:
    names = [f"t/{n}" for n in range(4)]
    records = [record(name, "t", sample=sample) for name in names for sample in (0, 1)]
    run = write_run(tmp_path / "run", records, [problem(name, "?", "42") for name in names])
    lines = (run / "problems.jsonl").read_text().splitlines(keepends=True)
    (run / "problems.jsonl").write_text("".join(lines[1:]))
    with pytest.raises(
        RlcrError, match=r"problems.jsonl: damaged: the problem t/0 of the records is not there"
    ):
        read_pools(run)


@pytest.mark.parametrize("seed", range(12))
def test_every_method_and_n_equals_counting_all_subsets(seed: int) -> None:
    pool = ragged(seed, most=6 if seed % 2 else 9)
    most = int(pool.size_Q.min())
    temper = softmax(pool.confidence_QM, 0.2)
    weights = {
        "confidence": pool.confidence_QM, "likelihood": pool.likelihood_QM, "softmax": temper,
    }  # fmt: skip
    plain, oracle = exact.majority(pool, most), exact.pass_at(pool, most)
    votes = {name: weighted(pool, weight, most, 200, seed) for name, weight in weights.items()}
    chosen = {name: exact.highest(pool, weight, most) for name, weight in weights.items()}
    for n in range(1, most + 1):
        expected = [(plain, brute_force(pool, "vote", n)), (oracle, brute_force(pool, "pass", n))]
        for name, weight in weights.items():
            found, how = votes[name]
            assert "drawn" not in how
            expected.append((found, brute_force(pool, "vote", n, weight)))
            expected.append((chosen[name], brute_force(pool, "highest", n, weight)))
        for found, counted in expected:
            for mine, theirs in zip(found, counted, strict=True):
                np.testing.assert_allclose(mine[:, n - 1], theirs, atol=1e-12)


def test_drawn_subsets_agree_with_the_closed_form() -> None:
    pool = simulated("constant", questions=300, samples=24)
    plain, _ = exact.majority(pool, 24)
    (drawn, _), how = weighted(pool, pool.confidence_QM, 24, 400, 0)
    assert how[:2] == ["closed", "closed"]
    assert how[11] == "drawn"
    assert how[-2:] == ["all", "all"]
    # Equal weights are a plain majority, but for the noise of 300 x 400 subsets.
    np.testing.assert_allclose(drawn.mean(axis=0), plain.mean(axis=0), atol=0.004)


def test_drawn_subsets_of_different_weights_agree_with_counting_all() -> None:
    pool = simulated("calibrated", questions=60, samples=14)
    (counted, _), all_of_them = weighted(pool, pool.confidence_QM, 7, 4000, 0)
    (drawn, _), how = weighted(pool, pool.confidence_QM, 7, 1000, 0)
    # 14 samples have 3,432 subsets of 7: all are taken where 4,000 would be drawn.
    assert (all_of_them[-1], how[-1]) == ("all", "drawn")
    # Each question is off by 0.5 / sqrt(1000) at most, in standard deviations; 60 together by 0.002.
    assert not np.array_equal(drawn[:, -1], counted[:, -1])
    assert drawn[:, -1].mean() == pytest.approx(counted[:, -1].mean(), abs=0.008)


@pytest.mark.parametrize("samples", [130, 1001])
def test_pools_beyond_what_is_closed(samples: int) -> None:
    rng = np.random.default_rng(2)
    groups = rng.integers(0, 2, (3, samples))
    pool = make_pool(
        ["a", "b", "c"], groups.tolist(), (groups == 0).astype(int).tolist(), [[0.5] * samples] * 3
    )
    if samples > exact.LARGEST:
        with pytest.raises(RlcrError, match="1,001 samples of one question: at most 1,000 can vote"):
            scaling(pool, most=2, resamples=5)
        return
    found = scaling(pool, subsets=20, resamples=5).curves["majority"]
    assert found.how[20] == "drawn"
    assert found.how[-1] == "all"
    most = (groups == 0).sum(axis=1) - (groups == 1).sum(axis=1)
    assert found.estimates[-1].value == pytest.approx(np.where(most == 0, 0.5, most > 0).mean())


def test_drawn_subsets_are_seeded() -> None:
    pool = simulated("calibrated", questions=40, samples=24)
    first, again, other = (weighted(pool, pool.confidence_QM, 24, 50, seed)[0][0] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_ties_are_exact_whatever_floats_say() -> None:
    # 0.1 three times against 0.3 once: equal in weight, more votes win.
    pool = make_pool(["q"], [[0, 0, 0, 1]], [[1, 1, 1, 0]], [[0.1, 0.1, 0.1, 0.3]])
    (right, _), _ = weighted(pool, pool.confidence_QM, 4, 10, 0)
    assert right[0, 3] == 1
    # Nobody is sure of anything: the majority decides.
    pool = make_pool(["q"], [[0, 0, 1]], [[1, 1, 0]], [[0.0, 0.0, None]])
    (right, _), _ = weighted(pool, pool.confidence_QM, 3, 10, 0)
    assert right[0, 2] == 1


def test_a_temperature_at_which_weights_cannot_be_read_is_refused() -> None:
    pool = ragged(0)
    coldest = softmax(np.array([[0.0, 1.0]]), 0.06)
    assert coldest[0, 0] * 10**9 > 50  # read to nine decimals, an error of one in a hundred at most
    with pytest.raises(RlcrError, match="temperature must be at least 0.06, not 0.05"):
        scaling(pool, temperature=0.05)


# --- simulated pools --------------------------------------------------------------------------------


def at_the_end(kind: Kind) -> tuple[dict[str, float], dict[str, metrics.Estimate], list[str]]:
    found = scaling(simulated(kind), subsets=100, resamples=300)
    values = {name: curve.estimates[-1].value for name, curve in found.curves.items()}
    return {k: v for k, v in values.items() if v is not None}, dict(found.differences), found.verdicts()


def test_calibrated_confidence_helps() -> None:
    values, differences, verdicts = at_the_end("calibrated")
    assert values["pass@N"] > values["confidence-weighted"] > values["majority"]
    # A sample that is nearly certain is nearly always right; one vote in 32 without regard to that is not.
    assert values["pass@N"] > values["max-confidence"] > values["majority"]
    assert (differences["confidence-weighted"].low or 0) > 0
    assert any(v.startswith("confidence-weighted minus majority") and v.endswith("better.") for v in verdicts)


@pytest.mark.parametrize("kind", ["uninformative", "constant"])
def test_uninformative_confidence_weighs_nothing(kind: Kind) -> None:
    found = scaling(simulated(kind), subsets=100, resamples=300)
    weighted_end, plain = (found.curves[name].estimates[-1] for name in ("confidence-weighted", "majority"))
    assert plain.low is not None
    assert plain.high is not None
    assert plain.low <= (weighted_end.value or 0) <= plain.high


def test_anti_calibrated_confidence_hurts_and_is_said_to() -> None:
    values, differences, verdicts = at_the_end("anti")
    assert values["max-confidence"] < values["confidence-weighted"] < values["majority"]
    assert (differences["confidence-weighted"].high or 0) < 0
    assert any(v.startswith("confidence-weighted") and v.endswith("worse.") for v in verdicts)


def test_the_report_marks_what_is_worse(tmp_path: Path) -> None:
    votes = task_votes(simulated("anti", questions=300, samples=8), subsets=50)
    told = Votes("verbalised", 0.2, 0, {"t": votes}).to_dict()
    run = write_run(tmp_path / "run", [record("q", "t")], [problem("q", "?", "42")])
    write_artefacts(run, {"voting.json": told})
    (table,) = read_artefacts(read_runs([run]).evals).tables["voting.json"]
    marks = {row[2].text: row[-1].mark for row in table.rows}
    assert marks["confidence-weighted"] == marks["max-confidence"] == "worse"


def test_max_confidence_is_what_order_statistics_say() -> None:
    """Right with chance p = confidence, uniform: the highest of N has mean N / (N + 1)."""
    rng = np.random.default_rng(3)
    chance_QM = rng.random((4000, 16))
    right = rng.random((4000, 16)) < chance_QM
    ids = [str(n) for n in range(4000)]
    pool = make_pool(ids, (~right).astype(int).tolist(), right.astype(int).tolist(), chance_QM.tolist())
    found, _ = exact.highest(pool, pool.confidence_QM, 16)
    n = np.arange(1, 17)
    np.testing.assert_allclose(found.mean(axis=0), n / (n + 1), atol=0.01)


def test_within_question_discrimination_tells_the_three_apart() -> None:
    found = {
        kind: scaling(
            simulated(kind, questions=300), subsets=20, resamples=50
        ).within_question_by_answer.value
        for kind in ("calibrated", "uninformative", "anti")
    }
    assert (found["calibrated"] or 0) > 0.7
    assert found["uninformative"] == pytest.approx(0.5, abs=0.02)
    assert (found["anti"] or 1) < 0.3


# --- what is not whole ------------------------------------------------------------------------------


@pytest.mark.parametrize("questions", [10, 20])
def test_questions_with_fewer_samples_are_left_out_and_counted(questions: int) -> None:
    # One in ten may have fewer, exactly.
    groups = [[0] * 8] * (questions - 1) + [[0] * 3]
    pool = make_pool([str(n) for n in range(questions)], groups, groups, [[0.5] * len(row) for row in groups])
    found = scaling(pool, resamples=10)
    assert found.most == 8
    assert found.counts["questions"] == questions - 1
    assert found.counts["questions with fewer samples"] == 1
    with pytest.raises(RlcrError, match="--most 9, but nine in ten questions have at most 8 samples"):
        scaling(pool, most=9)


def test_missing_parts_are_counted() -> None:
    pool = make_pool(
        ["a", "b"], [[0, -1, 1], [0, 0, 1]], [[1, 0, 0], [-1, -1, -1]], [[0.5, 0.9, None], [0.2, 0.3, 0.4]]
    )
    counts = scaling(pool, resamples=10).counts
    assert counts["without answer"] == 1
    assert counts["without confidence"] == 1
    assert counts["unscorable answers"] == 3
    assert counts["unscorable questions"] == 1
    assert counts["without likelihood"] == 5


def test_unscorable_is_neither_right_nor_wrong() -> None:
    # One question is lost; of the other the right answer has two of three votes.
    pool = make_pool(["a", "b"], [[0, 0, 1], [0, 0, 0]], [[1, 1, 0], [-1, -1, -1]], [[0.5] * 3] * 2)
    found = scaling(pool, resamples=10)
    assert found.curves["majority"].estimates[-1].value == 1
    assert found.unscorable["majority"] == 0.5
    # A judge who did not reply to one of the samples of an answer changes nothing.
    pool = make_pool(["a"], [[0, 0, 1]], [[1, -1, 0]], [[0.5] * 3])
    assert exact.majority(pool, 3)[0][0, 2] == 1


def test_nothing_scorable_has_no_accuracy() -> None:
    pool = make_pool(["a"], [[0, 1]], [[-1, -1]], [[0.5, 0.6]])
    estimate = scaling(pool, resamples=10).curves["majority"].estimates[-1]
    assert (estimate.value, estimate.note) == (None, "nothing could be scored")


def test_no_answer_at_all_is_wrong() -> None:
    pool = make_pool(["a"], [[-1, -1]], [[0, 0]], [[0.9, 0.9]])
    assert scaling(pool, resamples=10).curves["majority"].estimates[-1].value == 0


def test_without_confidences_or_likelihoods_their_curves_are_left_out() -> None:
    pool = make_pool(["a", "b"], [[0, 1]] * 2, [[1, 0]] * 2, [[None, None]] * 2)
    assert list(scaling(pool, resamples=10).curves) == ["majority", "pass@N"]
    assert [kind.name for kind in voted_confidence(pool, 2, resamples=10)] == ["vote share"]


@pytest.mark.parametrize("unsound", [float("nan"), float("-inf"), float("inf"), 60.0])
def test_a_likelihood_that_cannot_be_one_is_missing(unsound: float) -> None:
    assert response_likelihood(unsound, 10) is None


# --- confidence of a voted answer -------------------------------------------------------------------


def test_the_confidence_of_a_whole_vote_is_measured_as_metrics_measure_it() -> None:
    rng = np.random.default_rng(5)
    groups = rng.integers(0, 3, (200, 4))
    outcomes = (groups == 0).astype(int)
    confidence = rng.random((200, 4))  # all different: no vote is tied
    pool = make_pool([str(n) for n in range(200)], groups.tolist(), outcomes.tolist(), confidence.tolist())
    found = {kind.name: kind for kind in voted_confidence(pool, 4, resamples=20)}
    right, _, leader, _ = final_votes(pool)
    share = np.round(leader / confidence.sum(axis=1), 12)
    voted = right.astype(int)
    weighted_share = found["weighted share"]
    assert weighted_share.n == [1, 2, 4]
    assert weighted_share.brier[-1].value == pytest.approx(metrics.brier(voted, share), abs=1e-6)
    assert weighted_share.ece[-1].value == pytest.approx(metrics.ece(voted, share), abs=1e-6)
    assert weighted_share.auroc == pytest.approx(metrics.auroc(voted, share), abs=1e-3)


def test_a_mean_is_over_those_who_state_a_confidence() -> None:
    # The right answer has one of two voters at 0.8; of the second question nobody states anything above 0.
    pool = make_pool(
        ["a", "b", "c"],
        [[0, 0, 1], [0, 0, 1], [0, 1, 0]],
        [[1, 1, 0], [1, 1, 0], [1, 0, 1]],
        [[0.8, None, 0.3], [0.0, 0.0, 0.0], [None, None, None]],
    )
    found = {kind.name: kind for kind in voted_confidence(pool, 3, resamples=10)}
    assert found["mean confidence"].brier[-1].value == pytest.approx((0.2**2 + 1) / 2)
    assert found["weighted share"].brier[-1].value == pytest.approx((1 - 0.8 / 1.1) ** 2)
    lost = {name: round(kind.left_out, 9) for name, kind in found.items() if name != "calibrated mean"}
    assert lost == {
        "vote share": 0,
        "weighted share": round(2 / 3, 9),
        "mean confidence": round(1 / 3, 9),
    }


def test_a_calibrated_mean_is_calibrated() -> None:
    found = {kind.name: kind for kind in voted_confidence(simulated("calibrated"), 32, resamples=50)}
    mean, calibrated = found["mean confidence"], found["calibrated mean"]
    assert (mean.ece[0].value or 1) < 0.02  # one sample's confidence is its chance of being right
    assert (mean.ece[-1].value or 0) > 0.1  # a voted answer is right more often than each of its voters
    assert (calibrated.ece[-1].value or 1) < 0.03


# --- adaptive sampling ------------------------------------------------------------------------------


def test_the_rule_as_stated() -> None:
    rule = Rule(budget=8, safety=0.9, first=2, step=3)
    assert rule.rounds == (2, 5, 8)
    assert float(chance(np.array(2.0), np.array(0.0))) == pytest.approx(1 - 0.5**3)
    leader, second = np.array([2.0, 2.5, 1.0, 3.1]), np.array([0.0, 0.0, 1.0, 0.0])
    assert rule.stops(leader, second, 2).tolist() == [False, True, False, True]
    assert rule.stops(leader, second, 8).all()
    certain = Rule(budget=8, safety=1)
    assert certain.stops(np.array([4.0, 4.1]), np.array([1.0, 1.0]), 5).tolist() == [False, True]
    assert Rule(budget=3).rounds == (3,)
    for wrong in ({"budget": 1}, {"safety": 0.5}, {"safety": 1.1}):
        with pytest.raises(RlcrError):
            Rule(**wrong)  # pyright: ignore[reportArgumentType]


def test_adaptive_sampling_halves_the_samples_and_keeps_the_budget() -> None:
    pool = simulated("calibrated", easy=3.0, hard=1.0)
    fixed = scaling(pool, most=32, subsets=50, resamples=20).curves["confidence-weighted"].estimates
    for spent in simulate(pool, 32, resamples=20):
        assert spent.samples <= 32
    (adaptive,) = simulate(pool, 32, safeties=(0.95,), resamples=20)
    assert adaptive.samples < 16
    assert (adaptive.accuracy.value or 0) >= (fixed[31].value or 1) - 0.002
    # As many samples for every question alike are worth less.
    assert (adaptive.accuracy.value or 0) > (fixed[int(adaptive.samples)].value or 1)


def test_a_certain_rule_never_changes_the_vote() -> None:
    pool = simulated("uninformative", questions=200)
    (adaptive,) = simulate(pool, 32, safeties=(1.0,), resamples=5)
    right, scorable, _, _ = final_votes(pool)
    assert adaptive.accuracy.value == pytest.approx(right.sum() / scorable.sum(), abs=1e-9)
    assert adaptive.samples < 32
