# pyright: basic
"""Held-out evaluation during training, with the code of `rlcr eval`; the best model is kept.

The metric that chooses it is ``reward``, the expected RLCR reward accuracy - Brier score, unless the recipe
names another. All processes sample, each its part of the problems, with the weights it holds; the first one
grades and writes. Where weights are sharded over processes (FSDP, ZeRO-3), evaluate checkpoints with
`rlcr eval` instead.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from rlcr.engine.attention import evaluating
from rlcr.evaluate import Settings, evaluate
from rlcr.evaluate.results import load_results
from rlcr.runs.store import RESULTS
from rlcr.sample.local import LocalSampler
from rlcr.tasks import TaskSet
from rlcr.training.recipes.checks import own_prompt
from rlcr.training.saving import BEST, save_model
from rlcr.training.shared_sampling import SharedSampler

#: Whether more is better.
_DIRECTION = {"reward": 1, "accuracy": 1, "auroc": 1, "brier": -1, "ece": -1}


class HeldOut(TrainerCallback):
    """Evaluates every so many updates, into ``evals/update-N``."""

    def __init__(self, trainer: Any, out: Path, task_set: TaskSet) -> None:
        self.trainer, self.recipe, self.out, self.task_set = trainer, trainer.recipe, out, task_set

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Evaluate if it is time."""
        last = state.global_step == state.max_steps
        if state.global_step % self.recipe.eval_every and not last:
            return
        accelerator = self.trainer.accelerator
        model = accelerator.unwrap_model(self.trainer.model)
        own = LocalSampler(model, self.trainer.processing_class, name=str(self.out))
        sampler = SharedSampler(own, accelerator)
        with evaluating(model), accelerator.autocast():
            if not state.is_world_process_zero:
                sampler.follow()
            else:
                with sampler.leading():
                    self._evaluate(state.global_step, model, sampler)
        accelerator.wait_for_everyone()

    def _evaluate(self, update: int, model: Any, sampler: SharedSampler) -> None:
        folder = self.out / "evals" / f"update-{update:06d}"
        shutil.rmtree(folder, ignore_errors=True)  # of an interrupted run that is now repeated
        before = [self._value(line) for line in self.history()]
        own = self.trainer.learner.own
        evaluate(self._settings(), folder, sampler=sampler, task_sets=[self.task_set], own=own)
        now = self._value(self.history()[-1])
        if now is not None and all(value is None or now > value for value in before):
            recipe = self.recipe
            save_model(
                model,
                self.trainer.processing_class,
                self.out / BEST,
                method=recipe.method,
                prompt=own_prompt(recipe),
            )

    def _settings(self) -> Settings:
        recipe = self.recipe
        return Settings(
            model=str(self.out),
            tasks=(self.task_set.task,),
            method=recipe.method,
            prompt=recipe.prompt if own_prompt(recipe) else None,
            split=recipe.eval_split,
            limit=recipe.eval_size,
            max_tokens=recipe.max_completion_tokens,
        )

    def history(self) -> list[dict[str, Any]]:
        """The held-out metrics so far, up to the update that the run has reached."""
        lines = []
        for path in sorted(self.out.glob(f"evals/update-*/{RESULTS}")):
            update = int(path.parent.name.rpartition("-")[2])
            if update > self.trainer.state.global_step:
                continue  # of an interrupted run that went further than its last checkpoint
            lines.append({"update": update, **_numbers(load_results(path.parent))})
        return lines

    def _value(self, line: dict[str, Any]) -> float | None:
        value = line.get(self.recipe.eval_metric)
        return None if value is None else _DIRECTION[self.recipe.eval_metric] * value


def _numbers(results: dict[str, Any]) -> dict[str, float | None]:
    """Plain numbers of a run's results: of its one task, with how many answers they rest on."""
    ((name, task),) = results["tasks"].items()
    rests_on = {
        "answers": results["coverage"][name]["asked"],
        "scored": task["n"],
        "rated": task["rated"],
    }
    numbers: dict[str, float | None]
    numbers = {name: task["metrics"][name]["value"] for name in ("accuracy", "brier", "ece", "auroc")}
    accuracy, brier = numbers["accuracy"], numbers["brier"]
    return rests_on | numbers | {"reward": None if accuracy is None or brier is None else accuracy - brier}
