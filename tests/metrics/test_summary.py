"""Summaries, comparisons and macro averages: the kernel and the bootstrap against plain resampling."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from tests.metrics.answers import CASES, PLAIN, answers, sample

from rlcr import metrics
from rlcr.metrics import intervals, kernel

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


@settings(max_examples=50, deadline=None)
@given(answers)
def test_nothing_valid_makes_a_summary_nan(rows: list[tuple[int, float]]) -> None:
    c, q = zip(*rows, strict=True)
    json.dumps(metrics.summary(c, q, resamples=5).to_dict(), allow_nan=False)


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


def test_the_macro_difference_is_that_of_the_macro_averages() -> None:
    """Against resampling each task for both systems at once, by hand."""
    rng = np.random.default_rng(2)
    tasks = [(*sample(300, seed), *sample(300, seed + 1)) for seed in (1, 7)]
    pairs = [metrics.compare(*task, resamples=2000) for task in tasks]
    both = metrics.macro_difference(pairs, "brier")
    plain = []
    for _ in range(2000):
        differences = []
        for c, q, other_c, other_q in tasks:
            i = rng.integers(300, size=300)
            differences.append(metrics.brier(other_c[i], other_q[i]) - metrics.brier(c[i], q[i]))
        plain.append(np.mean(differences))
    low, high = np.quantile(plain, [0.025, 0.975])
    assert both.value == pytest.approx(np.mean([pair.metrics["brier"].value or 0.0 for pair in pairs]))
    assert (both.low, both.high) == (pytest.approx(low, abs=4e-3), pytest.approx(high, abs=4e-3))
    unknown = metrics.compare([1, 1], [0.5, 0.5], [1, 1], [0.5, 0.5], resamples=2000)
    assert metrics.macro_difference([*pairs, unknown], "auroc").value is None
