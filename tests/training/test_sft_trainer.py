"""The packed SFT trainer against TRL's own: the same loss, the same gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.tiny import tiny_model, tiny_tokenizer
from tests.training.sft_runs import rows
from trl import SFTTrainer  # pyright: ignore[reportPrivateImportUsage]

from rlcr.engine.trial import Trial
from rlcr.training import sft_trainer
from rlcr.training.sft import Settings, make_examples, make_trainer
from rlcr.training.sft_trainer import PackedSFTTrainer, samples_of

SETTINGS = Settings("", "", epochs=1, batch=4, micro_batch=4)


def batch(trainer: Any) -> dict[str, torch.Tensor]:
    return next(iter(trainer.get_train_dataloader()))


def ready(folder: Path, kind: str = "llama", **settings: Any) -> Any:
    """A trainer on four examples of unlike lengths."""
    lines = [row | {"completion": row["completion"] * (1 + n)} for n, row in enumerate(rows(4))]
    model, tokenizer = tiny_model(kind, **settings), tiny_tokenizer()
    examples, _ = make_examples(lines, model, tokenizer, 1024)
    return make_trainer(SETTINGS, model, tokenizer, examples, folder)


def stepped(trainer: Any, inputs: dict[str, torch.Tensor], step: Any) -> tuple[float, torch.Tensor]:
    """The loss of a micro-batch, and its gradient."""
    trainer.model.zero_grad()
    trained = (inputs["labels"] != -100).sum()
    loss = step(trainer, trainer.model, dict(inputs), trained)
    return float(loss), torch.cat([p.grad.flatten() for p in trainer.model.parameters()])


# Gemma caps its logits, GPT-NeoX has biases and no groups of heads.
@pytest.mark.parametrize("kind", ["llama", "qwen2", "gemma2", "gpt_neox"])
def test_loss_and_gradient_are_those_of_trl(kind: str, tmp_path: Path) -> None:
    trainer = ready(tmp_path, kind)
    assert isinstance(trainer, PackedSFTTrainer)
    inputs = batch(trainer)
    loss, gradient = stepped(trainer, inputs, PackedSFTTrainer.training_step)
    # TRL's own loss, by the same trainer.
    own_way = PackedSFTTrainer.compute_loss
    try:
        del PackedSFTTrainer.compute_loss
        own_loss, own_gradient = stepped(trainer, inputs, SFTTrainer.training_step)
    finally:
        PackedSFTTrainer.compute_loss = own_way
    assert loss == pytest.approx(own_loss, rel=1e-5)
    assert torch.allclose(gradient, own_gradient, rtol=1e-4, atol=1e-6)


def test_what_examples_begin_with_is_read_once(tmp_path: Path) -> None:
    inputs = batch(ready(tmp_path))
    samples = samples_of(inputs)
    beginnings = {tuple(sample.prompt) for sample in samples}
    assert len(beginnings) == 1
    [beginning] = beginnings
    assert len(beginning) > 10
    for sample, ids, labels, kept in zip(
        samples, inputs["input_ids"], inputs["labels"], inputs["attention_mask"], strict=True
    ):
        assert [*sample.prompt, *sample.completion] == ids[kept == 1].tolist()
        assert sample.counted == int((labels != -100).sum())
        assert [t for t, c in zip(sample.completion, sample.counted_T, strict=True) if c] == labels[
            labels != -100
        ].tolist()


def test_examples_that_begin_unlike_are_trained_the_plain_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = ready(tmp_path)
    inputs = batch(trainer)
    loss, gradient = stepped(trainer, inputs, PackedSFTTrainer.training_step)
    monkeypatch.setattr(sft_trainer, "common_beginning", lambda rows: 0)
    other_loss, other_gradient = stepped(trainer, inputs, PackedSFTTrainer.training_step)
    assert loss == pytest.approx(other_loss, rel=1e-5)
    assert torch.allclose(gradient, other_gradient, rtol=1e-4, atol=1e-6)


def test_processes_whose_examples_begin_unlike_make_the_trial_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes meet in it: one that left it out would let the others wait."""
    trainer, tried = ready(tmp_path), list[bool]()
    monkeypatch.setattr(sft_trainer, "common_beginning", lambda rows: 0)
    monkeypatch.setattr(
        trainer._sharing, "_try", lambda model, samples: tried.append(bool(samples)) or Trial("not now")
    )
    stepped(trainer, batch(trainer), PackedSFTTrainer.training_step)
    assert tried == [False]  # on tokens drawn at random
