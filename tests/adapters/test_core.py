"""The core: the same numbers as the reward, and no completion that makes it raise."""

import asyncio
import itertools
import json
import logging
import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

import rlcr
from rlcr.adapters import core
from rlcr.adapters.core import Row, Scorer
from rlcr.adapters.texts import completion_text, without_special
from rlcr.errors import RlcrError


def text(answer: str, confidence: str = "0.8", think: str = "…") -> str:
    parts = {"think": think, "answer": answer, "analysis": "…", "confidence": confidence}
    return rlcr.FORMATS["rlcr"].render(**parts)


RIGHT, WRONG, MALFORMED = text("Paris"), text("Rome", "0.9"), "Paris"


def test_totals_are_those_of_the_reward() -> None:
    rows = [Row(one, "Paris") for one in (RIGHT, WRONG, MALFORMED)]
    found = Scorer().score(rows)
    assert [one.total for one in found] == pytest.approx([0.98, 0.095, -0.5], abs=1e-12)
    assert [one.correct for one in found] == [True, False, False]
    assert [one.confidence for one in found] == [0.8, 0.9, None]
    assert [one.well_formed for one in found] == [True, True, False]
    assert found[2].reason == "missing <think>"
    assert found[0].parts == {"format": 1.0, "correctness": 1.0, "calibration": pytest.approx(-0.04)}


@pytest.mark.parametrize("name", list(rlcr.REWARDS))
def test_every_reward(name: str) -> None:
    scorer, reward = Scorer(reward=name), rlcr.get_reward(name)
    texts = [
        reward_text
        for answer in ("Paris", "Rome", "I don't know")
        for reward_text in (text(answer), rlcr.FORMATS["rlvr"].render(think="…", answer=answer))
    ]
    problem = rlcr.Problem("1", "", ("Paris",), "exact")
    expected = reward.score(texts, [problem] * len(texts)).rewards.totals()
    assert [one.total for one in scorer.score([Row(one, "Paris") for one in texts])] == expected
    assert scorer.parts == tuple(reward.weights)


class Failing:
    """An object of an engine that fails when it is read."""

    def __getattr__(self, name: str) -> object:
        raise RuntimeError(f"no {name} any more")


def nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "completion",
    [
        None,
        math.nan,
        Failing(),
        nested(100_000),
        {"role": "assistant", "content": "", "reasoning": {"effort": "high"}},
        3.5,
        True,
        b"<think>",
        [],
        {},
        [{"role": "tool", "content": "4"}],
        [math.nan],
        {"role": "assistant", "content": math.nan},
        {"role": "assistant", "content": 4},
        object(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_text_is_unscorable(completion: object) -> None:
    found = Scorer().score_one(completion, "Paris")
    assert (found.total, found.scorable, found.correct) == (None, False, None)
    assert found.reason.startswith("the completion")
    assert all(math.isfinite(value) for value in found.parts.values())
    (record,) = Scorer().grade([Row(completion, "Paris")])
    assert (record.verdict, record.reason) == ("unscorable", found.reason)


@pytest.mark.parametrize(
    "completion",
    [
        "",
        "nan",
        "\ud800 half a character",
        {"role": "assistant", "content": None},
        "<think>" * 150_000,
        "x" * 1_000_000,
        "<|im_end|>" * 100_000,
        " " * 1_000_000,
        text("Paris", "nan"),
        text("Paris", "1" * 1_000_000),
    ],
    ids=lambda value: str(value)[:12],
)
def test_what_a_model_may_write_is_malformed(completion: object) -> None:
    assert Scorer().score_one(completion, "Paris").total == -0.5


def test_a_long_answer_is_wrong() -> None:
    assert Scorer(verifier="math").score_one(text("9" * 1_000_000), "4").correct is False


@pytest.mark.parametrize("gold", [None, math.nan, {"a": 1}, True, [None]])
def test_a_broken_gold_is_unscorable_but_malformed_is_malformed(gold: object) -> None:
    right, malformed = Scorer().score([Row(RIGHT, gold), Row(MALFORMED, gold)])
    assert right.total is None
    assert right.reason.startswith("as gold expected a text")
    assert (malformed.total, malformed.correct) == (-0.5, False)


@pytest.mark.parametrize("broken", [Failing(), nested(100_000), 10**6000], ids=["fails", "deep", "large"])
def test_what_cannot_be_read_of_a_row_is_unscorable(broken: object) -> None:
    scorer = Scorer(verifier="choice")
    rows = [Row(RIGHT, broken), Row(RIGHT, "A", extras={"choices": broken}), Row(RIGHT, "A", extras=broken)]
    for found in scorer.score(rows):
        assert (found.scorable, found.total) == (False, None)
        assert found.reason


def test_settings_of_a_row_that_are_none_raise() -> None:
    """What names the rule is a mistake of whoever set the run up, and must not pass for one of the model."""
    good = Row(RIGHT, "Paris")
    with pytest.raises(RlcrError, match="^row 1: unknown verifier nan: known: exact"):
        Scorer().score([good, Row(RIGHT, "Paris", verifier=math.nan)])  # pyright: ignore[reportArgumentType]
    with pytest.raises(
        RlcrError, match=r"^row 0 \(q7\): think_open: expected true or false, found str 'false'"
    ):
        Scorer().grade([Row.of(RIGHT, "Paris", {"think_open": "false", "id": "q7"}), good])
    rows = [
        Row(RIGHT, "Paris", verifier=""),
        Row.of(RIGHT, "Paris", {"question": np.array(["a", "b"]), "id": 0, "think_open": np.bool_(False)}),
    ]
    assert [one.total for one in Scorer().score(rows)] == [0.98, 0.98]
    assert rows[1].id == "0"


def test_the_policy_for_what_is_unscorable(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "_count", itertools.count(1))
    with caplog.at_level(logging.WARNING, logger="rlcr.adapters.core"):
        for _ in range(12):
            assert Scorer(unscorable=-0.25).score_one(RIGHT, "").total == -0.25
    assert [record.message for record in caplog.records] == [
        "1 unscorable so far, given -0.25; the last one: the problem has no gold",
        "10 unscorable so far, given -0.25; the last one: the problem has no gold",
    ]
    assert Scorer().score_one(RIGHT, "").to_dict() == {
        "reward": None, "format": 1.0, "correctness": 0.0, "calibration": 0.0,
        "correct": None, "confidence": 0.8, "unscorable": 1.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reward": "rlc"}, "unknown reward 'rlc': did you mean rlcr?"),
        ({"verifier": "maths"}, "unknown verifier 'maths': did you mean math?"),
        ({"verifer": "math"}, "unknown setting 'verifer': did you mean verifier?"),
        ({"unscorable": "drop"}, 'unscorable: expected "exclude" or a finite number'),
        ({"unscorable": math.nan}, 'unscorable: expected "exclude" or a finite number'),
        ({"unscorable": True}, 'unscorable: expected "exclude" or a finite number'),
        ({"special_tokens": "<end>"}, "special_tokens is a list of texts"),
        ({"weights": {"calibraton": 1.0}}, "has no part 'calibraton'"),
    ],
)
def test_mistakes_in_the_settings_raise(settings: dict[str, object], message: str) -> None:
    with pytest.raises(RlcrError, match=message):
        Scorer.of(settings)


def test_rows_have_their_own_verifier_choices_and_beginning() -> None:
    rows = [
        Row(text("1/2"), 0.5, verifier="math"),
        Row(text("library"), "B", verifier="choice", extras={"choices": ["bank", "library"]}),
        Row(text("B"), "B", verifier="choice", extras={"choices": {"A": "bank", "B": "library", "C": None}}),
        Row(text("B"), np.array(["B", "b"]), extras={"choices": json.dumps(["bank", "library"])}),
        Row(text("7").removeprefix("<think>"), np.int64(7), think_open=True),
        Row(text("10%"), "10", question="By what percent did it rise?", verifier="math"),
        Row(text("7"), "7", extras={"choices": "[not JSON"}),
    ]
    found = Scorer().score(rows)
    assert [one.correct for one in found] == [True] * 6 + [None]
    assert found[-1].reason.startswith("choices: expected options: a list")
    assert found[-1].reason.endswith("found str '[not JSON'")


def test_grading_is_that_of_rlcr_score() -> None:
    texts = [RIGHT, WRONG, MALFORMED, "<answer>Paris</answer><confidence>80%</confidence>", text("Paris", "")]
    records = Scorer().grade([Row(one + "<|im_end|>", "Paris", id=str(n)) for n, one in enumerate(texts)])
    expected = rlcr.score(texts, ["Paris"] * len(texts), resamples=0).records
    assert records == expected


def test_threads_coroutines_and_other_processes() -> None:
    scorer = pickle.loads(pickle.dumps(Scorer(verifier="math", weights={"format": 0.2})))
    rows = [Row(text(f"{n}/2"), n / 2) for n in range(12)]
    expected = [one.total for one in scorer.score(rows)]
    with ThreadPoolExecutor(6) as executor:
        assert list(executor.map(lambda row: scorer.score([row])[0].total, rows)) == expected

    async def together() -> list[float | None]:
        return [
            one.total
            for batch in await asyncio.gather(*(scorer.score_async([row]) for row in rows))
            for one in batch
        ]

    assert asyncio.run(together()) == expected


@pytest.mark.parametrize(
    "completion",
    [
        [{"role": "assistant", "content": RIGHT}],
        [{"role": "assistant", "content": ""}, {"role": "tool", "content": "x"}, {"role": "assistant", "content": RIGHT}],
        {"role": "assistant", "content": RIGHT.removeprefix("<think>…</think>"), "reasoning_content": "…"},
        {"role": "assistant", "content": RIGHT, "reasoning": "…"},
        {"content": [{"type": "reasoning", "reasoning": "…"}, {"type": "text", "text": RIGHT[len("<think>…</think>") :]}]},
        {"content": [{"type": "reasoning", "text": "…"}, {"type": "text", "text": RIGHT[len("<think>…</think>") :]}]},
        {"content": [{"text": "…", "thought": True}, {"text": RIGHT[len("<think>…</think>") :]}]},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "…"}]}, RIGHT[len("<think>…</think>") :]]},
        {"content": RIGHT[len("<think>…</think>") :], "reasoning_details": [{"type": "reasoning.text", "text": "…"}]},
        np.array([{"role": "assistant", "content": np.array([{"type": "text", "text": RIGHT}])}], dtype=object),
        np.array(RIGHT),
        SimpleNamespace(role="assistant", content=RIGHT[len("<think>…</think>") :], reasoning_content="…"),
        f"<s>{RIGHT}<|im_end|>\n<|endoftext|><|endoftext|>",
        f"{RIGHT}<｜end▁of▁sentence｜>",
        f"{RIGHT}</s><pad>[PAD]",
        f"{RIGHT}<end_of_turn>\n<stop here>",
    ],
)  # fmt: skip
def test_messages_thoughts_and_special_tokens(completion: object) -> None:
    assert Scorer(special_tokens=["<stop here>"]).score_one(completion, "Paris").total == 0.98


def test_what_stays_as_it_is() -> None:
    assert without_special("  4 \n") == "  4 \n"
    assert without_special("<think>a</think>") == "<think>a</think>"
    assert without_special("|>") == "|>"
    assert without_special("<|im_end|>") == ""
    assert completion_text({"content": "", "reasoning_content": "cut off"}) == "<think>cut off"


@pytest.mark.parametrize("gold", ["2", "library", "B"])
@pytest.mark.parametrize(
    "choices",
    [
        {"label": np.array(["1", "2"]), "text": np.array(["bank", "library"])},
        {"1": "bank", "2": "library"},
        "{'1': 'bank', '2': 'library'}",
    ],
)
def test_options_are_read_as_in_tasks(choices: object, gold: str) -> None:
    """Options that the data numbers get letters, as where a file of problems is built; so do their golds."""
    scorer = Scorer(verifier="choice")
    for answer, correct in (("B", True), ("library", True), ("A", False)):
        found = scorer.score_one(text(answer), gold, extras={"choices": choices})
        assert (found.correct, found.reason if correct else "") == (correct, "")
