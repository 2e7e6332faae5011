"""Agreement, hybrid, recalibration: values by hand, and no row judged by itself."""

from pathlib import Path

import numpy as np
import pytest
from tests.confidence.colour_runs import colour_run, raw, write_run

from rlcr import metrics
from rlcr.confidence.agreement import agreement
from rlcr.confidence.comparison import compare_columns
from rlcr.confidence.rows import folds_of, read_rows
from rlcr.confidence.sources import Options, add_column
from rlcr.errors import RlcrError
from rlcr.many.equivalence import group_many
from rlcr.metrics.recalibration import fit_recalibration
from rlcr.problem import Problem
from rlcr.runs.columns import read_column, write_column


def answers(folder: Path, texts: list[str], verifier: str = "math") -> Path:
    records = [
        raw("a", n, f"<think></think><answer>{t}</answer><confidence>0.5</confidence>")
        for n, t in enumerate(texts)
    ]
    return write_run(folder, records, [Problem("a", "?", ("1/2",), verifier)])


def test_agreement_counts_equal_answers_not_equal_strings(tmp_path: Path) -> None:
    folder = answers(tmp_path / "run", ["0.5", r"\frac{1}{2}", "3", ""])
    assert list(agreement(read_rows(folder)).values()) == [0.5, 0.5, 0.25, 0.0]


def test_agreement_needs_two_samples(tmp_path: Path) -> None:
    with pytest.raises(RlcrError, match="one sample of each question"):
        add_column(answers(tmp_path / "run", ["1"]), "agreement")


def test_groups_by_the_tasks_own_equality() -> None:
    choices = Problem("c", "?", ("A",), "choice", extras={"choices": {"A": "bank", "B": "mall"}})
    answers = ["A", "bank", "B) mall", "b", "else", "Else!", None]
    assert group_many([(choices, answers)]) == [[0, 0, 1, 1, 2, 2, -1]]
    assert group_many([(Problem("g", "?", ("x",), "gym"), ["The end", "end", "x"])]) == [[0, 0, 1]]


def test_the_hybrid_is_the_mean_unless_it_may_learn(tmp_path: Path) -> None:
    folder = colour_run(tmp_path / "run", 60, samples=4)
    add_column(folder, "hybrid")
    rows = read_rows(folder)
    stated, agreed = rows.column("verbalised"), rows.aligned(agreement(rows))
    assert rows.column("hybrid") == pytest.approx((stated + agreed) / 2)
    learned = add_column(folder, "hybrid", Options(train=folder), "learned")
    assert learned.provenance["folds"] == 5
    assert not np.isnan(rows.column("learned")).any()


def test_folds_keep_questions_together() -> None:
    questions = [f"q{n % 37}" for n in range(400)]
    folds = folds_of(questions, 5)
    for question in set(questions):
        assert len({int(f) for f, q in zip(folds, questions, strict=True) if q == question}) == 1
    assert np.bincount(folds).min() >= 60


@pytest.mark.parametrize("method", ["temperature", "platt", "isotonic"])
def test_recalibration_repairs_a_known_distortion(method: str) -> None:
    rng = np.random.default_rng(0)
    true = rng.random(20_000)
    correct = (rng.random(20_000) < true).astype(int)
    logits = np.log(true / (1 - true))
    stated = 1 / (1 + np.exp(-3 * logits))  # overconfident: a temperature of 3 undoes it
    ours = fit_recalibration(method, stated[:10_000], correct[:10_000]).predict_proba(stated[10_000:, None])[
        :, 1
    ]
    best = metrics.brier(correct[10_000:], true[10_000:])
    assert metrics.brier(correct[10_000:], ours) == pytest.approx(best, abs=0.003)
    assert metrics.ece(correct[10_000:], ours) < 0.03 < metrics.ece(correct[10_000:], stated[10_000:])


def test_a_temperature_never_turns_the_order_round() -> None:
    stated, correct = np.array([0.1, 0.2, 0.8, 0.9]), np.array([1, 1, 0, 0])
    assert (
        fit_recalibration("temperature", stated, correct).predict_proba(stated[:, None])[:, 1].tolist()
        == [0.5] * 4
    )


def test_no_row_is_calibrated_by_itself(tmp_path: Path) -> None:
    """Isotonic steps through every point when it sees it: in-sample the random confidences would look informed."""
    folder = colour_run(tmp_path / "run", 300, shuffled=True)
    rows = read_rows(folder)
    stated = rows.column("verbalised")
    cheating = fit_recalibration("isotonic", stated, rows.verdict).predict_proba(stated[:, None])[:, 1]
    add_column(folder, "isotonic")
    ours = rows.column("isotonic")
    found = metrics.summary(rows.verdict, ours, question=rows.questions).metrics["auroc"]
    assert (metrics.auroc(rows.verdict, cheating) or 0) > 0.52
    assert found.low is not None
    assert found.high is not None
    assert found.low <= 0.5 <= found.high


@pytest.mark.parametrize(
    ("verdicts", "message"),
    [
        (["yes"] * 60, "one class only"),
        (["yes", "no"] * 5, "too few"),
        (["yes"] * 58 + ["no"] * 2, "too few"),
    ],
)
def test_recalibration_refuses_with_a_reason(tmp_path: Path, verdicts: list[str], message: str) -> None:
    records = [
        raw(f"q{n}", 0, f"<answer>{a}</answer><confidence>0.5</confidence>") for n, a in enumerate(verdicts)
    ]
    problems = [Problem(r.id, f"{r.id}?", ("yes",), "exact") for r in records]
    with pytest.raises(RlcrError, match=message):
        add_column(write_run(tmp_path / "run", records, problems), "platt")


def test_rows_of_questions_that_were_learned_from_get_no_confidence(tmp_path: Path) -> None:
    train, test = colour_run(tmp_path / "train", 60, seed=1), colour_run(tmp_path / "test", 60, seed=2)
    records = (train / "records.jsonl").read_text().splitlines(keepends=True)
    problems = (train / "problems.jsonl").read_text().splitlines(keepends=True)
    # One question of the training run under another id: its text gives it away.
    for name, lines in (("records.jsonl", records[:2]), ("problems.jsonl", problems[:1])):
        with open(test / name, "a") as file:
            file.writelines(line.replace("words/1-0", "words/new") for line in lines)
    run = (test / "run.json").read_text()
    (test / "run.json").write_text(run.replace('"size": 60', '"size": 61'))
    made = add_column(test, "platt", Options(train=train)).provenance
    assert made["left_out"] == 2
    column = read_column(test, "platt")
    assert [key for key, value in column.items() if value is None] == [("words/new", 0), ("words/new", 1)]
    with pytest.raises(RlcrError, match="every question was also trained on"):
        add_column(_copy(train, tmp_path / "copy"), "platt", Options(train=train))


def _copy(folder: Path, to: Path) -> Path:
    import shutil

    return Path(shutil.copytree(folder, to))


def test_comparison_of_columns(tmp_path: Path) -> None:
    folder = colour_run(tmp_path / "run", 40, samples=4)
    rows = read_rows(folder)
    right = dict(zip(rows.keys, rows.verdict.astype(float).tolist(), strict=True))
    half = {key: value if n % 2 else None for n, (key, value) in enumerate(right.items())}
    write_column(folder, "half", half, {"source": "test", "cost": {"passes": 10, "tokens": 70}})
    found = compare_columns(folder, resamples=50)
    names = [result.name for result in found.tasks["words"]]
    assert names == ["verbalised", "answer-probability", "half"]
    oracle = found.tasks["words"][-1]
    assert (oracle.rows, oracle.coverage) == (80, 0.5)
    assert oracle.metrics["brier"].value == 0
    assert oracle.metrics["auroc"].value == oracle.metrics["within"].value == 1
    less = oracle.minus_verbalised
    assert less is not None
    rated = np.array([half[key] is not None for key in rows.keys])
    stated = rows.column("verbalised")
    assert less["brier"].value == pytest.approx(-metrics.brier(rows.verdict[rated], stated[rated]))
    assert less["brier"].high < 0  # pyright: ignore[reportOptionalOperand]
    assert (folder / "columns.json").exists()
