# pyright: basic
"""The examples run: the whole algorithm in one file, whose gradient is the trainer's, and a model cascade."""

from __future__ import annotations

from pathlib import Path

import pytest
from examples import cascade, rlcr_minimal
from tests.asking.replayed import Replay, text
from tests.training.gradients import MIXED, error, exact_model
from tests.training.updates import encode, examples, recipe, tiny_tokenizer, update


def test_its_gradient_is_the_trainers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rlcr_minimal, "REWARD", rlcr_minimal.get_reward("rlcr"))  # the tags of these texts
    tokenizer, model = tiny_tokenizer(), exact_model()
    asked = [example for example in examples(MIXED) for _ in MIXED[example.problem.id]]
    texts = [text for group in MIXED.values() for text in group]
    advantages = rlcr_minimal.advantages_of(
        [text.removesuffix("…") for text in texts], [example.problem for example in asked], group=4
    )
    loss = rlcr_minimal.policy_loss(
        model,
        [example.prompt.ids.tolist() for example in asked],
        [encode(tokenizer, text) for text in texts],
        advantages,
        temperature=0.7,
    )
    loss.backward()
    gradient = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    assert error(gradient, update(recipe(), MIXED, tmp_path).gradient) < 1e-9


def test_it_trains(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With a start that was hardly taught: what it learns is in the file's header."""
    build, short = rlcr_minimal.embedded.build, rlcr_minimal.embedded.Lessons(documents=600, steps=30)
    monkeypatch.setattr(rlcr_minimal.embedded, "build", lambda seed: build(seed, short))
    rlcr_minimal.main(updates=2, prompts=8)
    start, end, note = capsys.readouterr().out.splitlines()[1:]
    assert start.count("|") == end.count("|") == 7
    assert note.startswith("2 updates of 8 x 4 completions")


def test_it_fits_on_a_few_screens() -> None:
    assert rlcr_minimal.__file__
    lines = Path(rlcr_minimal.__file__).read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 150


def test_a_cascade_costs_less_than_the_large_model_and_is_better_than_the_small_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cascade.main([], questions=400)
    *lines, _ = capsys.readouterr().out.splitlines()
    accuracies = [float(line.split("accuracy ")[1].split(",")[0]) for line in lines]
    costs = [float(line.split("cost ")[1].split(" ")[0]) for line in lines]
    assert len(lines) == 4
    assert accuracies == sorted(accuracies)
    assert costs == sorted(costs)
    assert costs[2] < 0.9
    assert accuracies[0] + 0.1 < accuracies[2] < accuracies[3]


def test_a_cascade_asks_the_large_model_only_below_the_threshold() -> None:
    small, large = (Replay({"Q?": [text(answer, q)]}) for answer, q in (("Rome", "0.6"), ("Paris", "0.9")))
    for sure, expected, asked in ((0.5, None, 0), (0.7, "Paris", 1)):
        answer = cascade.cascade(small, large, "Q?", sure)
        assert large.drawn == asked
        assert answer.text == (expected or "Rome")
