"""Adapters of engines that train, called as each engine calls them."""

import asyncio
import json
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.adapters.engines import adapter_of

import rlcr
from rlcr.adapters import openrlhf, trl, verl
from rlcr.errors import RlcrError


def text(answer: str, confidence: str = "0.8") -> str:
    return rlcr.FORMATS["rlcr"].render(think="…", answer=answer, analysis="…", confidence=confidence)


RIGHT, WRONG, MALFORMED = text("Paris"), text("Rome", "0.5"), "Paris"
TEXTS, TOTALS = [RIGHT, WRONG, MALFORMED], [0.98, 0.375, -0.5]


# --- TRL ---------------------------------------------------------------------------------------------


def trl_call(
    reward: trl.RewardFunction, completions: list[Any], **columns: Any
) -> tuple[list[float | None], dict]:
    logged: dict[str, float] = {}
    totals = reward(
        prompts=columns.pop("prompts", ["Capital of France?"] * len(completions)),
        completions=completions,
        completion_ids=[[1]] * len(completions),
        trainer_state=SimpleNamespace(global_step=0),
        log_extra=lambda name, values: None,
        log_metric=lambda name, value: logged.update({name: value}),
        **columns,
    )
    return totals, logged


def test_trl_gives_totals_and_logs_the_parts() -> None:
    reward = trl.make_reward(gold="answer")
    assert reward.__name__ == "rlcr"
    totals, logged = trl_call(reward, [*TEXTS, text("x")], answer=["Paris", "Paris", "Paris", ""])
    assert totals == [*TOTALS, None]
    assert logged == {
        "rlcr/reward": pytest.approx(sum(TOTALS) / 3),
        "rlcr/format": pytest.approx(2 / 3),
        "rlcr/correctness": pytest.approx(1 / 3),
        "rlcr/calibration": pytest.approx((-0.04 - 0.25 - 1) / 3),
        "rlcr/correct": pytest.approx(1 / 3),
        "rlcr/confidence": pytest.approx(0.65),
        "rlcr/unscorable": 0.25,
    }


def test_trl_passes_messages_choices_and_open_prompts() -> None:
    messages = [[{"role": "assistant", "content": one}] for one in TEXTS]
    assert trl_call(trl.make_reward(), messages, gold=["Paris"] * 3)[0] == TOTALS
    chosen = trl.make_reward(choices="options", verifier="choice")
    assert trl_call(chosen, [text("bank")], gold=["A"], options=[["bank", "mall"]])[0] == [0.98]
    opened = RIGHT.removeprefix("<think>")
    assert trl_call(trl.make_reward(), [opened], gold=["Paris"], prompts=["Capital?\n<think>\n"])[0] == [0.98]
    assert trl_call(trl.make_reward(), [opened], gold=["Paris"])[0] == [-0.5]


def test_trl_has_a_verifier_for_each_row_and_knows_its_columns() -> None:
    reward = trl.make_reward(verifier_column="by", choices="options", question="q")
    columns: dict[str, Any] = {
        "gold": ["0.5", "0.5", "A"],
        "by": ["math", None, "choice"],
        "q": ["?", None, "?"],
    }
    columns["options"] = [None, None, {"A": "1/2", "B": "2", "C": None}]
    assert trl_call(reward, [text("1/2")] * 3, **columns)[0] == pytest.approx([0.98, 0.18, 0.98])
    with pytest.raises(RlcrError, match=r"no column 'gold' \(gold\) in the data set: known: .*answer"):
        trl_call(trl.make_reward(), [RIGHT], answer=["Paris"])
    with pytest.raises(RlcrError, match=r"no column 'option' \(choices\) .* did you mean options"):
        trl_call(trl.make_reward(choices="option"), [RIGHT], gold=["Paris"], options=[None])


# --- verl --------------------------------------------------------------------------------------------


def test_verl_gives_the_same_keys_for_every_sample() -> None:
    found = [
        verl.compute_score(
            data_source="d", solution_str=one, ground_truth="Paris", extra_info={"num_turns": 2}
        )
        for one in [*TEXTS, math.nan, "x" * 1_000_000]
    ]
    assert [one["score"] for one in found] == [*TOTALS, 0.0, -0.5]
    assert {tuple(one) for one in found} == {
        ("score", "acc", "format", "correctness", "calibration", "confidence", "unscorable")
    }
    assert [one["acc"] for one in found] == [1.0, 0.0, 0.0, None, 0.0]
    assert [one["confidence"] for one in found] == [0.8, 0.5, None, None, None]
    numbers = [value for one in found for value in one.values() if value is not None]
    assert all(type(value) is float and math.isfinite(value) for value in numbers)


def test_verl_takes_settings_and_what_parquet_gives_back() -> None:
    settings: dict[str, Any] = {
        "reward": "rlcr",
        "weights": {"format": 0.0},
        "think_open": True,
        "verifier": "math",
    }
    score = verl.compute_score(
        "d", RIGHT.removeprefix("<think>"), np.array(["Paris"], dtype=object), None, **settings
    )
    assert score["score"] == pytest.approx(0.48)
    about = {
        "verifier": "choice",
        "choices": {"label": ["A", "B"], "text": ["bank", "mall"]},
        "question": None,
    }
    assert verl.compute_score("d", text("mall"), "B", about)["acc"] == 1.0
    router: dict[str, Any] = {"reward_router_address": "127.0.0.1", "reward_model_tokenizer": object()}
    assert verl.compute_score("d", RIGHT, "Paris", {}, **router)["score"] == 0.98


def test_engines_that_cannot_leave_out_refuse_to() -> None:
    with pytest.raises(RlcrError, match="verl cannot leave out a completion: set unscorable to a number"):
        verl.compute_score("d", RIGHT, "Paris", unscorable="exclude")
    with pytest.raises(RlcrError, match="OpenRLHF cannot leave out"):
        openrlhf.make_reward(unscorable="exclude")


# --- OpenRLHF ----------------------------------------------------------------------------------------

PROMPT = "<|im_start|>user\nCapital of France?<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.parametrize(("completion", "total"), list(zip(TEXTS, TOTALS, strict=True)))
def test_openrlhf_takes_the_prompt_and_special_tokens_off(completion: str, total: float) -> None:
    reward = openrlhf.make_reward()
    found = reward([f"{PROMPT}{completion}<|im_end|>"], [PROMPT], ["Paris"])
    assert found["rewards"] == total
    assert found["scores"] == float(total > 0.5)
    assert set(found["extra_logs"]) == {
        "format", "correctness", "calibration", "confidence", "states_confidence", "unscorable"
    }  # fmt: skip
    assert all(
        type(value) is float for value in [found["rewards"], found["scores"], *found["extra_logs"].values()]
    )


def test_openrlhf_takes_several_and_labels_of_json() -> None:
    label = json.dumps({"gold": ["B"], "verifier": "choice", "choices": ["bank", "mall"]})
    found = openrlhf.make_reward()([PROMPT + text("mall"), PROMPT + RIGHT], [PROMPT] * 2, [label, "Paris"])
    assert found["rewards"] == [0.98, 0.98]
    assert found["extra_logs"]["confidence"] == [0.8, 0.8]
    # An object without gold is no gold: it cannot be judged. One that is to be compared stands under gold.
    query = [PROMPT + text('{"a": 1}')]
    found = openrlhf.make_reward()(query, [PROMPT], ['{"a": 1}'])
    assert (found["rewards"], found["extra_logs"]["unscorable"]) == (0.0, 1.0)
    label = json.dumps({"gold": '{"a": 1}'})
    assert openrlhf.make_reward()(query, [PROMPT], [label])["rewards"] == 0.98


def test_openrlhf_sees_that_a_prompt_opens_the_thought() -> None:
    prompt = f"{PROMPT}<think>\n"
    assert (
        openrlhf.make_reward()([prompt + RIGHT.removeprefix("<think>")], [prompt], ["Paris"])["rewards"]
        == 0.98
    )


@pytest.mark.parametrize(
    ("query", "prompt"),
    [
        (PROMPT[10:] + "yes", PROMPT),  # cut on the left
        ("long " * 5 + PROMPT + "yes", "long  " * 5 + PROMPT),  # white space changed
        (PROMPT * 2 + "yes", PROMPT * 2),
        (PROMPT + "yes", PROMPT),
    ],
)
def test_openrlhf_finds_where_the_prompt_ends(query: str, prompt: str) -> None:
    assert openrlhf.without_prompt(query, prompt) == "yes"


def test_openrlhf_without_the_prompt_in_it_is_unscorable() -> None:
    found = openrlhf.make_reward(unscorable=-1)(["something else"], [PROMPT], ["Paris"])
    assert (found["rewards"], found["extra_logs"]["unscorable"]) == (-1.0, 1.0)


# --- SkyRL and verifiers -----------------------------------------------------------------------------


def test_skyrl_steps_once() -> None:
    with adapter_of("skyrl_gym") as adapter:
        for completion, total in zip(TEXTS, TOTALS, strict=True):
            env = adapter.RlcrEnv(
                {}, {"reward_spec": {"ground_truth": "Paris"}, "question": "Capital?"}, verifier="exact"
            )
            assert env.get_metrics() == {}
            step = env.step(completion)
            assert (step["observations"], step["reward"], step["done"]) == ([], total, True)
            assert env.get_metrics()["reward"] == total
            assert None not in env.get_metrics().values()
        unknown = adapter.RlcrEnv(extras={"reward_spec": {"ground_truth": None}})
        assert unknown.step(RIGHT)["reward"] == 0.0
        for extras in ({}, {"reward_spec": None}, {"reward_spec": {"method": "rule"}}):
            with pytest.raises(RlcrError, match="reward_spec with its ground_truth"):
                adapter.RlcrEnv(extras=extras)
        with pytest.raises(RlcrError, match="SkyRL cannot leave out"):
            adapter.RlcrEnv(unscorable="exclude")


def test_verifiers_rewards_the_last_message_and_raises_for_what_is_unscorable() -> None:
    with adapter_of("verifiers") as adapter:
        config = adapter.RlcrTaskConfig()

        def run(gold: str, *messages: object) -> float:
            task = adapter.RlcrTask(adapter.RlcrData(gold=(gold,)), config)
            return asyncio.run(task.rlcr(SimpleNamespace(assistant_messages=list(messages))))

        for completion, total in zip(TEXTS, TOTALS, strict=True):
            message = SimpleNamespace(role="assistant", content=completion, reasoning_content=None)
            assert run("Paris", message) == total
        content = RIGHT.removeprefix("<think>…</think>")
        assert run("Paris", SimpleNamespace(role="assistant", content=content, reasoning_content="…")) == 0.98
        with pytest.raises(adapter.UnscorableError, match="the problem has no gold"):
            run("", SimpleNamespace(role="assistant", content=RIGHT))
        with pytest.raises(adapter.UnscorableError, match="no text"):
            run("Paris")


def test_verifiers_loads_a_file_of_problems(tmp_path: Any) -> None:
    problem = rlcr.Problem("1", "2 + 2?", ("4", "four"), "math", "Answer with a number.")
    path = tmp_path / "problems.jsonl"
    rlcr.tasks.write_problems(path, [problem])  # pyright: ignore[reportAttributeAccessIssue]
    with adapter_of("verifiers") as adapter:
        config = adapter.RlcrTasksetConfig(problems=path)
        (task,) = adapter.RlcrTaskset(config).load()
        assert task.data.prompt == "2 + 2?\n\nAnswer with a number."
        assert task.data.system_prompt == rlcr.load_prompt("rlcr").text
        assert (task.data.gold, task.data.verifier) == (("4", "four"), "math")
        trace = SimpleNamespace(assistant_messages=[SimpleNamespace(role="assistant", content=text("4"))])
        assert asyncio.run(task.parts(trace))["correct"] == 1.0
