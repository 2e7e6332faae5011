"""Metrics against libraries, against slow obvious loops, and against the published numbers."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from relplot import smECE
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score
from tests.metrics.answers import CASES, PLAIN, answers, sample
from tests.metrics.slow_metrics import slow_aurc, slow_auroc, slow_ece, slow_murphy, slow_smooth_ece
from tests.published import METHODS, PUBLISHED_NAMES, RUNS, published, stored_rows

from rlcr import metrics
from rlcr.metrics import kernel


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


def test_import_is_light() -> None:
    heavy = {"torch", "sklearn", "relplot", "matplotlib", "scipy"}
    code = f"import sys, rlcr.metrics; print(sorted({heavy!r} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize("task", RUNS)
@pytest.mark.parametrize("method", METHODS)
def test_published_numbers(shared_data: Path, task: str, method: str) -> None:
    rows, cell = stored_rows(shared_data, task), published(shared_data, task, method)
    correct = [row[f"{method}-evals"][0] for row in rows]
    confidence = [row[f"{method}-confidence_levels"][0] for row in rows]
    found = metrics.summary(correct, confidence, resamples=10).metrics
    for ours, theirs in {**PUBLISHED_NAMES, "mean_confidence": "confidence level"}.items():
        assert found[ours].value == pytest.approx(cell[theirs], abs=1e-9), ours
