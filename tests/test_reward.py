"""The reward: its worth for each kind of response, and that nothing but finite numbers leaves it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcr.errors import RlcrError
from rlcr.problem import Problem
from rlcr.response import FORMATS, TAGS, parse
from rlcr.reward import REWARDS, Reward, get_reward, group_advantages
from rlcr.scoring import BRIER, LOG
from rlcr.verify import Verdict

PROBLEM = Problem("1", "Capital of France?", ("Paris",), "exact")
RIGHT, WRONG, UNSCORABLE = Verdict("correct"), Verdict("wrong"), Verdict("unscorable", "no gold")


def write(answer: str, confidence: str, name: str = "rlcr") -> str:
    parts = {"think": "…", "answer": answer, "analysis": "…", "confidence": confidence}
    return FORMATS[name].render(**{tag: parts[tag] for tag in FORMATS[name].tags})


def totals(reward: Reward, *completions: str) -> list[float | None]:
    return reward.score(completions, [PROBLEM] * len(completions)).rewards.totals()


def test_the_order_of_worth_that_the_authors_weights_give() -> None:
    # The authors' numbers are 0, 0.5, 1, 1.5; ours lie half a point lower, which no group can notice.
    assert totals(
        get_reward("rlcr"),
        "Paris",
        write("Rome", "1"),
        write("Rome", "0"),
        write("Paris", "1"),
        write("Paris", "0"),
    ) == pytest.approx([-0.5, 0.0, 0.5, 1.0, 0.5])


@pytest.mark.parametrize(
    ("name", "malformed", "wrong_and_sure", "right_at_08"),
    [
        ("rlcr", -0.5, 0.0, 0.5 + 0.5 - 0.5 * 0.04),
        ("rlcr-log", 0.5 * np.log(0.001), 0.5 + 0.5 * np.log(0.001), 1 + 0.5 * np.log(0.8)),
        ("rlcr-spherical", 0.0, 0.5, 1 + 0.5 * 0.8 / np.sqrt(0.68)),
        ("calibration-only", -0.5, 0.0, 0.5 - 0.5 * 0.04),
    ],
)
def test_presets(name: str, malformed: float, wrong_and_sure: float, right_at_08: float) -> None:
    got = totals(get_reward(name), "Paris", write("Rome", "1"), write("Paris", "0.8"))
    assert got == pytest.approx([malformed, wrong_and_sure, right_at_08])


def test_rlvr_and_abstention() -> None:
    right, wrong, unsure = (write(answer, "", "rlvr") for answer in ("Paris", "Rome", "I don't know"))
    assert totals(get_reward("rlvr"), right, wrong, unsure, "?") == [1.0, 0.5, 0.5, 0.0]
    # Correctness 1, abstention 0.5 and wrong 0, each with weight 0.5, over half a point for the format.
    assert totals(get_reward("abstention"), right, wrong, unsure, "?") == [1.0, 0.5, 0.75, 0.0]


def test_malformed_is_worth_less_than_any_well_formed_response_under_every_reward() -> None:
    for name, reward in REWARDS.items():
        answers = [write(a, q, reward.format) for a in ("Paris", "Rome", "") for q in ("0", "0.5", "1")]
        malformed, *others = totals(reward, "", *answers)
        assert malformed is not None
        assert all(other is not None and other > malformed for other in others), name


def test_no_answer_is_wrong_and_a_malformed_response_is_never_unscorable() -> None:
    reward = get_reward("rlcr")
    scored = reward.score([write("", "0.5")], [PROBLEM])
    assert scored.verdicts[0].outcome == "wrong"
    assert scored.rewards.scorable.all()
    malformed = parse("no tags")
    assert reward.reward([malformed], [UNSCORABLE]).totals() == [-0.5]


def test_unscorable_has_no_reward() -> None:
    reward = get_reward("rlcr")
    response = parse(write("Paris", "0.9"))
    rewards = reward.reward([response, response, response], [RIGHT, UNSCORABLE, WRONG])
    assert rewards.totals() == pytest.approx([0.995, None, 0.5 - 0.5 * 0.81])
    advantages = group_advantages(rewards.total[None, :], rewards.scorable[None, :])
    np.testing.assert_allclose(advantages, [[0.45, 0, -0.45]])


def test_a_group_without_a_scorable_response_has_no_advantages() -> None:
    np.testing.assert_array_equal(
        group_advantages(np.ones((1, 3)), np.zeros((1, 3), dtype=bool)), np.zeros((1, 3))
    )


@pytest.mark.parametrize("size", [3, 6, 7, 12])
def test_equal_rewards_have_exactly_no_advantage(size: int) -> None:
    rewards = np.full((1, size + 1), 0.1)
    rewards[0, 0] = 5.0  # cannot be scored, so does not make a difference
    scorable = np.arange(size + 1)[None, :] > 0
    assert 0.1 - sum([0.1] * 6) / 6 != 0  # what rounding would leave
    np.testing.assert_array_equal(group_advantages(rewards, scorable), 0)


rewards_PG = st.lists(st.lists(st.floats(-10, 10), min_size=4, max_size=4), min_size=1, max_size=5).map(
    np.array
)


@given(rewards_PG=rewards_PG, seed=st.integers(0, 100))
def test_advantages_are_the_plain_loop(rewards_PG: np.ndarray, seed: int) -> None:
    scorable_PG = np.random.default_rng(seed).random(rewards_PG.shape) < 0.7
    got = group_advantages(rewards_PG, scorable_PG)
    for rewards, scorable, advantages in zip(rewards_PG, scorable_PG, got, strict=True):
        kept = [r for r, s in zip(rewards, scorable, strict=True) if s]
        mean = sum(kept) / len(kept) if kept else 0.0
        expected = [r - mean if s else 0.0 for r, s in zip(rewards, scorable, strict=True)]
        np.testing.assert_allclose(advantages, expected, atol=1e-12)


pieces = st.sampled_from(
    [f"<{slash}{tag}>" for tag in TAGS for slash in ("", "/")]
    + ["nan", "inf", "-inf", "1e309", "0.5", "0", "1", "1.7", "Paris", "\0", "٠.٥", " "]
)
completions = st.one_of(
    st.text(max_size=100),
    st.lists(pieces, max_size=20).map("".join),
    st.builds(write, st.text(max_size=10), st.one_of(pieces, st.floats().map(str))),
)


@settings(max_examples=300)
@given(
    text=completions, name=st.sampled_from(list(REWARDS)), verdict=st.sampled_from([RIGHT, WRONG, UNSCORABLE])
)
def test_no_input_makes_any_part_infinite_or_nan(text: str, name: str, verdict: Verdict) -> None:
    reward = REWARDS[name]
    rewards = reward.reward([parse(text, reward.format)], [verdict])
    assert np.isfinite(rewards.total).all()
    assert list(rewards.parts) == list(reward.weights)
    for values in rewards.parts.values():
        assert np.isfinite(values).all()


def test_each_problem_is_verified_by_its_own_verifier() -> None:
    half = Problem("2", "Half of one?", ("1/2",), "math")
    scored = get_reward("rlcr").score([write("the paris", "1"), write("0.5", "1")], [PROBLEM, half])
    assert [v.outcome for v in scored.verdicts] == ["correct", "correct"]


def test_an_empty_batch() -> None:
    assert totals(get_reward("rlcr")) == []


def test_bad_settings() -> None:
    with pytest.raises(RlcrError, match="did you mean rlcr-log"):
        get_reward("rlcr-lg")
    with pytest.raises(RlcrError, match="reward rlvr has no part 'calibration'"):
        get_reward("rlvr", weights={"calibration": 1})
    with pytest.raises(RlcrError, match="unknown reward part 'fromat': did you mean format"):
        Reward("rlcr", {"fromat": 1.0})
    with pytest.raises(RlcrError, match="finite number, got nan"):
        get_reward("rlcr", weights={"format": float("nan")})
    with pytest.raises(RlcrError, match="unbounded"):
        Reward("rlcr", {"calibration": 0.5}, LOG)
    with pytest.raises(RlcrError, match="needs a scoring rule"):
        Reward("rlcr", {"calibration": 0.5})
    with pytest.raises(RlcrError, match="format rlvr has no confidence"):
        Reward("rlvr", {"calibration": 0.5}, BRIER)
    with pytest.raises(RlcrError, match="2 completions for 1 problems"):
        get_reward("rlcr").score(["a", "b"], [PROBLEM])
