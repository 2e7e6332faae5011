# pyright: basic
"""GRPO as the paper trains, on TRL's GRPOTrainer: its loop, its data order, its checkpoints, our four steps.

    sample     `rlcr.sample.local`: each prompt is read once for its group, random numbers depend only on
               (seed, update, problem, sample), so that a resumed run samples what the first would have
    reward     the core library, once for each completion, part by part
    credit     an advantage for each token (`rlcr.training.credit`)
    loss       one line: the policy gradient, with entropy bonus and KL term where asked for

What GRPO usually has and this leaves out: division by the group's standard deviation (it makes models
overconfident), and ratio clipping (each batch is used once, so the ratio is 1). The loss divides by the
active tokens of the whole update, over all micro-batches and processes, so that the update does not depend
on how it is cut; ``loss: micro-batch`` divides as TRL's ``bnpo`` does.

Only the override points that TRL keeps stable are used: `_generate_and_score_completions`,
`_calculate_rewards`, `_compute_loss`, and HF Trainer's `log`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from trl.trainer.grpo_trainer import GRPOTrainer

from rlcr.problem import Problem
from rlcr.prompts import opens_think
from rlcr.recipes.settings import Recipe
from rlcr.response import Span
from rlcr.reward import Reward
from rlcr.sample import Request, Sampling
from rlcr.sample.local import LocalSampler
from rlcr.sample.tokens import token_spans
from rlcr.training.credit import part_advantages, token_credit
from rlcr.training.data import RenderedPrompt
from rlcr.training.logps import add_token_scores
from rlcr.training.rollouts import Rollout, rollouts_of
from rlcr.verify import Grading


@dataclass(frozen=True)
class Example:
    """A problem as the trainer meets it: with its prompt, rendered and tokenised."""

    problem: Problem
    prompt: RenderedPrompt

    @property
    def think_open(self) -> bool:
        """Whether the prompt ends inside ``<think>``."""
        return opens_think(self.prompt.text)


#: Called after each update with its completions, in group order, and the numbers that the optimiser logged.
Observer = Callable[[list[Rollout], dict[str, float]], dict[str, Any]]


class CalibrationTrainer(GRPOTrainer):
    """TRL's trainer with our sampling, rewards, credit and loss.

    The train dataset has the columns ``prompt`` (rendered text) and ``index`` (into ``examples``).
    """

    # TRL's own types allow for what never happens here, such as no model.
    model: Any
    accelerator: Any
    processing_class: Any
    num_generations: Any
    num_generations_eval: Any
    _tokenizer: Any

    def __init__(
        self,
        model: Any,
        *,
        recipe: Recipe,
        reward: Reward,
        examples: Sequence[Example],
        observe: Observer,
        epochs_done: int = 0,
        grading: Grading = "strict",
        **trl: Any,
    ) -> None:
        self.recipe = recipe
        self.reward = reward
        self.examples = examples
        self.grading: Grading = grading
        self._observe = observe
        self._epochs_done = epochs_done
        self._rows: list[dict[str, Any]] = []
        self._rollouts: list[Rollout] = []
        self._advantages: dict[str, np.ndarray] = {}
        self._sums: list[tuple[float, float, float]] = []  # entropy, KL and tokens of each micro-batch
        self._scored: Any = None
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*rollout_func.*experimental")
            super().__init__(
                model,
                reward_funcs=[_named(part) for part in reward.weights],
                rollout_func=_roll_out if recipe.sampler == "rlcr" else None,
                **trl,
            )
        inner = self.model.get_base_model() if hasattr(self.model, "peft_config") else self.model
        add_token_scores(inner, recipe.temperature)
        # Small models gain from many rows at once; large ones are held back by the token budget.
        self.sampler = LocalSampler(self.model, self.processing_class, name=recipe.model, max_rows=1024)
        # What ends a response is the same for both.
        self.eos_token_ids = sorted({*self.eos_token_ids, *self.sampler.eos_ids})

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        """TRL's order of problems, from the epoch that a resumed run is in: it draws one after another."""
        sampler: Any = super()._get_train_sampler(dataset)
        for _ in range(self._epochs_done):
            torch.randperm(sampler.num_samples, generator=sampler.generator)
        return sampler

    def _tokenize_prompts(self, prompts: list[Any]) -> tuple[list[list[int]], None, dict[str, Any]]:
        """The tokens that our sampler reads, where TRL's samples: it would add a second start token."""
        return [self.examples[row["index"]].prompt.ids.tolist() for row in self._rows], None, {}

    # --- sample and reward --------------------------------------------------------------------------

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self._rows = inputs
        output = super()._generate_and_score_completions(inputs)
        return output | self._credit(output["completion_ids"], output["completion_mask"])

    def _calculate_rewards(
        self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: list[list[int]]
    ) -> torch.Tensor:
        """Score the completions of this process; the rewards of all processes, one column for each part."""
        read = self._read(completion_ids_list)
        examples = [self.examples[row["index"]] for row in self._rows]
        scored = self.reward.score(
            [text for text, _ in read],
            [example.problem for example in examples],
            think_open=examples[0].think_open,
            grading=self.grading,
        )
        self._scored = (scored.responses, [spans for _, spans in read])
        ends = {*self.eos_token_ids, self._tokenizer.pad_token_id}
        own = rollouts_of(
            update=self.state.global_step + 1,
            problems=[example.problem for example in examples],
            samples=[self._sample_number(row) for row in range(len(inputs))],
            scored=scored,
            tokens=[len(ids) for ids in completion_ids_list],
            truncated=[ids[-1] not in ends for ids in completion_ids_list],
        )
        self._rollouts = gather_object(own)
        parts = {
            name: np.array([rollout.parts[name] for rollout in self._rollouts])
            for name in self.reward.weights
        }
        scorable = np.array([rollout.reward is not None for rollout in self._rollouts])
        group = self.num_generations if self.model.training else self.num_generations_eval
        self._advantages = part_advantages(parts, self.reward.weights, scorable, group)
        table = np.where(scorable[:, None], np.stack(list(parts.values()), axis=1), np.nan)
        return torch.tensor(table, dtype=torch.float32, device=self.accelerator.device)

    def _read(self, completions: list[list[int]]) -> list[tuple[str, list[Span]]]:
        """The text of each completion and the span of each of its tokens."""
        if self.recipe.credit != "all":
            return [token_spans(self.processing_class, ids) for ids in completions]
        # Every token is treated alike, so where each lies does not matter.
        texts = self.processing_class.batch_decode(
            completions, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return [(text, [(0, 0)] * len(ids)) for text, ids in zip(texts, completions, strict=True)]

    def _sample_number(self, row: int) -> int:
        """The number in its group of a row of this process; a group may lie across two processes."""
        return (self.accelerator.process_index * len(self._rows) + row) % self.num_generations

    def _credit(self, completion_ids_BT: torch.Tensor, mask_BT: torch.Tensor) -> dict[str, torch.Tensor]:
        """Advantages of the tokens of this process, and which of them count."""
        responses, spans = self._scored
        first = self.accelerator.process_index * len(responses)
        advantages_BT = np.zeros(completion_ids_BT.shape)
        active_BT = np.zeros(completion_ids_BT.shape, dtype=np.int64)
        for row, (response, token_span) in enumerate(zip(responses, spans, strict=True)):
            own = {name: float(values[first + row]) for name, values in self._advantages.items()}
            advantage_T, active_T = token_credit(self.recipe.credit, own, response, token_span)
            advantages_BT[row, : len(advantage_T)] = advantage_T
            active_BT[row, : len(active_T)] = active_T
        device = completion_ids_BT.device
        active = torch.tensor(active_BT, device=device)
        counted = (mask_BT * active).sum()
        return {
            "advantages": torch.tensor(advantages_BT, device=device, dtype=self._precision),
            "tool_mask": active,
            "num_items_in_batch": self.accelerator.gather(counted).sum(),
        }

    @property
    def _precision(self) -> torch.dtype:
        return torch.float64 if self.model.dtype == torch.float64 else torch.float32

    # --- loss ---------------------------------------------------------------------------------------

    def _compute_loss(self, model: Any, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """The mean over active tokens of ``-advantage * ratio - entropy bonus + KL``."""
        inputs = _trimmed(inputs)
        width = inputs["completion_ids"].shape[1]
        ids_BL = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
        attended_BL = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
        counted_BT = inputs["completion_mask"].bool() & inputs["tool_mask"].bool()
        # The token at a position is predicted at the one before it.
        wanted_BL = torch.zeros_like(attended_BL, dtype=torch.bool)
        wanted_BL[:, -width - 1 : -1] = counted_BT
        with self.accelerator.autocast():
            logps_N, entropy_N = model(
                input_ids=ids_BL,
                attention_mask=attended_BL,
                position_ids=(attended_BL.cumsum(1) - 1).clamp(min=0),
                wanted=wanted_BL,
            )
        advantages_N = inputs["advantages"][counted_BT]
        ratio_N = torch.exp(logps_N - logps_N.detach())  # 1, but it has the gradient
        objective_N, pull = -advantages_N * ratio_N, 0.0
        if bonus := self.entropy_bonus(self.state.global_step):
            objective_N = objective_N - bonus * entropy_N
        if self.recipe.kl:
            towards_N = inputs["ref_per_token_logps"][counted_BT] - logps_N
            kl_N = torch.exp(towards_N) - towards_N - 1
            objective_N, pull = objective_N + self.recipe.kl * kl_N, kl_N.detach().sum().item()
        self._sums.append((entropy_N.detach().sum().item(), pull, float(len(entropy_N))))
        if self.recipe.loss == "micro-batch":
            return objective_N.sum() / max(len(objective_N), 1) / self.current_gradient_accumulation_steps
        # DDP averages gradients over processes, hence the share of one.
        active = inputs["num_items_in_batch"].clamp(min=1) / self.accelerator.num_processes
        return objective_N.sum() / active

    def entropy_bonus(self, done: int) -> float:
        """The bonus for each nat of entropy per token, after so many updates: falls linearly to 0."""
        if not self.recipe.entropy:
            return 0.0
        share = done / (self.state.max_steps * self.recipe.entropy_until)
        return self.recipe.entropy * max(0.0, 1.0 - share)

    # --- log ----------------------------------------------------------------------------------------

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add what was measured of the update's completions to what the trainer logs of it."""
        if "loss" in logs and self._rollouts:
            sums = torch.tensor(self._sums).sum(0).to(self.accelerator.device)
            entropy, kl, tokens = self.accelerator.reduce(sums, reduction="sum").tolist()
            numbers = {
                **logs,
                "update": self.state.global_step,
                "epoch": self.state.epoch,
                "entropy": entropy / max(tokens, 1.0),
                "kl": kl / max(tokens, 1.0) if self.recipe.kl else None,
                "entropy_bonus": self.entropy_bonus(self.state.global_step - 1),
            }
            measured = self._observe(self._rollouts, numbers)
            # TRL's own names for the same things are left out of the log.
            self._metrics["train"].clear()
            logs = {**logs, **measured}
            self._sums, self._rollouts = [], []
        super().log(logs, start_time)


def _named(part: str) -> Any:
    """TRL wants a function for each reward, to name its column; all are computed at once elsewhere."""

    def reward(**_: Any) -> list[float]:
        raise NotImplementedError("rewards come from CalibrationTrainer._calculate_rewards")

    reward.__name__ = part
    return reward


def _roll_out(prompts: list[Any], trainer: Any) -> dict[str, Any]:
    """TRL's hook for own generation: rows arrive with each prompt repeated for its group."""
    update, recipe = trainer.state.global_step + 1, trainer.recipe
    requests, prompt_ids, first = [], [], 0
    for index, rows in groupby(trainer._rows, key=lambda row: row["index"]):
        count = len(list(rows))
        example = trainer.examples[index]
        ids = example.prompt.ids.tolist()
        number = trainer._sample_number(first)
        requests.append(
            Request(f"{example.problem.id}\0{update}", (), count, first_sample=number, prompt_ids=ids)
        )
        prompt_ids += [ids] * count
        first += count
    sampling = Sampling(recipe.max_completion_tokens, recipe.temperature, seed=recipe.seed)
    place = {
        (request.key, request.first_sample + i): at
        for at, (request, i) in enumerate((request, i) for request in requests for i in range(request.n))
    }
    completion_ids: list[list[int]] = [[] for _ in place]
    training = trainer.model.training
    trainer.model.eval()
    with torch.no_grad(), trainer.accelerator.autocast():
        for completion in trainer.sampler.sample(requests, sampling):
            completion_ids[place[completion.key, completion.sample]] = list(completion.token_ids)
    trainer.model.train(training)
    return {"prompt_ids": prompt_ids, "completion_ids": completion_ids, "logprobs": None}


def _trimmed(inputs: dict[str, Any]) -> dict[str, Any]:
    """Without the columns that are padding in every row: the padding was for the whole update."""
    prompts = inputs["prompt_mask"].any(0).int().argmax().item()
    width = int(inputs["completion_mask"].any(0).sum().item()) or 1
    cut = dict(inputs)
    for name in ("prompt_ids", "prompt_mask"):
        cut[name] = inputs[name][:, prompts:]
    for name in ("completion_ids", "completion_mask", "advantages", "tool_mask", "ref_per_token_logps"):
        if name in inputs:
            cut[name] = inputs[name][:, :width]
    return cut
