# pyright: basic
"""The update inside TRL's GRPOTrainer: its data order, optimiser, schedule, checkpoints, logs and processes.

One step of TRL's loop is one whole update, made by :func:`rlcr.training.update.update`. What depends on TRL:

    overridden   `training_step`, `log`, `evaluate`: hooks of Hugging Face's Trainer; `_get_train_sampler`, a
                 hook of it that TRL overrides too: ours calls TRL's, and draws again what it has drawn;
                 `_save_checkpoint`, to mark what it has written (:mod:`rlcr.training.checkpoint`)
    called       `_generate_single_turn`, which is private, only where vLLM samples;
                 `_load_from_checkpoint` of Trainer, to save a run that had made all its updates
    read         `num_generations`, `ref_model`, `num_samples` and generator of its `RepeatSampler`
    written      `eos_token_ids`; accelerate's `gradient_state`, since one step has several backward passes

A minor release may change any of the private ones: hence the bound in pyproject.toml, at the newest release
that the tests have seen. TRL's steps between sampling and loss (rendering, rewards,
advantages, padding, shuffling) are not used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object
from trl.trainer.grpo_trainer import GRPOTrainer

from rlcr.engine.attention import base_model, evaluating
from rlcr.engine.learning import Sharing
from rlcr.engine.logps import add_token_scores
from rlcr.errors import RlcrError
from rlcr.reward import Reward
from rlcr.sample import Request, Sampling
from rlcr.sample.local import LocalSampler
from rlcr.training.batch import Batch, Drawn, Example
from rlcr.training.checkpoint import WholeCheckpoints
from rlcr.training.recipes.settings import Recipe
from rlcr.training.replay import Replay
from rlcr.training.rollouts import Rollout
from rlcr.training.update import Bonus, Examiner, Learner, Sums, Updated, update
from rlcr.verify import Grading, Verifier

#: Called after each update with its completions, in group order, and the numbers that the optimiser logged.
Observer = Callable[[list[Rollout], dict[str, float]], dict[str, Any]]


class CalibrationTrainer(WholeCheckpoints, GRPOTrainer):
    """TRL's trainer with our update.

    The train dataset has the columns ``prompt`` (rendered text) and ``index`` (into ``examples``).
    """

    # TRL's own types allow for what never happens here, such as no model.
    model: Any
    accelerator: Any
    processing_class: Any
    num_generations: Any
    ref_model: Any

    def __init__(
        self,
        model: Any,
        *,
        recipe: Recipe,
        reward: Reward,
        examples: Sequence[Example],
        observe: Observer,
        examine: Examiner = lambda update, rollouts: None,
        epochs_done: int = 0,
        grading: Grading = "strict",
        own: Mapping[str, Verifier] | None = None,
        **trl: Any,
    ) -> None:
        self.recipe = recipe
        self.examples = examples
        self._observe = observe
        self._epochs_done = epochs_done
        # The one thing that outlasts a step: the optimiser logs its numbers after it.
        self._updated: Updated | None = None
        super().__init__(model, reward_funcs=_no_reward, **trl)
        models = [self.accelerator.unwrap_model(m) for m in (self.model, self.ref_model) if m is not None]
        for scorer in models:
            add_token_scores(base_model(scorer), recipe.temperature)
        self.sharing = Sharing(
            models,
            wanted=recipe.shared_prompts,
            accelerator=self.accelerator,
            pad=self.processing_class.pad_token_id,
            rows=recipe.micro_batch,
        )
        # Small models gain from many rows at once; large ones are held back by the token budget.
        self.sampler = LocalSampler(
            self.model,
            self.processing_class,
            name=recipe.model,
            token_budget=recipe.sampler_tokens,
            max_rows=1024,
            fast=recipe.shared_prompts and recipe.sampler == "rlcr",
            tokens_only=True,
            tempered=True,
        )
        # What ends a response is the same for both.
        self.eos_token_ids = sorted({*self.eos_token_ids, *self.sampler.eos_ids})
        ours = recipe.sampler != "vllm"
        self.learner = Learner(
            recipe=recipe,
            reward=reward,
            grading=grading,
            sampler=self._sample if ours else self._sample_with_vllm,
            model=self.model,
            reference=self.ref_model,
            sharing=self.sharing,
            accelerator=self.accelerator,
            tokenizer=self.processing_class,
            ends=frozenset({*self.eos_token_ids, self.processing_class.pad_token_id}),
            verifies_early=ours and self.accelerator.device.type != "cpu",
            own=own,
            pool=examples,
            examine=examine,
            replay=Replay(recipe.confidence_replay, seed=recipe.seed, process=self.accelerator.process_index),
        )

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        """One update: ``inputs`` are the rows of this process, ``model`` is wrapped for many processes."""
        model.train()
        first = self.accelerator.process_index * len(inputs)
        batch = Batch(
            update=self.state.global_step + 1,
            examples=[self.examples[row["index"]] for row in inputs],
            places=range(first, first + len(inputs)),
            group=self.num_generations,
        )
        bonus = entropy_bonus(self.recipe, self.state.global_step, self.state.max_steps)
        try:
            self._updated = update(replace(self.learner, model=model), batch, bonus)
        finally:
            self.accelerator.gradient_state._set_sync_gradients(True)
            self.sharing.switch(False)  # the model has its own attention again
        return self._updated.loss

    def _sample(self, batch: Batch) -> Iterator[Drawn]:
        """With our sampler: each prompt is read once for its group; or by transformers' generation."""
        requests, place, first = [], {}, 0
        for _, rows in groupby(batch.examples, key=id):
            example, *others = rows
            count, number = 1 + len(others), batch.numbers[first]
            key, ids = f"{example.problem.id}\0{batch.update}", example.prompt.ids.tolist()
            requests.append(Request(key, (), count, first_sample=number, prompt_ids=ids))
            place.update({(key, number + i): first + i for i in range(count)})
            first += count
        recipe = self.recipe
        sampling = Sampling(recipe.max_completion_tokens, recipe.temperature, seed=recipe.seed)
        with evaluating(self.model), torch.no_grad(), self.accelerator.autocast():
            for completion in self.sampler.sample(requests, sampling):
                row = place[completion.key, completion.sample]
                yield Drawn(row, list(completion.token_ids), completion.logprobs)

    def _sample_with_vllm(self, batch: Batch) -> Iterator[Drawn]:
        """With vLLM as TRL has it, which gives it the weights first, from the tokens that ours would read."""
        prompts = [example.prompt.ids.tolist() for example in batch.examples]
        drawn: Any = self._generate_single_turn(prompts, None, {}, self.num_generations)
        completions, logps = drawn
        for row, (ids, logps_T) in enumerate(zip(completions, logps, strict=True)):
            yield Drawn(row, list(ids), logps_T)

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        """TRL's order of problems, from the epoch that a resumed run is in: it draws one after another."""
        sampler: Any = super()._get_train_sampler(dataset)
        for _ in range(self._epochs_done):
            torch.randperm(sampler.num_samples, generator=sampler.generator)
        return sampler

    def _save_beside(self, checkpoint: Path) -> None:
        self.learner.replay.save(checkpoint)

    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        """Not here: the loss of an update says nothing about held-out problems."""
        raise RlcrError("the trainer does not evaluate: set eval_every in the recipe, or use `rlcr eval`")

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add what was measured of the update's completions to what the trainer logs of it."""
        if "loss" in logs and self._updated is not None:
            updated, self._updated = self._updated, None
            # A run whose samples are all alike learns from none: its entropy is what shows that it collapsed.
            own = updated.taught, Sums.of(updated.learned), Sums.of(updated.spare)
            taught, *sums = zip(*gather_object([own]), strict=True)
            learned, spare = map(Sums.of, sums)
            entropy, kl, tokens, mismatch = learned if learned.tokens else spare
            numbers = {
                **logs,
                "update": self.state.global_step,
                "epoch": self.state.epoch,
                # Of the completions that were learned from; of the shortest one where there are none.
                "entropy": entropy / tokens if tokens else None,
                "kl": kl / tokens if self.recipe.kl and tokens else None,
                "entropy_bonus": updated.bonus.token,
                "learned_from": sum(taught),
                "refilled_groups": updated.refilled,
                **mismatch.numbers(self.recipe.importance),
            }
            logs = {**logs, **self._observe(updated.rollouts, numbers)}
        super().log(logs, start_time)


def entropy_bonus(recipe: Recipe, done: int, total: int) -> Bonus:
    """The bonus for entropy after so many updates: that of tokens falls linearly to 0."""
    left = max(0.0, 1.0 - done / (total * recipe.entropy_until))
    return Bonus(left * recipe.entropy, recipe.confidence_entropy)


def _no_reward(**_: Any) -> list[float | None]:
    """TRL wants a function of rewards; it never gets to call it."""
    raise NotImplementedError("rewards are those of rlcr.training.update")
