"""The measurements of an update against slow obvious code, and their file."""

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, roc_auc_score
from tests.counting import calls_of

from rlcr.errors import RlcrError
from rlcr.training.measurements import UpdateLog, measure_update, read_updates
from rlcr.training.rollouts import Rollout

ANSWERS = ["Paris", "", "-1", "I don't know.", "1", "I do not know", "i know", "-1.0"]
ABSTENTIONS = {"-1", "I don't know.", "I do not know"}


def random_rollouts(seed: int, n: int, *, confidence: bool = True, unscorable: float = 0.1) -> list[Rollout]:
    rng = np.random.default_rng(seed)
    rollouts = []
    for i in range(n):
        well_formed = bool(rng.random() < 0.8)
        correct = well_formed and rng.random() < 0.4
        scorable = not well_formed or rng.random() >= unscorable
        stated = round(float(rng.random()), int(rng.integers(1, 3))) if confidence and well_formed else None
        parts = {"format": float(well_formed), "correctness": float(correct)}
        if confidence:
            parts["calibration"] = -((stated - correct) ** 2) if stated is not None else -1.0
        rollouts.append(
            Rollout(
                update=1,
                problem=f"p{i // 4}",
                sample=i % 4,
                text="…",
                answer=str(rng.choice(ANSWERS)) if well_formed else None,
                confidence=stated,
                verdict="unscorable" if not scorable else "correct" if correct else "wrong",
                reason="" if scorable else "gold does not parse",
                well_formed=well_formed,
                fault="" if well_formed else "missing <think>",
                parts=parts if scorable else dict.fromkeys(parts, 0.0),
                # Few values, so that whole groups are equal now and then.
                reward=float(correct) if scorable else None,
                tokens=int(rng.integers(1, 100)),
                truncated=bool(rng.random() < 0.2),
            )
        )
    return rollouts


def mean(values: list[Any]) -> float | None:
    return sum(values) / len(values) if values else None


def slow_measure(rollouts: list[Rollout], group: int) -> dict[str, Any]:
    scorable = [r for r in rollouts if r.verdict != "unscorable"]
    rated = [r for r in scorable if r.well_formed and r.confidence is not None]
    stated = [r.confidence for r in rollouts if r.confidence is not None]
    correct = [int(r.verdict == "correct") for r in rated]
    q = [r.confidence for r in rated if r.confidence is not None]
    reward = mean([r.reward for r in scorable])

    edges = np.linspace(0, 1, 11)
    ece = 0.0
    for low, high in itertools.pairwise(edges):
        inside = [i for i, x in enumerate(q) if low <= x < high or (high == 1 and x == 1)]
        if inside:
            gap = sum(q[i] for i in inside) - sum(correct[i] for i in inside)
            ece += abs(gap) / len(q)

    silent = 0
    for start in range(0, len(rollouts), group):
        rewards = {r.reward for r in rollouts[start : start + group]} - {None}
        silent += len(rewards) <= 1

    top = max(sorted(set(stated)), key=stated.count, default=None)
    stated_mean = mean(stated)
    return {
        "reward": reward,
        "reward_std": None
        if reward is None
        else math.sqrt(mean([((r.reward or 0.0) - reward) ** 2 for r in scorable]) or 0.0),
        "parts": {name: mean([r.parts[name] for r in scorable]) for name in rollouts[0].parts},
        "accuracy": mean([r.verdict == "correct" for r in scorable]),
        "brier": brier_score_loss(correct, q) if rated else None,
        "ece": ece if rated else None,
        "auroc": roc_auc_score(correct, q) if len(set(correct)) == 2 else None,
        "confidence_mean": stated_mean,
        "confidence_std": None
        if stated_mean is None
        else math.sqrt(mean([(x - stated_mean) ** 2 for x in stated]) or 0.0),
        "distinct_confidences": len(set(stated)),
        "top_confidence": top,
        "top_confidence_share": None if top is None else stated.count(top) / len(stated),
        "well_formed": mean([r.well_formed for r in rollouts]),
        "completions": len(rollouts),
        "unscorable": len(rollouts) - len(scorable),
        "unscorable_reason": "gold does not parse" if len(scorable) < len(rollouts) else None,
        "abstained": mean([r.answer in ABSTENTIONS for r in rollouts]),
        "empty_answers": mean([r.answer == "" for r in rollouts]),
        "zero_variance_groups": silent / (len(rollouts) // group),
        "tokens_mean": mean([r.tokens for r in rollouts]),
        "tokens_max": max(r.tokens for r in rollouts),
        "truncated": mean([r.truncated for r in rollouts]),
    }


def check(rollouts: list[Rollout], group: int) -> dict[str, Any]:
    measured = measure_update(rollouts, group, "-1")
    expected = slow_measure(rollouts, group)
    assert list(measured["parts"]) == list(expected["parts"])
    assert measured.pop("parts") == pytest.approx(expected.pop("parts"), abs=1e-12)
    assert set(measured) == set(expected)
    assert measured == pytest.approx(expected, abs=1e-12)
    json.dumps(measured, allow_nan=False)
    return measured


@pytest.mark.parametrize("seed", range(40))
def test_against_slow_code(seed: int) -> None:
    rng = np.random.default_rng(seed)
    group = int(rng.integers(1, 9))
    n = group * int(rng.integers(1, 30))
    unscorable = float(rng.choice([0.0, 0.1, 1.0]))
    check(random_rollouts(seed, n, confidence=seed % 4 != 0, unscorable=unscorable), group)


def test_nothing_scorable_and_nothing_stated() -> None:
    unscorable = [r for r in random_rollouts(1, 60, confidence=False, unscorable=1.0) if r.well_formed][:8]
    measured = check(unscorable, 4)
    for key in (
        "reward",
        "reward_std",
        "accuracy",
        "brier",
        "ece",
        "auroc",
        "confidence_std",
        "top_confidence",
    ):
        assert measured[key] is None
    assert measured["unscorable"] == 8
    assert measured["zero_variance_groups"] == 1.0


def test_one_class_has_no_auroc() -> None:
    wrong = [r for r in random_rollouts(2, 60) if r.verdict == "wrong"][:8]
    measured = check(wrong, 4)
    assert measured["auroc"] is None
    assert measured["brier"] is not None


def test_an_update_without_rollouts() -> None:
    measured = measure_update([], 4)
    json.dumps(measured, allow_nan=False)
    assert measured["reward"] is None
    assert measured["zero_variance_groups"] is None


def test_groups_that_do_not_come_out_even() -> None:
    with pytest.raises(RlcrError, match="6 rollouts cannot be cut into groups of 4"):
        measure_update(random_rollouts(0, 6), 4)


def test_what_a_task_lets_a_model_answer_instead_is_an_abstention_there_only() -> None:
    rollouts = random_rollouts(3, 64)
    instead = sum(rollout.answer == "-1" for rollout in rollouts)
    assert instead
    shares = [measure_update(rollouts, 4, abstention)["abstained"] for abstention in ("-1", "")]
    assert shares[0] - shares[1] == pytest.approx(instead / 64)


def test_work_grows_with_the_rollouts_and_no_faster() -> None:
    small, large = random_rollouts(3, 2048), random_rollouts(3, 8192)
    calls = calls_of(lambda: measure_update(small, 32))
    assert calls < 10 * len(small)
    assert calls_of(lambda: measure_update(large, 32)) < 5 * calls


def test_the_file_of_updates(tmp_path: Path) -> None:
    path = tmp_path / "updates.jsonl"
    log = UpdateLog(path)
    assert read_updates(path) == []
    log.drop_after(0)
    assert not path.exists()
    for update in range(1, 5):
        log.append(
            {"update": update, "loss": math.nan if update == 2 else 0.5, "parts": {"format": math.inf}}
        )
        assert len(path.read_text().splitlines()) == update
    assert read_updates(path)[1] == {"update": 2, "loss": None, "parts": {"format": None}}

    with open(path, "ab") as file:
        file.write('{"update": 5, "é'.encode()[:-1])
    assert [line["update"] for line in read_updates(path)] == [1, 2, 3, 4]
    log.drop_after(5)
    assert path.read_bytes().endswith(b"}\n")
    log.drop_after(3)
    log.append({"update": 4})
    assert [line["update"] for line in read_updates(path)] == [1, 2, 3, 4]
    assert list(tmp_path.iterdir()) == [path]


def test_measurements_come_back_exactly(tmp_path: Path) -> None:
    line = {"update": 1, **measure_update(random_rollouts(5, 64), 8)}
    UpdateLog(tmp_path / "updates.jsonl").append(line)
    assert read_updates(tmp_path / "updates.jsonl") == [line]


@pytest.mark.parametrize("line", ["{", "[]", '{"loss": 1}', "3", '{"update": null}', ""])
def test_a_line_that_is_not_an_update(tmp_path: Path, line: str) -> None:
    path = tmp_path / "updates.jsonl"
    path.write_text(f'{{"update": 1}}\n{line}\n{{"update": 3}}\n')
    with pytest.raises(RlcrError, match="updates.jsonl, line 2: damaged: not .*; --resume leaves it out"):
        read_updates(path)
