# pyright: basic
"""One update of our trainer on completions that a test chose, and the gradient it makes."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from tests.tiny import tiny_model, tiny_tokenizer
from tests.training.double import in_double
from tests.training.oracle import Row
from transformers import TrainerCallback
from trl.trainer.grpo_trainer import GRPOTrainer

from rlcr.problem import Problem
from rlcr.prompts import Message, render_messages
from rlcr.response import Response, parse
from rlcr.sample import Completion, Request, Sampling
from rlcr.training.batch import Example
from rlcr.training.checkpoint import step_of
from rlcr.training.data import RenderedPrompt
from rlcr.training.grpo import CalibrationTrainer
from rlcr.training.recipes.checks import reward_of
from rlcr.training.recipes.settings import Recipe
from rlcr.training.rollouts import Rollout
from rlcr.training.run import dataset, grpo_config

GOLD = "42"


def recipe(**settings: Any) -> Recipe:
    return Recipe.model_validate(
        {
            "model": "tiny", "task": "arms", "method": "rlcr", "reward": "rlcr", "prompts": 2, "group": 4,
            "micro_batch": 8, "lr": 1e-3, "schedule": "constant", "updates": 1, "temperature": 0.7, "dtype": "float64",
            "grad_clip": 1e9, "device": "cpu", "gradient_checkpointing": False, "report_to": (), "max_completion_tokens": 512,
        }
        | settings
    )  # fmt: skip


def response(answer: str = GOLD, confidence: str = "0.8", think: str = "so", analysis: str = "sure") -> str:
    return (
        f"<think>{think}</think><answer>{answer}</answer>"
        f"<analysis>{analysis}</analysis><confidence>{confidence}</confidence>"
    )


@dataclass
class ChosenSampler:
    """A sampler that writes what a test chose: ``texts[problem][sample]``; "…" at the end means cut off."""

    tokenizer: Any
    texts: Mapping[str, Sequence[str]]
    name: str = "chosen"
    asked: list[Request] = field(default_factory=list)

    def sample(self, requests: Sequence[Request], sampling: Sampling) -> Iterator[Completion]:
        for request in requests:
            self.asked.append(request)
            problem = request.key.partition("\0")[0]
            for sample in range(request.first_sample, request.first_sample + request.n):
                ids = encode(self.tokenizer, self.texts[problem][sample])
                logps = tuple(chosen_logps(ids))
                yield Completion(request.key, sample, "", "stop", tuple(ids), logprobs=logps)


def chosen_logps(ids: Sequence[int]) -> list[float]:
    """The log-probabilities by which these tokens were drawn: made up, some above the model's, some below.

    The tiny model knows nothing, so that its own are near -log(vocabulary).
    """
    return [-4.0 - (3 * at + token) % 7 / 2 for at, token in enumerate(ids)]


def encode(tokenizer: Any, text: str) -> list[int]:
    ids = tokenizer(text.removesuffix("…"), add_special_tokens=False)["input_ids"]
    return ids if text.endswith("…") else [*ids, tokenizer.eos_token_id]


def examples(texts: Mapping[str, Sequence[str]]) -> list[Example]:
    found, tokenizer = [], tiny_tokenizer()
    for number, name in enumerate(texts):
        message: Message = {"role": "user", "content": "What is the sum? " + "so " * (7 * number)}
        text = render_messages([message], tokenizer)
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        found.append(Example(Problem(name, "", (GOLD,), "exact"), RenderedPrompt(text, array("i", ids))))
    return found


class _Gradient(TrainerCallback):
    """Takes the gradient that the optimiser would use."""

    def __init__(self) -> None:
        self.found: dict[str, torch.Tensor] = {}

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        inner = getattr(model, "module", model)
        self.found = {name: p.grad.clone() for name, p in inner.named_parameters() if p.grad is not None}


@dataclass(frozen=True)
class Update:
    gradient: dict[str, torch.Tensor]
    rollouts: list[Rollout]
    asked: list[Request]
    logged: list[dict[str, float]]
    trainer: CalibrationTrainer


def update(
    settings: Recipe,
    texts: Mapping[str, Sequence[str]],
    folder: Path,
    model: Any = None,
    *,
    sampled: bool = False,
    verifies_early: bool = False,
    autocast: bool = False,
    checkpoint: Path | None = None,
) -> Update:
    """Train on these completions. ``texts`` maps problems to their group's responses.

    The gradient is that of the last update. If ``sampled``, the model writes its own responses. With
    ``autocast`` it computes in bfloat16, as on a GPU. A ``checkpoint`` is continued.
    """
    tokenizer = tiny_tokenizer()
    if model is None:
        model = tiny_model(max_position_embeddings=2048)
    model = in_double(model) if settings.dtype == "float64" else model.to(getattr(torch, settings.dtype))
    seen: list[Rollout] = []
    logged: list[dict[str, float]] = []
    gradient = _Gradient()
    given = examples(texts)

    def observe(rollouts: list[Rollout], numbers: dict[str, float]) -> dict[str, Any]:
        seen.extend(rollouts)
        logged.append(numbers)
        return {}

    args = grpo_config(settings, folder)
    if autocast:
        args = replace(args, bf16=True, generation_batch_size=None)
    trainer = CalibrationTrainer(
        model,
        recipe=settings,
        reward=reward_of(settings),
        examples=given,
        observe=observe,
        epochs_done=step_of(checkpoint) // (len(given) // settings.prompts) if checkpoint else 0,
        args=args,
        train_dataset=dataset(given),
        processing_class=tokenizer,
        callbacks=[gradient],
    )
    sampler = ChosenSampler(tokenizer, texts)
    trainer.learner.verifies_early = verifies_early
    if not sampled:
        trainer.sampler = sampler  # pyright: ignore[reportAttributeAccessIssue]
    if checkpoint:
        trainer.learner.replay.load(checkpoint)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    return Update(gradient.found, seen, sampler.asked, logged, trainer)


def rows(texts: Mapping[str, Sequence[str]], *, mask_truncated: bool = False) -> list[list[Row]]:
    """The same completions for the oracle: rewards by the formula, owners by the tokenizer's own offsets."""
    tokenizer = tiny_tokenizer()
    groups = []
    for example in examples(texts):
        prompt = example.prompt.ids.tolist()
        group = []
        for text in texts[example.problem.id]:
            whole = text.removesuffix("…")
            offsets = tokenizer(whole, add_special_tokens=False, return_offsets_mapping=True)[
                "offset_mapping"
            ]
            read = parse(whole)
            right = float(read.answer == GOLD)
            rewards = {"format": 0.0, "correctness": 0.0, "calibration": -0.5}
            owner = [""] * len(encode(tokenizer, text))
            if read.well_formed:
                assert read.confidence is not None
                rewards = {
                    "format": 0.5,
                    "correctness": 0.5 * right,
                    "calibration": -0.5 * (read.confidence - right) ** 2,
                }
                for t, (start, stop) in enumerate(offsets):
                    for tag, (first, last) in read.spans.items():
                        if set(range(start, stop)) & set(range(first, last)):
                            owner[t] = "solution" if tag in ("think", "answer") else "doubt"
            digit, digit_rewards = first_decimal(tokenizer, read, offsets, right)
            ids = encode(tokenizer, text)
            group.append(
                Row(
                    prompt, ids, owner, rewards, sampled=chosen_logps(ids),
                    malformed=not read.well_formed, left_out=mask_truncated and text.endswith("…"),
                    digit=digit, digit_rewards=digit_rewards,
                )
            )  # fmt: skip
        groups.append(group)
    return groups


def first_decimal(
    tokenizer: Any, read: Response, offsets: Sequence[tuple[int, int]], right: float
) -> tuple[int | None, dict[int, float] | None]:
    """The token with the first decimal of a confidence, and what each token that is a number is worth there."""
    if not read.well_formed or "." not in read.text[slice(*read.spans["confidence"])]:
        return None, None
    start, stop = read.spans["confidence"]
    place = read.text.index(".", start) + 1
    for t, (first, last) in enumerate(offsets):
        if not first <= place < last:
            continue
        worth: dict[int, float] = {}
        for token in range(len(tokenizer)):
            text = tokenizer.decode([token])
            if re.fullmatch("[0-9.]*[0-9]", text) and text.count(".") < 2:
                stated = read.text[start:first] + text + read.text[last:stop]
                if stated.count(".") < 2 and 0 <= float(stated) <= 1:
                    worth[token] = -0.5 * (float(stated) - right) ** 2
        alone = read.text[first:last].replace(".", "").isdigit() and first >= start and last <= stop
        return (t, worth) if alone and len(worth) > 1 else (None, None)
    return None, None


def stock_update(
    settings: Recipe, texts: Mapping[str, Sequence[str]], folder: Path
) -> dict[str, torch.Tensor]:
    """The gradient of TRL's own trainer, given the same completions and their whole rewards."""
    tokenizer, given, gradient = tiny_tokenizer(), examples(texts), _Gradient()
    prompts = [example.prompt.text for example in given]
    reward = reward_of(settings)

    def total(completions: list[str], index: list[int], **_: Any) -> list[float | None]:
        scored = reward.score(completions, [given[at].problem for at in index])
        return scored.rewards.totals()

    def roll_out(asked: list[str], trainer: Any) -> dict[str, Any]:
        ids = [
            encode(tokenizer, texts[given[prompts.index(p)].problem.id][i % settings.group])
            for i, p in enumerate(asked)
        ]
        read = [tokenizer(prompt, add_special_tokens=False)["input_ids"] for prompt in asked]
        return {"prompt_ids": read, "completion_ids": ids, "logprobs": None}

    steps = settings.accumulation()
    args = replace(
        grpo_config(settings, folder),
        per_device_train_batch_size=settings.micro_batch,
        gradient_accumulation_steps=steps,
        steps_per_generation=steps,
        generation_batch_size=None,
    )
    trainer = GRPOTrainer(
        tiny_model(max_position_embeddings=2048).to(getattr(torch, settings.dtype)),
        reward_funcs=total,
        args=args,
        train_dataset=dataset(given),
        processing_class=tokenizer,
        rollout_func=roll_out,
        callbacks=[gradient],
    )
    trainer.train()
    return gradient.found
