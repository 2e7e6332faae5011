"""The paper's formulas on cases worked by hand, selective answering, and the mean of several analyses."""

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from tests.report.run_folders import problem, record, simulated_run, write_run
from typer.testing import CliRunner

from rlcr import metrics
from rlcr.cli.commands import app
from rlcr.errors import RlcrError
from rlcr.many.coherence import coherence, confidence_sum, spread, task_coherence
from rlcr.many.ensembling import ensemble
from rlcr.many.halves import halves
from rlcr.many.pool import make_pool, read_pools
from rlcr.many.selective import Check, select, task_selection
from rlcr.many.vote import vote
from rlcr.metrics import Estimate


@pytest.mark.parametrize(
    ("groups", "confidences", "total"),
    [
        ([0, 0, 1, 2], [0.8, 0.6, 0.5, 0.1], 0.7 + 0.5 + 0.1),
        ([0, 0, 0], [0.9, 0.6, 0.6], 0.7),  # one answer only: its mean
        ([-1, -1, -1], [0.9, 0.8, 0.7], None),  # all malformed
        ([0, 1], [0.0, 0.0], 0.0),
        ([0, 0, 1], [0.4, None, None], 0.4),  # an answer that nobody was sure of, either way
        ([0, -1], [0.3, 1.0], 0.3),
        ([], [], None),
    ],
)
def test_confidence_sums(groups: list[int], confidences: list[float | None], total: float | None) -> None:
    assert confidence_sum(groups, confidences) == (None if total is None else pytest.approx(total))


@pytest.mark.parametrize(
    ("confidences", "expected"),
    [([0.2, 0.4, 0.6], np.sqrt(0.08 / 3)), ([0.5, 0.5], 0.0), ([0.5, None], None), ([], None), ([0, 1], 0.5)],
)
def test_spreads(confidences: list[float | None], expected: float | None) -> None:
    assert spread(confidences) == (None if expected is None else pytest.approx(expected))


def test_everything_left_out_is_counted() -> None:
    pool = make_pool(["a", "b", "c"], [[0, 0], [-1, -1], [0, 1]], [[1, 1], [0, 0], [0, 1]],
                     [[0.4, 0.6], [0.9, 0.9], [None, None]])  # fmt: skip
    found = task_coherence(pool, [[0.1, 0.3], [0.2, None]])
    assert found.sums == [0.5]
    assert found.over_responses == [0.1, 0.0]
    assert found.over_analyses == [0.1]
    told = found.counts
    assert told["questions without a sum"] == 2
    assert told["questions with one answer"] == 1
    assert told["questions without a spread"] == 1
    assert told["analysed answers without a spread"] == 1
    assert found.summary()["share_above_1"].value == 0


def test_a_run_from_records_to_files(tmp_path: Path) -> None:
    simulated_run(tmp_path / "run", "rlcr", {"gsm8k": 30}, samples=4)
    votes = vote(tmp_path / "run")
    assert votes.tasks["gsm8k"].scaling.most == 4
    stored = json.loads((tmp_path / "run" / "voting.json").read_text())
    assert {curve["name"] for curve in stored["tasks"]["gsm8k"]} >= {"majority", "pass@N", "adaptive"}
    found = coherence(tmp_path / "run")["gsm8k"]
    assert (
        json.loads((tmp_path / "run" / "coherence.json").read_text())["tasks"]["gsm8k"]["sums"] == found.sums
    )
    by_answer = vote(tmp_path / "run", confidence="answer-probability")
    assert by_answer.confidence == "answer-probability"


def test_the_commands_print_what_they_write(tmp_path: Path) -> None:
    simulated_run(tmp_path / "run", "rlcr", {"gsm8k": 20}, samples=4)
    folder = str(tmp_path / "run")
    printed = {}
    for command in (["vote"], ["coherence"], ["select", "--precision", "0.6"]):
        done = CliRunner().invoke(app, [command[0], folder, *command[1:]])
        assert done.exit_code == 0, done.output
        printed[command[0]] = done.output
    assert "majority" in printed["vote"]
    assert "exactly" in printed["vote"]
    assert "within-question discrimination" in printed["vote"]
    assert "mean sum" in printed["coherence"]
    assert "chosen on half 1, checked on half 2" in printed["select"]
    done = CliRunner().invoke(app, ["vote", folder, "--json"])
    assert json.loads(done.output) == json.loads((tmp_path / "run" / "voting.json").read_text())


def test_answers_are_grouped_by_the_equality_that_graded_them(tmp_path: Path) -> None:
    records = [record("q", "t", sample=n, answer=answer) for n, answer in enumerate(["1/2", "0.5", "2"])]
    folder = write_run(tmp_path / "run", records, [problem("q", "?", "0.5")])
    assert read_pools(folder)["t"].group_QM.tolist() == [[0, 1, 2]]
    # As `rlcr rescore --verifier math` leaves it: the problems say exact still.
    run = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(run | {"graded": {"grading": "strict", "verifier": "math"}}))
    assert read_pools(folder)["t"].group_QM.tolist() == [[0, 0, 1]]


def test_a_run_with_one_sample_says_what_is_missing(tmp_path: Path) -> None:
    simulated_run(tmp_path / "run", "rlcr", {"gsm8k": 5})
    with pytest.raises(RlcrError, match="one sample of each question"):
        vote(tmp_path / "run")


def test_an_unfinished_run_and_an_unknown_column_are_refused(tmp_path: Path) -> None:
    simulated_run(tmp_path / "run", "rlcr", {"gsm8k": 5}, samples=3)
    with pytest.raises(RlcrError, match="gsm8k: --most 9, but nine in ten questions have at most 3 samples"):
        vote(tmp_path / "run", most=9)
    with pytest.raises(RlcrError, match="no confidence column"):
        vote(tmp_path / "run", confidence="nonsense")
    lines = (tmp_path / "run" / "records.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "run" / "records.jsonl").write_text("".join(lines[:-1]))
    with pytest.raises(RlcrError, match="unfinished"):
        coherence(tmp_path / "run")


# --- selective answering ----------------------------------------------------------------------------


def test_a_threshold_that_keeps_its_promise() -> None:
    rng = np.random.default_rng(0)
    confidence = np.round(rng.random(4000), 2)
    verdicts = ["correct" if hit else "wrong" for hit in rng.random(4000) < confidence]
    found = task_selection([str(n) for n in range(4000)], verdicts, confidence, 0.9)
    for check in found.checks:
        # Calibrated and uniform: from t on, (1 + t) / 2 are right, so that 0.9 takes t = 0.8.
        assert check.threshold.value == pytest.approx(0.8, abs=0.04)
        assert check.precision.value == pytest.approx(0.9, abs=0.03)
        assert check.coverage.value == pytest.approx(0.2, abs=0.04)
        low, value, high = check.threshold.low or 1, check.threshold.value or 0, check.threshold.high or 0
        assert low <= value <= high
        assert "broken" not in check.verdict(0.9)


def test_few_answers_that_are_all_right_prove_little() -> None:
    # Of each half one answer is sure, and right; the others are hesitant and wrong.
    ids = [str(n) for n in range(40)]
    sure = {str(half[0]) for half in halves(ids)}
    right = np.array([name in sure for name in ids])
    verdicts = ["correct" if hit else "wrong" for hit in right]
    for check in task_selection(ids, verdicts, np.where(right, 0.9, 0.1), 0.9).checks:
        assert (check.precision.value, check.answers, check.answered_questions) == (1, 1, 1)
        assert (check.precision.low or 1) < 0.21
        assert check.verdict(0.9).endswith("of 1 answers to 1 questions, coverage 0.050: too few to tell")
    # Many are enough, and those of one question are one.
    for questions, told in ((200, "holds"), (4, "too few to tell")):
        names = [str(n % questions) for n in range(200)]
        found = task_selection(names, ["correct"] * 200, np.full(200, 0.9), 0.9)
        assert all(check.verdict(0.9).endswith(told) for check in found.checks)


def test_a_promise_is_only_held_by_the_whole_interval() -> None:
    told = Estimate(0.8, 0.7, 0.9)
    verdicts = [
        Check(told, Estimate(value, value - 0.05, value + 0.05), told, 50, 40, 30)
        .verdict(0.9)
        .split(": ")[-1]
        for value in (0.96, 0.92, 0.88, 0.8)
    ]
    assert verdicts == ["holds", "kept on average", "just missed", "broken"]


def test_a_task_of_which_nothing_can_be_told_does_not_hide_the_others(tmp_path: Path) -> None:
    records = [record(str(n), "t") for n in range(10)] + [record("alone", "small")]
    write_run(tmp_path / "run", records, [problem(r["id"], "?", "42") for r in records])
    found = select(tmp_path / "run", 0.9)
    assert list(found.tasks) == ["t"]
    assert "two scored questions" in found.left_out["small"]
    write_run(tmp_path / "one", records[-1:], [problem("alone", "?", "42")])
    with pytest.raises(RlcrError, match="one: small: choosing on one half needs"):
        select(tmp_path / "one", 0.9)


def test_a_promise_that_nothing_can_keep() -> None:
    verdicts = ["wrong"] * 10
    found = task_selection([str(n) for n in range(10)], verdicts, np.full(10, 0.9), 0.9)
    assert found.checks[0].threshold.value is None
    assert found.checks[0].verdict(0.9) == "no confidence reaches 90% on the half that chooses"


def test_missing_confidences_are_never_answered_and_unscorable_ones_left_out(tmp_path: Path) -> None:
    records = [
        record(
            str(n), "t", confidence=None if n % 4 == 0 else 0.9, verdict="unscorable" if n == 1 else "correct"
        )
        for n in range(24)
    ]
    write_run(tmp_path / "run", records, [problem(str(n), "?", "42") for n in range(24)])
    found = select(tmp_path / "run", 0.9).tasks["t"]
    assert found.counts == {"answers": 24, "unscorable": 1, "without confidence": 6}
    assert sum(check.coverage.value or 0 for check in found.checks) / 2 == pytest.approx(17 / 23, abs=0.02)
    assert (
        json.loads((tmp_path / "run" / "selective.json").read_text())["tasks"]["t"]["counts"] == found.counts
    )
    with pytest.raises(RlcrError, match="above 0 and at most 1"):
        select(tmp_path / "run", 90)


# --- the mean of several analyses -------------------------------------------------------------------


def test_the_mean_of_k_equals_counting_all_subsets() -> None:
    rng = np.random.default_rng(1)
    confidences = np.round(rng.random((12, 5)), 1)
    correct = rng.integers(0, 2, 12).tolist()
    names = [str(n // 2) for n in range(12)]
    curves, counts = ensemble(names, correct, confidences.tolist(), resamples=20)
    brier, ece = curves
    for k in range(1, 6):
        means = np.array(
            [[row[list(some)].mean() for some in combinations(range(5), k)] for row in confidences]
        )
        assert brier["value"][k - 1] == pytest.approx(((means - np.array(correct)[:, None]) ** 2).mean())
    whole = np.round(confidences.mean(axis=1), 9)
    assert ece["value"][-1] == pytest.approx(metrics.ece(correct, whole))
    assert brier["value"] == sorted(brier["value"], reverse=True)
    assert counts == {
        "answers": 12,
        "analyses": 60,
        "without confidence": 0,
        "answers with fewer analyses": 0,
    }


def test_curves_of_analyses_go_as_far_as_nine_in_ten_answers_do() -> None:
    (brier, _), counts = ensemble(
        [str(n) for n in range(10)], [1, 0] * 5, [[0.5], *[[0.5, 0.6, 0.7]] * 9], resamples=5
    )
    assert brier["n"] == [1, 2, 3]
    assert counts["answers with fewer analyses"] == 1


def test_analyses_without_confidence_are_counted() -> None:
    curves, counts = ensemble(["a", "b"], [1, 0], [[None, None], [None]], resamples=5)
    assert curves == []
    assert counts["without confidence"] == 3
    assert counts["answers with fewer analyses"] == 2
