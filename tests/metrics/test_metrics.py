"""Metrics against libraries, against slow obvious loops, and against the published numbers."""

import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from relplot import smECE
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from rlcr import metrics
from rlcr.errors import RlcrError
from rlcr.metrics import intervals, kernel

DATA = Path(os.environ.get("RLCR_DATA", Path(__file__).parents[3] / "shared" / "data")) / "rlcr_outputs"
METHODS = ("Base", "RLVR", "RLVR-Classifier", "Answer-Prob", "RLCR")
TASKS = ("commonsenseqa", "math-500")


def sample(n: int, seed: int = 0, *, rounded: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Correctness and overconfident confidences, all different or in steps of 0.05."""
    rng = np.random.default_rng(seed)
    confidence = rng.random(n) ** 0.5
    if rounded:
        confidence = np.round(confidence * 20) / 20
    return (rng.random(n) < confidence**2).astype(int), confidence


CASES = [sample(n, seed, rounded=rounded) for seed, n in enumerate((7, 60, 300)) for rounded in (True, False)]

answers = st.lists(
    st.tuples(st.integers(0, 1), st.one_of(st.floats(0, 1), st.integers(0, 20).map(lambda i: i / 20))),
    min_size=1,
    max_size=40,
)


# --- slow, obvious versions ------------------------------------------------------------------------------


def slow_bin(q: float, binning: str, bins: int, everyone: np.ndarray) -> float:
    if binning == "paper":
        edges = np.linspace(0, 1, bins + 1)
        return max(b for b in range(bins) if edges[b] <= q)
    if binning == "decimal":
        return min(round(q * 10**6) * bins // 10**6, bins - 1)
    if binning == "distinct":
        return q
    twice_middle = 2 * int((everyone < q).sum()) + int((everyone == q).sum())
    return twice_middle * bins // (2 * len(everyone))


def slow_bins(c: np.ndarray, q: np.ndarray, binning: str, bins: int) -> list[tuple[np.ndarray, np.ndarray]]:
    of = np.array([slow_bin(x, binning, bins, q) for x in q])
    return [(c[of == b], q[of == b]) for b in sorted(set(of.tolist()))]


def slow_ece(c: np.ndarray, q: np.ndarray, binning: str = "paper", bins: int = 10) -> float:
    return sum(len(cb) / len(c) * abs(qb.mean() - cb.mean()) for cb, qb in slow_bins(c, q, binning, bins))


def slow_murphy(c: np.ndarray, q: np.ndarray, binning: str, bins: int = 10) -> list[float]:
    groups, a = slow_bins(c, q, binning, bins), c.mean()
    reliability = sum(len(cb) * (qb.mean() - cb.mean()) ** 2 for cb, qb in groups) / len(c)
    resolution = sum(len(cb) * (cb.mean() - a) ** 2 for cb, _ in groups) / len(c)
    within = sum(((qb - qb.mean()) ** 2 - 2 * (qb - qb.mean()) * (cb - cb.mean())).sum() for cb, qb in groups)
    return [reliability, resolution, a * (1 - a), within / len(c)]


def slow_aurc(c: np.ndarray, q: np.ndarray) -> float:
    """Walk down the ranks; inside a tie every row is wrong with the tie's error rate."""
    order = np.argsort(-q, kind="stable")
    expected_error = [1 - c[q == q[i]].mean() for i in order]
    return float(np.mean(np.cumsum(expected_error) / np.arange(1, len(c) + 1)))


def slow_auroc(c: np.ndarray, q: np.ndarray) -> float | None:
    pairs = [(a > b) + (a == b) / 2 for a in q[c == 1] for b in q[c == 0]]
    return float(np.mean(pairs)) if pairs else None


def slow_smooth_ece(c: np.ndarray, q: np.ndarray) -> float:
    """The definition: images at +-q + 2k, midpoint rule, bisection."""
    t = (np.arange(1000) + 0.5) / 1000
    values, index = np.unique(q, return_inverse=True)
    mass = np.bincount(index, (q - c) / len(c))
    images = [sign * values + 2 * k for sign in (1, -1) for k in (-1, 0, 1)]

    def g(s: float) -> float:
        kernels = [np.exp(-0.5 * ((t[:, None] - x) / s) ** 2) / (s * np.sqrt(2 * np.pi)) for x in images]
        return float(np.abs(sum(k @ mass for k in kernels)).mean())

    low, high = 0.002, 1.0
    for _ in range(16):
        middle = (low + high) / 2
        low, high = (middle, high) if g(middle) > middle else (low, middle)
    return high


PLAIN: dict[str, Callable[[np.ndarray, np.ndarray], float | None]] = {
    "accuracy": lambda c, q: metrics.accuracy(c),
    "auroc": metrics.auroc,
    "brier": metrics.brier,
    "ece": metrics.ece,
    "ece_decimal": lambda c, q: metrics.ece(c, q, binning="decimal"),
    "smooth_ece": metrics.smooth_ece,
    "brier_skill": metrics.brier_skill,
    "reliability": lambda c, q: metrics.murphy(c, q).reliability,
    "resolution": lambda c, q: metrics.murphy(c, q).resolution,
    "uncertainty": lambda c, q: metrics.murphy(c, q).uncertainty,
    "within_bin": lambda c, q: metrics.murphy(c, q).within_bin,
    "nll": metrics.nll,
    "aurc": metrics.aurc,
    "mean_confidence": lambda c, q: metrics.mean_confidence(q),
    "confidence_gap": metrics.confidence_gap,
    "overconfidence": metrics.overconfidence,
    "underconfidence": metrics.underconfidence,
    "coverage": lambda c, q: 1.0,
}


# --- one number ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_agrees_with_scikit_learn(case: tuple[np.ndarray, np.ndarray]) -> None:
    c, q = case
    assert metrics.auroc(c, q) == pytest.approx(roc_auc_score(c, q), abs=1e-12)
    assert metrics.brier(c, q) == pytest.approx(brier_score_loss(c, q), abs=1e-12)
    assert metrics.nll(c, q) == pytest.approx(log_loss(c, np.clip(q, 1e-3, 1 - 1e-3)), abs=1e-12)
    assert metrics.nll(c, q, eps=0.1) == pytest.approx(log_loss(c, np.clip(q, 0.1, 0.9)), abs=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_agrees_with_loops(case: tuple[np.ndarray, np.ndarray]) -> None:
    c, q = case
    assert metrics.auroc(c, q) == pytest.approx(slow_auroc(c, q), abs=1e-12)
    assert metrics.aurc(c, q) == pytest.approx(slow_aurc(c, q), abs=1e-12)
    for binning in ("paper", "decimal", "equal-mass", "distinct"):
        for bins in (1, 4, 10, 15):
            ece = slow_ece(c, q, binning, bins)
            kind: Any = {"binning": binning, "bins": bins}
            assert metrics.ece(c, q, **kind) == pytest.approx(ece, abs=1e-12)
            over, under = metrics.overconfidence(c, q, **kind), metrics.underconfidence(c, q, **kind)
            assert over + under == pytest.approx(ece, abs=1e-12)
            assert over - under == pytest.approx(metrics.confidence_gap(c, q), abs=1e-12)
            m = metrics.murphy(c, q, **kind)
            parts = [m.reliability, m.resolution, m.uncertainty, m.within_bin]
            assert parts == pytest.approx(slow_murphy(c, q, binning, bins), abs=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_smooth_ece_agrees_with_its_definition(case: tuple[np.ndarray, np.ndarray]) -> None:
    c, q = case
    assert metrics.smooth_ece(c, q) == pytest.approx(slow_smooth_ece(c, q), abs=3e-4)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("rounded", [True, False])
def test_smooth_ece_agrees_with_relplot(seed: int, rounded: bool) -> None:
    c, q = sample(int(10 ** (1 + seed / 2.5)), seed, rounded=rounded)
    # relplot gives points that lie exactly on 0 or 1 half their weight (it does not reflect its outermost grid
    # node); one thousandth inside, it treats them as the definition does.
    assert metrics.smooth_ece(c, q) == pytest.approx(smECE(np.clip(q, 0.001, 0.999), c), abs=2e-3)


def test_published_binning_at_the_edges() -> None:
    edge = [0.3, 0.6, 0.7, 1.0, 0.0]
    assert kernel.fixed_bins(np.array(edge), "paper", 10).tolist() == [2, 5, 6, 9, 0]
    assert kernel.fixed_bins(np.array(edge), "decimal", 10).tolist() == [3, 6, 7, 9, 0]
    tenths = np.arange(11) / 10
    near = [tenths, 1 - tenths[::-1], tenths.astype(np.float32).astype(float), np.cumsum([0] + [0.1] * 10)]
    for values in near:
        found = kernel.fixed_bins(np.minimum(values, 1), "decimal", 10)
        assert found.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9]
    hundredths = kernel.fixed_bins(np.arange(101) / 100, "decimal", 100)
    assert hundredths.tolist() == [*range(100), 99]


def test_equal_mass_bins_are_equal_and_keep_ties_together() -> None:
    curve = metrics.reliability_curve([0, 1] * 50, np.arange(100) / 100, binning="equal-mass", bins=5)
    assert curve.count.tolist() == [20] * 5
    assert curve.upper.tolist() == [0.19, 0.39, 0.59, 0.79, 0.99]
    tied = metrics.reliability_curve([0, 1] * 50, [0.5] * 90 + [0.9] * 10, binning="equal-mass", bins=10)
    assert (tied.count.tolist(), tied.lower.tolist(), tied.upper.tolist()) == (
        [90, 10],
        [0.5, 0.9],
        [0.5, 0.9],
    )


@pytest.mark.parametrize("binning", ["paper", "decimal", "equal-mass", "distinct"])
def test_reliability_curve_gives_back_ece(binning: Any) -> None:
    c, q = CASES[2]
    curve = metrics.reliability_curve(c, q, binning=binning)
    assert curve.count.sum() == len(c)
    assert (curve.count > 0).all()
    assert (curve.lower <= curve.confidence + 1e-12).all()
    assert (curve.confidence <= curve.upper + 1e-12).all()
    ece = (curve.count * abs(curve.confidence - curve.accuracy)).sum() / len(c)
    assert ece == pytest.approx(metrics.ece(c, q, binning=binning), abs=1e-12)


def test_risk_coverage_ends_at_the_error_rate() -> None:
    c, q = CASES[0]
    curve = metrics.risk_coverage(c, q)
    assert curve.coverage[-1] == 1
    assert curve.risk[-1] == pytest.approx(1 - c.mean())
    for threshold, coverage, risk in zip(curve.threshold, curve.coverage, curve.risk, strict=True):
        kept = q >= threshold
        assert (coverage, risk) == (kept.mean(), pytest.approx(1 - c[kept].mean()))


@settings(max_examples=40, deadline=None)
@given(answers, st.randoms(use_true_random=False))
def test_row_order_changes_nothing(rows: list[tuple[int, float]], random: Any) -> None:
    shuffled = random.sample(rows, len(rows))
    for name, metric in PLAIN.items():
        ours, theirs = (metric(*map(np.array, zip(*r, strict=True))) for r in (rows, shuffled))
        assert ours == pytest.approx(theirs, abs=1e-9), name


@settings(max_examples=60, deadline=None)
@given(answers)
def test_murphy_identity_and_bounds(rows: list[tuple[int, float]]) -> None:
    c, q = map(np.array, zip(*rows, strict=True))
    for binning in ("paper", "decimal", "equal-mass", "distinct"):
        m = metrics.murphy(c, q, binning=binning)
        total = m.reliability - m.resolution + m.uncertainty + m.within_bin
        assert total == pytest.approx(metrics.brier(c, q), abs=1e-12)
    assert m.within_bin == pytest.approx(0, abs=1e-12)
    assert 0 <= metrics.smooth_ece(c, q) <= 1
    assert metrics.smooth_ece(c, q) >= abs(metrics.confidence_gap(c, q)) - 1e-3


@given(st.floats(0, 1), st.floats(0, 1))
def test_brier_is_proper(p: float, q: float) -> None:
    def expected(said: float) -> float:
        return p * metrics.brier([1], [said]) + (1 - p) * metrics.brier([0], [said])

    assert expected(p) <= expected(q) + 1e-12


def test_constant_confidence_and_single_class() -> None:
    assert metrics.auroc([1, 0, 1], [0.4] * 3) == 0.5
    for c in ([1, 1], [0, 0]):
        assert metrics.auroc(c, [0.2, 0.9]) is None
        assert metrics.brier_skill(c, [0.2, 0.9]) is None
        assert metrics.murphy(c, [0.2, 0.9]).uncertainty == 0


# --- the kernel and the bootstrap ------------------------------------------------------------------------


@pytest.mark.parametrize("binning", ["paper", "decimal", "equal-mass", "distinct"])
@pytest.mark.parametrize("case", CASES[:4])
def test_weights_equal_the_materialised_resample(case: tuple[np.ndarray, np.ndarray], binning: Any) -> None:
    c, q = case
    rng = np.random.default_rng(1)
    drawn = rng.integers(len(c), size=(20, len(c)))
    weights = np.stack([np.bincount(row, minlength=len(c)) for row in drawn])
    weighted = kernel.SortedRows.sort(c, q, np.arange(len(c)), binning, 10).weigh(weights)
    assert set(PLAIN) == set(kernel.METRICS)
    for name, metric in kernel.METRICS.items():
        values = metric(weighted)
        for row, value in zip(drawn, values, strict=True):
            alone = kernel.SortedRows.sort(c[row], q[row], None, binning, 10).weigh(
                np.ones((1, len(c)), np.int64)
            )
            assert value == pytest.approx(metric(alone)[0], abs=1e-7, nan_ok=True), name
            if binning == "paper":
                plain = PLAIN[name](c[row], q[row])
                assert value == pytest.approx(np.nan if plain is None else plain, abs=1e-7, nan_ok=True)


@pytest.mark.parametrize("case", CASES[2:])
def test_summary_values_are_the_plain_metrics(case: tuple[np.ndarray, np.ndarray]) -> None:
    s = metrics.summary(*case, resamples=20)
    assert list(s.metrics) == list(kernel.METRICS)
    for name, estimate in s.metrics.items():
        assert estimate.value == pytest.approx(PLAIN[name](*case), abs=1e-9), name


@pytest.mark.parametrize("rounded", [True, False])
def test_interval_is_that_of_a_plain_bootstrap(rounded: bool) -> None:
    """Same distribution, other random numbers: with verbalised confidences kinds of rows are drawn."""
    c, q = sample(600, 3, rounded=rounded)
    s = metrics.summary(c, q, resamples=2000)
    rng = np.random.default_rng(5)
    plain = [metrics.brier(c[i], q[i]) for i in rng.integers(600, size=(1000, 600))]
    low, high = np.quantile(plain, [0.025, 0.975])
    brier = s.metrics["brier"]
    assert (brier.low, brier.high) == (pytest.approx(low, abs=3e-3), pytest.approx(high, abs=3e-3))
    error = (0.25 - (c.mean() - 0.5) ** 2) ** 0.5 / 600**0.5
    assert s.metrics["accuracy"].half_width == pytest.approx(1.96 * error, rel=0.06)
    assert brier.half_width == pytest.approx((high - low) / 2, rel=0.1)


@pytest.mark.parametrize("rounded", [True, False])
@pytest.mark.parametrize("questions", [None, 40])
def test_seed_decides_and_chunks_do_not(
    rounded: bool, questions: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    c, q = sample(400, 2, rounded=rounded)
    question = None if questions is None else np.arange(400) % questions
    seen: list[tuple[int, int]] = []

    def run(seed: int = 0) -> dict[str, np.ndarray]:
        return dict(
            metrics.summary(
                c, q, question=question, resamples=50, seed=seed, progress=lambda *x: seen.append(x)
            ).draws_R
        )

    once = run()
    assert seen[-1] == (50, 50)
    assert all(np.array_equal(once[name], again) for name, again in run().items())
    assert not np.array_equal(once["brier"], run(seed=1)["brier"])
    monkeypatch.setattr(intervals, "CHUNK_WEIGHTS", 1)
    seen.clear()
    for name, one_by_one in run().items():
        np.testing.assert_allclose(once[name], one_by_one, atol=1e-7)
    assert seen == [(i + 1, 50) for i in range(50)]


def test_questions_are_resampled_whole() -> None:
    c, q = sample(100, 4)
    copied = [np.repeat(x, 8) for x in (c, q)]
    question = np.repeat([f"q{i}" for i in range(100)], 8)
    by_row, by_question = metrics.summary(*copied), metrics.summary(*copied, question=question)
    alone = metrics.summary(c, q)
    assert (by_question.n, by_question.questions, by_row.questions) == (800, 100, 800)
    for name in ("accuracy", "brier", "auroc", "ece"):
        wide, narrow = by_question.metrics[name].half_width, by_row.metrics[name].half_width
        assert wide is not None
        assert narrow is not None
        assert wide > 2 * narrow
        assert wide == pytest.approx(alone.metrics[name].half_width, rel=0.15)
        assert by_question.metrics[name].value == pytest.approx(alone.metrics[name].value)


def test_question_labels_of_single_rows_change_nothing() -> None:
    c, q = sample(200, 4, rounded=True)
    labels = np.random.default_rng(0).permutation(200)
    assert metrics.summary(c, q, question=labels).to_dict() == metrics.summary(c, q).to_dict()


def test_rows_without_confidence_count_for_accuracy_and_coverage() -> None:
    c, q = sample(50, 1)
    s = metrics.summary([*c, 1, 1], [*q, None, float("nan")], resamples=50)
    assert s.metrics["coverage"].value == pytest.approx(50 / 52)
    assert s.metrics["accuracy"].value == pytest.approx((c.sum() + 2) / 52)
    for name in set(PLAIN) - {"accuracy", "coverage"}:
        assert s.metrics[name].value == pytest.approx(PLAIN[name](c, q), abs=1e-9), name
    assert "2 of 52 rows have no confidence" in s.notes[0]
    nobody = metrics.summary([1, 0, 1], [None] * 3, resamples=50)
    assert nobody.metrics["brier"] == metrics.Estimate(None, None, None, "no row has a confidence")
    assert nobody.metrics["coverage"].value == 0
    assert nobody.notes[0] == "no row has a confidence"


@pytest.mark.parametrize("rows", [([1], [0.7]), ([0], [1.0]), ([1, 1, 1], [0.2, 0.9, 0.9])])
def test_single_class_says_so_and_is_json(rows: tuple[list[int], list[float]]) -> None:
    s = metrics.summary(*rows, resamples=30)
    assert s.metrics["auroc"].value is None
    word = "right" if rows[0][0] else "wrong"
    assert s.metrics["auroc"].note == f"all answers are {word}"
    assert s.notes == (f"all answers are {word}: no AUROC and no Brier skill",)
    found = json.loads(json.dumps(s.to_dict(), allow_nan=False))
    assert found["metrics"]["auroc"] == {"value": None, "ci95": None, "note": f"all answers are {word}"}
    assert found["n"] == len(rows[0])


def test_undefined_resamples_are_dropped_and_counted() -> None:
    s = metrics.summary([1, 0, 1], [0.9, 0.1, 0.5], resamples=500)
    undefined = int(np.isnan(s.draws_R["auroc"]).sum())
    assert 100 < undefined < 250  # one class in (1 + 8) / 27 of them
    assert s.metrics["auroc"].note == f"undefined in {undefined} of 500 resamples, which are left out"
    assert s.metrics["auroc"].low == 1.0
    json.dumps(s.to_dict(), allow_nan=False)


def test_settings_of_summary() -> None:
    c, q = CASES[2]
    bare = metrics.summary(c, q, resamples=0)
    assert (bare.metrics["brier"].low, bare.metrics["brier"].half_width) == (None, None)
    wide, narrow = (metrics.summary(c, q, level=level).metrics["brier"] for level in (0.99, 0.5))
    assert wide.half_width is not None
    assert narrow.half_width is not None
    assert wide.half_width > 2 * narrow.half_width
    assert "ci90" in metrics.summary(c, q, level=0.9, resamples=9).to_dict()["metrics"]["ece"]
    decimal = metrics.summary(c, q, binning="decimal", resamples=0)
    assert decimal.metrics["ece"].value == decimal.metrics["ece_decimal"].value


# --- two systems -----------------------------------------------------------------------------------------


def test_compare_is_paired() -> None:
    c, q = sample(300, 6)
    better = np.clip(q + 0.02 * (2 * c - 1), 0, 1)
    found = metrics.compare(c, q, c, better)
    brier = found.metrics["brier"]
    assert brier.value == pytest.approx(metrics.brier(c, better) - metrics.brier(c, q))
    assert brier.high is not None
    assert brier.high < 0
    assert brier.p_value == pytest.approx(2 / 1001)
    assert brier.half_width is not None
    alone = metrics.summary(c, q).metrics["brier"].half_width
    assert alone is not None
    assert brier.half_width < alone / 3
    assert found.metrics["accuracy"] == metrics.Difference(0.0, 0.0, 0.0, "", 1.0)
    swapped = metrics.compare(c, better, c, q).metrics["brier"]
    assert swapped.low == pytest.approx(-brier.high)
    json.dumps(found.to_dict(), allow_nan=False)


def test_compare_aligns_questions_and_takes_unequal_samples() -> None:
    c, q = sample(80, 7, rounded=True)
    c2, q2 = sample(80, 8, rounded=True)
    names = [f"q{i}" for i in range(80)]
    plain = metrics.compare(c, q, c2, q2)
    order = np.random.default_rng(0).permutation(80)
    shuffled = metrics.compare(
        c, q, c2[order], q2[order], question_a=names, question_b=[names[i] for i in order]
    )
    assert shuffled.to_dict() == plain.to_dict()
    tripled = [np.repeat(x, 3) for x in (c2, q2, np.array(names))]
    more = metrics.compare(c, q, *tripled[:2], question_a=names, question_b=tripled[2])
    assert (more.n, more.questions) == ((80, 240), 80)
    for name, difference in more.metrics.items():
        if name != "aurc":  # a mean over ranks, so it is not the same after copying
            assert difference.value == pytest.approx(plain.metrics[name].value, abs=1e-9), name
    both = metrics.compare(*tripled[:2], *tripled[:2], question=tripled[2])
    assert all(d.value == 0 and d.p_value == 1 for d in both.metrics.values())


@pytest.mark.parametrize("rounded", [True, False])
def test_compare_draws_are_a_plain_paired_bootstrap(rounded: bool) -> None:
    c, q = sample(1000, 9, rounded=rounded)
    c2, q2 = (c, np.round(q * 10) / 10) if rounded else (c, q**2)
    found = metrics.compare(c, q, c2, q2, resamples=1000).metrics["brier"]
    rng = np.random.default_rng(1)
    plain = [
        metrics.brier(c2[i], q2[i]) - metrics.brier(c[i], q[i]) for i in rng.integers(1000, size=(300, 1000))
    ]
    assert found.half_width == pytest.approx(np.diff(np.quantile(plain, [0.025, 0.975]))[0] / 2, rel=0.2)


def test_compare_with_one_class_on_one_side() -> None:
    found = metrics.compare([1, 1, 1], [0.5, 0.6, 0.7], [1, 0, 1], [0.5, 0.6, 0.7], resamples=40)
    assert found.metrics["auroc"].value is None
    assert found.metrics["auroc"].p_value is None
    assert found.metrics["auroc"].note == "a: all answers are right"


# --- many tasks ------------------------------------------------------------------------------------------


def test_macro_average() -> None:
    tasks = {"small": sample(50, 1), "large": sample(2000, 2, rounded=True)}
    macro = metrics.macro_average(tasks)
    summaries = {name: metrics.summary(*task) for name, task in tasks.items()}
    assert (macro.n, macro.tasks) == (2050, ("small", "large"))
    for name, estimate in macro.metrics.items():
        expected = np.mean(np.array([PLAIN[name](*task) for task in tasks.values()], float))
        assert estimate.value == pytest.approx(expected, abs=1e-9), name
    assert metrics.macro_average(summaries) == macro
    assert metrics.macro_average(list(summaries.values())).tasks == ("task 1", "task 2")
    halves = [s.metrics["brier"].half_width for s in summaries.values()]
    assert None not in halves
    independent = sum(h**2 for h in halves if h) ** 0.5 / 2
    assert macro.metrics["brier"].half_width == pytest.approx(independent, rel=0.1)
    json.dumps(macro.to_dict(), allow_nan=False)


def test_macro_average_unties_equal_tasks() -> None:
    task = sample(400, 3)
    one = metrics.summary(*task)
    macro, alone = (
        x.metrics["accuracy"].half_width for x in (metrics.macro_average([one, one, one, one]), one)
    )
    assert alone is not None
    assert macro == pytest.approx(alone / 2, rel=0.15)


def test_macro_average_names_the_task_without_a_metric() -> None:
    task = sample(40, 3)
    macro = metrics.macro_average({"fine": task, "flat": ([1, 1], [0.5, 0.6]), "q": (*task, range(40))})
    assert macro.metrics["auroc"] == metrics.Estimate(None, None, None, "undefined in flat")
    assert macro.metrics["brier"].value is not None


# --- bad input -------------------------------------------------------------------------------------------

BAD_ROWS: list[tuple[Any, Any, str]] = [
    ([1, 0], [0.5, 1.7], r"confidence\[1\] is 1.7: expected a number from 0 to 1"),
    ([1, 0], [-0.1, 0.5], r"confidence\[0\] is -0.1"),
    ([1, 0], [0.5, float("inf")], r"confidence\[1\] is inf"),
    ([1, 0], ["0.5", "x"], r"confidence\[0\] is '0.5'"),
    ([1, 0], [0.5, "high"], r"confidence\[\d\] is '"),
    ([1, 0], [0.5], r"confidence has 1 rows and correct has 2"),
    ([1, 0], [[0.5, 0.5]], r"confidence has 2 dimensions"),
    ([1, 0], [[0.5], [0.5, 0.1]], r"confidence is not a flat list"),
    ([], [], r"correct is empty"),
    ([1, 2], [0.5, 0.5], r"correct\[1\] is 2: expected 0, 1, True or False"),
    ([1, 0.5], [0.5, 0.5], r"correct\[1\] is 0.5"),
    ([1, None], [0.5, 0.5], r"correct\[1\] is None"),
    ([1, float("nan")], [0.5, 0.5], r"correct\[1\] is nan"),
    (["yes", "no"], [0.5, 0.5], r"correct\[0\] is 'yes'"),
]


@pytest.mark.parametrize(("correct", "confidence", "message"), BAD_ROWS)
def test_bad_rows_raise_one_clear_line(correct: Any, confidence: Any, message: str) -> None:
    with pytest.raises(RlcrError, match=message) as raised:
        metrics.brier(correct, confidence)
    assert "\n" not in str(raised.value)
    with pytest.raises(RlcrError, match=message):
        metrics.summary(correct, confidence)
    with pytest.raises(RlcrError, match=r"_b\b"):
        metrics.compare([1, 0], [0.5, 0.5], correct, confidence)


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_plain_metrics_refuse_missing_confidence(missing: Any) -> None:
    with pytest.raises(RlcrError, match=re.escape(f"confidence[1] is {missing}: expected a number")):
        metrics.brier([1, 0], [0.5, missing])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda c, q: metrics.ece(c, q, binning=cast(Any, "papers")),
            "unknown binning 'papers': did you mean paper",
        ),
        (lambda c, q: metrics.ece(c, q, bins=0), "bins is 0: expected a whole number of at least 1"),
        (lambda c, q: metrics.nll(c, q, eps=0), "eps is 0"),
        (lambda c, q: metrics.summary(c, q, level=1.5), "level is 1.5"),
        (lambda c, q: metrics.summary(c, q, resamples=-1), "resamples is -1"),
        (lambda c, q: metrics.summary(c, q, question=["a"]), "question has 1 rows and correct has 2"),
        (lambda c, q: metrics.summary(c, q, question=[["a"], ["b"]]), "question labels must be hashable"),
        (lambda c, q: metrics.compare(c, q, [1], [1.0]), "a has 2 rows and b has 1: label them"),
        (lambda c, q: metrics.compare(c, q, c, q, question_a=[1, 2]), "not a mix"),
        (
            lambda c, q: metrics.compare(c, q, [1, 1, 1], [1, 1, 1], question_a=[1, 2], question_b=[2, 3, 4]),
            "1 questions are only in a and 2 only in b",
        ),
        (lambda c, q: metrics.macro_average([]), "no tasks"),
        (
            lambda c, q: metrics.macro_average([(c, q), metrics.summary(c, q, resamples=3)]),
            "different numbers of resamples",
        ),
    ],
)
def test_bad_settings_raise(call: Callable[[Any, Any], Any], message: str) -> None:
    with pytest.raises(RlcrError, match=re.escape(message)):
        call([1, 0], [0.5, 0.6])


@settings(max_examples=50, deadline=None)
@given(answers)
def test_nothing_valid_makes_a_summary_nan(rows: list[tuple[int, float]]) -> None:
    c, q = zip(*rows, strict=True)
    json.dumps(metrics.summary(c, q, resamples=5).to_dict(), allow_nan=False)


def test_import_is_light() -> None:
    heavy = {"torch", "sklearn", "relplot", "matplotlib", "scipy"}
    code = f"import sys, rlcr.metrics; print(sorted({heavy!r} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


# --- published numbers -----------------------------------------------------------------------------------


@pytest.mark.skipif(not DATA.is_dir(), reason="the authors' stored outputs are not here")
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_published_numbers(task: str, method: str) -> None:
    with gzip.open(DATA / f"hotpot_models_{task}.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    published = [json.loads(line) for line in (DATA / "metrics.jsonl").read_text().splitlines() if line]
    (cell,) = (x for x in published if x["run"] == f"Hotpot-models/{task}" and x["method"] == method)
    correct = [row[f"{method}-evals"][0] for row in rows]
    confidence = [row[f"{method}-confidence_levels"][0] for row in rows]
    found = metrics.summary(correct, confidence, resamples=10).metrics
    names = {"accuracy": "accuracy", "auroc": "auroc", "brier": "brier_score", "ece": "ece"}
    names["mean_confidence"] = "confidence level"
    for ours, theirs in names.items():
        assert found[ours].value == pytest.approx(cell[theirs], abs=1e-9), ours
