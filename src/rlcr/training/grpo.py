# pyright: basic
"""GRPO as the paper trains, on TRL's GRPOTrainer: its loop, its data order, its checkpoints, our four steps.

    sample     `rlcr.sample.local`: each prompt is read once for its group, random numbers depend only on
               (seed, update, problem, sample), so that a resumed run samples what the first would have
    reward     the core library, once for each completion, part by part
    credit     an advantage for each token (`rlcr.training.credit`)
    loss       one line: the policy gradient, with entropy bonus and KL term where asked for, in as few passes
               through the model as its memory allows (`rlcr.engine.batches`, `rlcr.engine.sharing`)

What GRPO usually has and this leaves out: division by the group's standard deviation (it makes models
overconfident), and ratio clipping (each batch is used once, so the ratio is 1). The loss divides by the
active tokens of the whole update, over all micro-batches and processes, so that the update does not depend
on how it is cut; ``loss: micro-batch`` divides as TRL's ``bnpo`` does.

One step of TRL's loop is one update: the loss cuts it into passes and runs all but the last backward itself.
Only the override points that TRL keeps stable are used: `_prepare_inputs`, `_generate_and_score_completions`,
`_calculate_rewards`, `_compute_loss`, and HF Trainer's `training_step` and `log`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import torch
from accelerate.utils import DistributedType, gather_object
from trl.trainer.grpo_trainer import GRPOTrainer

from rlcr.engine.attention import base_model, evaluating
from rlcr.engine.batches import Sample, cut_plain, cut_shared
from rlcr.engine.learning import Sharing
from rlcr.engine.logps import add_token_scores
from rlcr.errors import RlcrError
from rlcr.problem import Problem
from rlcr.prompts import opens_think
from rlcr.response import Span, parse
from rlcr.reward import Reward
from rlcr.sample import Request, Sampling
from rlcr.sample.local import LocalSampler
from rlcr.sample.tokens import token_spans
from rlcr.training.credit import part_advantages, token_credit
from rlcr.training.data import RenderedPrompt
from rlcr.training.recipes.settings import Recipe
from rlcr.training.rollouts import Rollout, rollouts_of
from rlcr.training.verdicts import EarlyVerdicts
from rlcr.verify import Grading

#: How tokens become text.
_AS_TEXT = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}


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
    ref_model: Any
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
        self._completions: list[list[int]] = []
        self._rollouts: list[Rollout] = []
        self._advantages: dict[str, np.ndarray] = {}
        # Entropy, KL and tokens of each pass, and of those that only fill up.
        self._sums: list[tuple[float, float, float]] = []
        self._spare_sums: list[tuple[float, float, float]] = []
        self._scored: Any = None
        self._verdicts: Any = None
        super().__init__(model, reward_funcs=[_named(part) for part in reward.weights], **trl)
        self.beta = 0.0  # the reference model is asked with the loss, not by TRL
        models = [self.accelerator.unwrap_model(m) for m in (self.model, self.ref_model) if m is not None]
        for scorer in models:
            add_token_scores(base_model(scorer), recipe.temperature)
        self.sharing = Sharing(
            models,
            wanted=recipe.shared_prompts,
            accelerator=self.accelerator,
            pad=self._tokenizer.pad_token_id,
            rows=recipe.micro_batch,
        )
        # Small models gain from many rows at once; large ones are held back by the token budget.
        self.sampler = LocalSampler(
            self.model,
            self.processing_class,
            name=recipe.model,
            max_rows=1024,
            fast=recipe.shared_prompts,
            tokens_only=True,
        )
        self.verifies_early = self.accelerator.device.type != "cpu"
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

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, Any]:
        """TRL would shuffle the rows and cut them up; here the loss does, and keeps groups together."""
        return self._generate_and_score_completions(generation_batch)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self._rows = inputs
        with EarlyVerdicts(self.grading) as self._verdicts:
            if self.recipe.sampler == "rlcr":
                self._calculate_rewards(inputs, None, None, self._roll_out())
            else:
                super()._generate_and_score_completions(inputs)
        return {"samples": self._weighed(self._credited())}

    def _roll_out(self) -> list[list[int]]:
        """Sample the rows of this process, which stand in groups: the tokens of their completions."""
        update, recipe = self.state.global_step + 1, self.recipe
        requests, place, first = [], {}, 0
        for index, rows in groupby(self._rows, key=lambda row: row["index"]):
            count, number, example = len(list(rows)), self._sample_number(first), self.examples[index]
            key, ids = f"{example.problem.id}\0{update}", example.prompt.ids.tolist()
            requests.append(Request(key, (), count, first_sample=number, prompt_ids=ids))
            place.update({(key, number + i): first + i for i in range(count)})
            first += count
        sampling = Sampling(recipe.max_completion_tokens, recipe.temperature, seed=recipe.seed)
        completion_ids: list[list[int]] = [[] for _ in place]
        with evaluating(self.model), torch.no_grad(), self.accelerator.autocast():
            for completion in self.sampler.sample(requests, sampling):
                row = place[completion.key, completion.sample]
                completion_ids[row] = list(completion.token_ids)
                if self.verifies_early:
                    self._verify_early(self.examples[self._rows[row]["index"]], completion_ids[row])
        return completion_ids

    def _verify_early(self, example: Example, ids: list[int]) -> None:
        if self._verdicts.takes_long(example.problem):
            text = self.processing_class.decode(ids, **_AS_TEXT)
            response = parse(text, self.reward.format, think_open=example.think_open)
            self._verdicts.begin(example.problem, response.answer)

    def _calculate_rewards(
        self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: list[list[int]]
    ) -> torch.Tensor:
        """Score the completions of this process; the rewards of all processes, one column for each part."""
        if not all(completion_ids_list):
            raise RlcrError(
                f"update {self.state.global_step + 1}: a completion has no tokens, not even one that ends it;"
                f" look at the sampler ({self.recipe.sampler})"
            )
        self._completions = completion_ids_list
        read = self._read(completion_ids_list)
        examples = [self.examples[row["index"]] for row in self._rows]
        scored = self.reward.score(
            [text for text, _ in read],
            [example.problem for example in examples],
            think_open=examples[0].think_open,
            grading=self.grading,
            verifying=self._verdicts.verify,
        )
        self._scored = (scored.responses, [spans for _, spans in read])
        own = rollouts_of(
            update=self.state.global_step + 1,
            problems=[example.problem for example in examples],
            samples=[self._sample_number(row) for row in range(len(inputs))],
            scored=scored,
            tokens=[len(ids) for ids in completion_ids_list],
            truncated=[self._truncated(ids) for ids in completion_ids_list],
        )
        self._rollouts = gather_object(own)
        parts = {
            name: np.array([rollout.parts[name] for rollout in self._rollouts])
            for name in self.reward.weights
        }
        scorable = np.array([rollout.reward is not None for rollout in self._rollouts])
        self._advantages = part_advantages(parts, self.reward.weights, scorable, self.num_generations)
        table = np.where(scorable[:, None], np.stack(list(parts.values()), axis=1), np.nan)
        return torch.tensor(table, dtype=torch.float32, device=self.accelerator.device)

    def _read(self, completions: list[list[int]]) -> list[tuple[str, list[Span]]]:
        """The text of each completion and the span of each of its tokens."""
        if self.recipe.credit != "all":
            return [token_spans(self.processing_class, ids) for ids in completions]
        # Every token is treated alike, so where each lies does not matter.
        texts = self.processing_class.batch_decode(completions, **_AS_TEXT)
        return [(text, [(0, 0)] * len(ids)) for text, ids in zip(texts, completions, strict=True)]

    def _sample_number(self, row: int) -> int:
        """The number in its group of a row of this process; a group may lie across two processes."""
        return (self.accelerator.process_index * len(self._rows) + row) % self.num_generations

    def _truncated(self, ids: list[int]) -> bool:
        return ids[-1] not in self.eos_token_ids and ids[-1] != self._tokenizer.pad_token_id

    def _credited(self) -> list[Sample]:
        """The completions of this process, with an advantage for each token and which of them count."""
        responses, spans = self._scored
        first = self.accelerator.process_index * len(responses)
        samples = []
        for row, (response, token_span) in enumerate(zip(responses, spans, strict=True)):
            own = {name: float(values[first + row]) for name, values in self._advantages.items()}
            advantages_T, counted_T = token_credit(self.recipe.credit, own, response, token_span)
            ids = self._completions[row]
            if self.recipe.mask_truncated and self._truncated(ids):
                counted_T = np.zeros_like(counted_T)
            prompt = self.examples[self._rows[row]["index"]].prompt.ids
            group = (first + row) // self.num_generations
            samples.append(Sample(group, prompt, ids, advantages_T, counted_T))
        return samples

    def _weighed(self, samples: list[Sample]) -> list[Sample]:
        """Each completion with the weight of its tokens in the loss of the whole update."""
        counted_B = np.array([sample.counted for sample in samples])
        processes = self.accelerator.num_processes
        if self.recipe.loss == "update":
            # DDP averages gradients over processes, hence the share of one.
            own = torch.tensor(int(counted_B.sum()), device=self.accelerator.device)
            active = int(self.accelerator.gather(own).sum())
            weights_B = np.full(len(samples), processes / max(active, 1))
        else:
            # As TRL does: shuffle the rows and divide each micro-batch by its own tokens.
            order_B = torch.randperm(len(samples)).numpy()
            weights_B = np.zeros(len(samples))
            micro_batches = self.recipe.accumulation(processes)
            for rows in order_B.reshape(micro_batches, -1):
                weights_B[rows] = 1 / max(int(counted_B[rows].sum()), 1) / micro_batches
        return [replace(s, weight=float(weight)) for s, weight in zip(samples, weights_B, strict=True)]

    @property
    def _precision(self) -> torch.dtype:
        return torch.float64 if self.model.dtype == torch.float64 else torch.float32

    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        """Not here: the loss of an update says nothing about held-out problems."""
        raise RlcrError("the trainer does not evaluate: set eval_every in the recipe, or use `rlcr evaluate`")

    # --- loss ---------------------------------------------------------------------------------------

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """One update, after which the model has its own attention again."""
        try:
            return super().training_step(*args, **kwargs)
        finally:
            self.accelerator.gradient_state._set_sync_gradients(True)
            self.sharing.switch(False)

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        """The loss of the update. All passes but the last have run backward already."""
        passes = self._passes(model, inputs["samples"])
        done = torch.zeros((), device=self.accelerator.device)
        deepspeed = self.accelerator.distributed_type == DistributedType.DEEPSPEED
        for shared, samples in passes[:-1]:
            self.accelerator.gradient_state._set_sync_gradients(False)
            with nullcontext() if deepspeed else self.accelerator.no_sync(model):
                loss = self._loss_of(model, samples, shared)
                self.accelerator.backward(loss, **({"scale_wrt_gas": False} if deepspeed else {}))
            done += loss.detach()
        self.accelerator.gradient_state._set_sync_gradients(True)
        shared, samples = passes[-1]
        return self._loss_of(model, samples, shared) + done

    def _passes(self, model: Any, samples: list[Sample]) -> list[tuple[bool, list[Sample]]]:
        """What goes through the model together, and whether with shared prompts."""
        if self.recipe.shared_prompts and not self.recipe.kl and not self._bonus:
            needed = [sample for sample in samples if sample.teaches]
        else:
            needed = [sample for sample in samples if sample.counted]
        # Something must pass, or the optimiser would find no gradient at all, not even zero.
        shortest = min(samples, key=lambda s: (not s.counted, len(s.prompt) + len(s.completion)))
        nothing = replace(shortest, weight=0.0)
        with self.accelerator.autocast():
            shared, plain = self.sharing.split(model, needed or [nothing], trial=samples)
        passes = [(True, part) for part in cut_shared(shared, self.recipe.pass_tokens)]
        passes += [(False, part) for part in cut_plain(plain, self.recipe.micro_batch)]
        if self.accelerator.num_processes > 1:
            # Processes may meet in a forward pass, so each makes as many as the others.
            own = torch.tensor(len(passes), device=self.accelerator.device)
            most = int(self.accelerator.gather(own).max())
            passes = [(passes[0][0], [nothing])] * (most - len(passes)) + passes
        return passes

    def _loss_of(self, model: Any, samples: list[Sample], shared: bool) -> torch.Tensor:
        """The sum over counted tokens of ``weight (-advantage * ratio - entropy bonus + KL)``."""
        call = self.sharing.inputs(samples, shared=shared)
        with self.accelerator.autocast():
            logps_N, entropy_N = model(**call)
        advantages_N = self._numbers([s.advantages_T[s.counted_T] for s in samples])
        weights_N = self._numbers([np.full(s.counted, s.weight) for s in samples])
        ratio_N = torch.exp(logps_N - logps_N.detach())  # 1, but it has the gradient
        objective_N, pull = -advantages_N * ratio_N, 0.0
        if self._bonus:
            objective_N = objective_N - self._bonus * entropy_N
        if self.recipe.kl:
            towards_N = self._reference(call) - logps_N
            kl_N = torch.exp(towards_N) - towards_N - 1
            objective_N, pull = objective_N + self.recipe.kl * kl_N, kl_N.detach().sum().item()
        sums = self._sums if any(sample.weight for sample in samples) else self._spare_sums
        sums.append((entropy_N.detach().sum().item(), pull, float(len(entropy_N))))
        return (weights_N * objective_N).sum()

    def _numbers(self, arrays: list[np.ndarray]) -> torch.Tensor:
        return torch.from_numpy(np.concatenate(arrays)).to(self.accelerator.device, self._precision)

    def _reference(self, call: dict[str, Any]) -> torch.Tensor:
        """The log-probabilities of the start, from which the KL term pulls back."""
        with torch.no_grad(), self.accelerator.autocast():
            if self.ref_model is not None:
                return self.ref_model(**call)[0]
            with self.accelerator.unwrap_model(self.model).disable_adapter():
                return self.model(**call)[0]

    @property
    def _bonus(self) -> float:
        return self.entropy_bonus(self.state.global_step)

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
            own = [torch.tensor([(0.0, 0.0, 0.0), *sums]).sum(0) for sums in (self._sums, self._spare_sums)]
            sums = self.accelerator.reduce(torch.stack(own).to(self.accelerator.device), reduction="sum")
            # A run whose samples are all alike learns from none: its entropy is what shows that it collapsed.
            learned, spare = sums.tolist()
            entropy, kl, tokens = learned if learned[2] else spare
            numbers = {
                **logs,
                "update": self.state.global_step,
                "epoch": self.state.epoch,
                # Of the completions that were learned from; of the shortest one where there are none.
                "entropy": entropy / tokens if tokens else None,
                "kl": kl / tokens if self.recipe.kl and tokens else None,
                "entropy_bonus": self.entropy_bonus(self.state.global_step - 1),
            }
            measured = self._observe(self._rollouts, numbers)
            # TRL's own names for the same things are left out of the log.
            self._metrics["train"].clear()
            logs = {**logs, **measured}
            self._sums, self._spare_sums, self._rollouts = [], [], []
        super().log(logs, start_time)


def _named(part: str) -> Any:
    """TRL wants a function for each reward, to name its column; all are computed at once elsewhere."""

    def reward(**_: Any) -> list[float]:
        raise NotImplementedError("rewards come from CalibrationTrainer._calculate_rewards")

    reward.__name__ = part
    return reward
