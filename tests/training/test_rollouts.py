"""Rollouts on disk: whole files, read back as they were."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rlcr.errors import RlcrError
from rlcr.problem import Problem
from rlcr.response import get_format, parse
from rlcr.reward import Reward, RewardParts, Scored, get_reward
from rlcr.training.rollouts import Rollout, RolloutLog, read_rollouts, rollouts_of
from rlcr.verify import Verdict

PROBLEM = Problem("france", "Capital of France?", ("Paris",), "exact")


def respond(answer: str, confidence: str = "0.8") -> str:
    return get_format("rlcr").render(think="…", answer=answer, analysis="?", confidence=confidence)


def some_rollouts(update: int = 1) -> list[Rollout]:
    texts = [respond("Paris"), respond("Rome", "0.25"), "no tags, a lone surrogate \ud800 and 日本 🎲\n"]
    scored = get_reward("rlcr").score(texts, [PROBLEM] * 3)
    return rollouts_of(update, [PROBLEM] * 3, [0, 1, 2], scored, [10, 11, 1536], [False, False, True])


def test_what_a_rollout_holds() -> None:
    right, wrong, malformed = some_rollouts(7)
    assert right == Rollout(
        update=7,
        problem="france",
        sample=0,
        text=respond("Paris"),
        answer="Paris",
        confidence=0.8,
        verdict="correct",
        well_formed=True,
        fault="",
        parts={"format": 1.0, "correctness": 1.0, "calibration": pytest.approx(-0.04)},  # pyright: ignore
        reward=pytest.approx(0.98),  # pyright: ignore
        tokens=10,
        truncated=False,
    )
    assert (wrong.verdict, wrong.answer, wrong.sample) == ("wrong", "Rome", 1)
    assert (malformed.answer, malformed.confidence, malformed.verdict) == (None, None, "wrong")
    assert malformed.fault == "missing <think>"
    assert malformed.reward == -0.5
    assert malformed.truncated


def rollout_with(reward: Reward, text: str, verdict: Verdict) -> Rollout:
    response = parse(text, reward.format)
    scored = Scored([response], [verdict], reward.reward([response], [verdict]))
    (rollout,) = rollouts_of(1, [PROBLEM], [0], scored, [5], [False])
    return rollout


def test_unscorable_means_no_reward() -> None:
    rollout = rollout_with(get_reward("rlcr"), respond("Paris"), Verdict("unscorable", "judge is silent"))
    assert (rollout.verdict, rollout.reward, rollout.reason) == ("unscorable", None, "judge is silent")


def test_an_abstention_is_scored_though_nobody_could_check_it() -> None:
    text = get_format("rlvr").render(think="", answer="I don't know")
    rollout = rollout_with(get_reward("abstention"), text, Verdict("unscorable"))
    assert (rollout.verdict, rollout.reward) == ("wrong", 0.75)


def test_a_reward_without_parts() -> None:
    response = parse(respond("Paris"))
    parts = RewardParts({}, np.zeros(1), np.ones(1, bool))
    (rollout,) = rollouts_of(1, [PROBLEM], [0], Scored([response], [Verdict("correct")], parts), [5], [False])
    assert rollout.parts == {}


def test_columns_of_different_length_are_refused() -> None:
    scored = get_reward("rlcr").score([respond("Paris")], [PROBLEM])
    with pytest.raises(ValueError, match="argument"):
        rollouts_of(1, [PROBLEM], [0], scored, [10, 11], [False])


def test_read_back_as_written(tmp_path: Path) -> None:
    log = RolloutLog(tmp_path / "rollouts")
    first, second = some_rollouts(1), some_rollouts(2)
    assert log.write(1, first).name == "update-000001.jsonl.gz"
    log.write(2, second)
    assert list(read_rollouts(log.folder)) == first + second
    assert list(read_rollouts(log.folder, 2)) == second
    assert log.write(3, []).exists()
    assert list(read_rollouts(log.folder, 3)) == []


def test_the_same_rollouts_are_the_same_bytes(tmp_path: Path) -> None:
    one, two = (RolloutLog(tmp_path / name).write(1, some_rollouts()) for name in "ab")
    assert one.read_bytes() == two.read_bytes()


def test_order_beyond_six_digits(tmp_path: Path) -> None:
    log = RolloutLog(tmp_path)
    for update in (1_000_000, 999_999):
        log.write(update, [replace(some_rollouts()[0], update=update)])
    assert [rollout.update for rollout in read_rollouts(tmp_path)] == [999_999, 1_000_000]


def test_drop_after(tmp_path: Path) -> None:
    log = RolloutLog(tmp_path / "rollouts")
    log.drop_after(0)  # nothing there yet
    for update in range(1, 5):
        log.write(update, some_rollouts(update))
    (log.folder / ".update-000005.jsonl.gz.0a1b2c3d.partial").write_bytes(b"half")
    (log.folder / "notes.txt").write_text("mine")
    log.drop_after(2)
    assert sorted(path.name for path in log.folder.iterdir()) == [
        "notes.txt",
        "update-000001.jsonl.gz",
        "update-000002.jsonl.gz",
    ]


def test_bad_files(tmp_path: Path) -> None:
    with pytest.raises(RlcrError, match="no rollouts here"):
        read_rollouts(tmp_path)
    path = RolloutLog(tmp_path).write(3, some_rollouts(3))
    with pytest.raises(RlcrError, match="no update 4; there are 3 to 3"):
        read_rollouts(tmp_path, 4)
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"not gzip", whole[:20] + b"\xff" * 20 + whole[40:]):
        path.write_bytes(damaged)
        with pytest.raises(RlcrError, match=r"update-000003\.jsonl\.gz.*(cannot be read|not a rollout)"):
            list(read_rollouts(tmp_path))
    for line in ("{", "[]", json.dumps({"update": 3}), "\n"):
        path.write_bytes(gzip.compress(line.encode()))
        with pytest.raises(RlcrError, match="line 1: not a rollout"):
            list(read_rollouts(tmp_path))


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RlcrError, match="cannot be written"):
        RolloutLog(tmp_path / "file" / "rollouts").write(1, some_rollouts())
