# pyright: basic
"""Confidences of earlier completions are learned once more: the gradient, what is drawn, and resuming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.training.gradients import MIXED, error, exact_model, texts_of
from tests.training.oracle import Row, grpo_step
from tests.training.updates import recipe, response, rows, update

import rlcr
from rlcr.engine.batches import Choice, Sample
from rlcr.errors import RlcrError
from rlcr.training.recipes import load_recipe
from rlcr.training.replay import KEPT, Replay

#: So small that the weights stay the same: the second update is of the model that made the first.
STILL = 1e-30


def replayed(texts: Any, count: int, seed: int) -> list[Row]:
    """What the second update draws of the first."""
    kept = [row for group in rows(texts) for row in group if row.digit is not None]
    return [kept[at] for at in np.random.default_rng([seed, 2, 0]).choice(len(kept), count, replace=False)]


@pytest.mark.parametrize("settings", [{}, {"shared_prompts": False, "micro_batch": 4}, {"entropy": 0.02}])
@pytest.mark.parametrize("texts", [MIXED, texts_of(2, 4)], ids=["mixed", "many"])
def test_gradient_is_the_oracles_with_earlier_confidences(texts: Any, settings: Any, tmp_path: Path) -> None:
    bonus, entropy = 0.05, settings.get("entropy", 0.0)
    wanted_of = recipe(
        credit="expected", confidence_entropy=bonus, confidence_replay=3, updates=2, lr=STILL,
        entropy_until=1.0, **settings,
    )  # fmt: skip
    found = update(wanted_of, texts, tmp_path)
    given = {"credit": "expected", "temperature": 0.7, "confidence_entropy": bonus, "entropy": entropy / 2}
    again = replayed(texts, 3, wanted_of.seed)
    assert error(found.gradient, grpo_step(exact_model(), rows(texts), again=again, **given)) < 1e-9
    assert error(found.gradient, grpo_step(exact_model(), rows(texts), **given)) > 1e-4


def test_nothing_else_of_an_earlier_completion_counts(tmp_path: Path) -> None:
    found = update(recipe(credit="expected", confidence_replay=3, updates=2, lr=STILL), MIXED, tmp_path)
    assert [numbers["learned_from"] for numbers in found.logged] == [8, 8 + 3]
    assert len(found.rollouts) == 16


def test_resumed_it_replays_what_it_would_have(tmp_path: Path) -> None:
    settings = recipe(
        credit="expected", confidence_replay=3, updates=4, save_every=2, lr=0.01, dtype="float32"
    )
    texts = texts_of(2, 4)
    whole = update(settings, texts, tmp_path)
    checkpoint = tmp_path / "checkpoints" / "checkpoint-2"
    assert (checkpoint / "replay-0.json").exists()
    resumed = update(settings, texts, tmp_path / "resumed", checkpoint=checkpoint)
    (checkpoint / "replay-0.json").write_text("[]")
    forgotten = update(settings, texts, tmp_path / "forgotten", checkpoint=checkpoint)
    weights, same, other = (one.trainer.model.state_dict() for one in (whole, resumed, forgotten))
    assert max((same[name] - weights[name]).abs().max().item() for name in weights) < 1e-6
    assert max((other[name] - weights[name]).abs().max().item() for name in weights) > 1e-4


def sample(number: int, *, prompt: tuple[int, ...] = (1, 2, 3), at: int | None = 2) -> Sample:
    """A completion whose second token is its number."""
    choice = None if at is None else Choice(at, (7, 8), np.array([0.25, -0.5]))
    return Sample(0, (*prompt, number), [5, number, 7, 9], np.ones(4), np.ones(4, dtype=bool), choice=choice)


def test_what_is_drawn() -> None:
    replay = Replay(3, seed=1)
    assert replay.draw(1, group=4) == []
    replay.keep([sample(10), sample(11, at=None)])
    [alone] = replay.draw(2, group=4)
    assert [*alone.prompt, *alone.completion] == [1, 2, 3, 10, 5, 10, 7]
    replay.keep(sample(number) for number in range(12, 20))
    drawn = replay.draw(3, group=4)
    assert len({one.completion[0] for one in drawn}) == 3
    for one in drawn:
        # The common beginning is shared; the prompt's own token goes before the completion.
        assert list(one.prompt) == [1, 2, 3]
        assert one.group == 4
        number = one.completion[0]
        assert one.completion == [number, 5, number, 7]
        assert one.choice
        assert (one.choice.at, one.choice.tokens, one.choice.rewards_K.tolist()) == (3, (7, 8), [0.25, -0.5])
        assert not one.counted_T.any()
        assert one.teaches
    assert [one.completion for one in replay.draw(3, group=4)] == [one.completion for one in drawn]
    assert [one.completion for one in replay.draw(4, group=4)] != [one.completion for one in drawn]
    other = Replay(3, seed=1, process=1)
    other.keep([sample(10), *(sample(number) for number in range(12, 20))])
    assert [one.completion for one in other.draw(3, group=4)] != [one.completion for one in drawn]


def test_prompts_that_begin_differently_are_replayed_whole() -> None:
    replay = Replay(2)
    replay.keep([sample(1, prompt=(3, 4)), sample(2, prompt=(9,))])
    drawn = replay.draw(2, group=4)
    assert sorted([*one.prompt, *one.completion] for one in drawn) == [[3, 4, 1, 5, 1, 7], [9, 2, 5, 2, 7]]
    assert len({one.group for one in drawn}) == 2
    assert all(len(one.prompt) for one in drawn)


def test_only_the_latest_are_kept() -> None:
    replay = Replay(KEPT)
    replay.keep(sample(number) for number in range(KEPT + 10))
    assert {one.completion[0] for one in replay.draw(2, group=0)} == set(range(10, KEPT + 10))


def test_it_needs_expected_credit_and_the_loss_of_the_whole_update() -> None:
    with pytest.raises(RlcrError, match="confidence_replay needs credit=expected"):
        load_recipe("smollm2-rlcr", {"credit": "all", "confidence_entropy": 0})
    with pytest.raises(RlcrError, match="confidence_replay needs loss=update"):
        load_recipe("smollm2-rlcr", {"loss": "micro-batch"})


def test_another_number_of_processes_is_named(tmp_path: Path) -> None:
    Replay(2, process=0).save(tmp_path)
    with pytest.raises(RlcrError, match="replay-1.json: not there: resume with as many processes"):
        Replay(2, process=1).load(tmp_path)


def test_entropy_is_measured_where_all_completions_are_alike(tmp_path: Path) -> None:
    alike = {"a": [response()] * 4, "b": [response()] * 4}
    found = update(recipe(credit="expected"), alike, tmp_path)
    assert found.logged[-1]["entropy"] is not None
    wanted = grpo_step(exact_model(), rows(alike), credit="expected", temperature=0.7)
    assert error(found.gradient, wanted) < 1e-9


@pytest.mark.slow
def test_a_run_that_lost_its_last_updates_replays_as_before(tmp_path: Path) -> None:
    settings = {
        "credit": "expected",
        "entropy": 0.0,
        "confidence_replay": 16,
        "prompts": 8,
        "micro_batch": 32,
        "updates": 4,
        "save_every": 2,
    }
    whole = rlcr.train("tiny-arms-brier", out=tmp_path, **settings)
    before = (whole.model / "model.safetensors").read_bytes()
    (whole.model / "model.safetensors").unlink()
    (tmp_path / "checkpoints" / "checkpoint-4" / "whole").unlink()  # as if cut short by a crash
    resumed = rlcr.train("tiny-arms-brier", out=tmp_path, resume=True, **settings)
    assert (resumed.model / "model.safetensors").read_bytes() == before
