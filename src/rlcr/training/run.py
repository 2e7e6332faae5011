# pyright: basic
"""`rlcr train`: from a recipe to a run folder with a trained model in it.

Everything that can be wrong with the recipe, the data or the folder is found before the model is loaded. One
process or many (`torchrun`, `accelerate launch`): the first one writes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from accelerate import PartialState
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl.trainer.grpo_config import GRPOConfig

from rlcr.engine.attention import use_attention
from rlcr.errors import RlcrError
from rlcr.prompts.template import set_arguments
from rlcr.runs.differences import check_same
from rlcr.runs.lines import read_object, write_object
from rlcr.runs.store import LOCK, locked
from rlcr.runs.versions import run_facts
from rlcr.sample.loading import load, load_tokenizer
from rlcr.tasks import TASKS, TaskSet
from rlcr.training.batch import Example
from rlcr.training.card import write_card
from rlcr.training.checkpoint import CHECKPOINTS, last_whole, step_of
from rlcr.training.collapse import CollapseWatch, nothing_well_formed
from rlcr.training.data import (
    PreparedData,
    check_positions,
    graded_by,
    load_held_out,
    load_problems,
    prepare_problems,
)
from rlcr.training.embedded import EMBEDDED, build
from rlcr.training.grpo import CalibrationTrainer
from rlcr.training.heldout import HeldOut
from rlcr.training.measurements import UPDATES, UpdateLog, measure_update, read_updates
from rlcr.training.mismatch import MISMATCH
from rlcr.training.preflight.device import check_machine, computes_in_bf16, device_of
from rlcr.training.preflight.launch import check_launch
from rlcr.training.preflight.vllm_server import check_vllm_server
from rlcr.training.progress import TrainingProgress
from rlcr.training.recipes import RECIPES, Resolved
from rlcr.training.recipes.checks import (
    TRAINING,
    check_code,
    check_micro_batch,
    check_out,
    check_refill,
    check_start,
    own_prompt,
    reward_of,
)
from rlcr.training.recipes.settings import Recipe, Vllm
from rlcr.training.rollouts import ROLLOUTS, Rollout, RolloutLog
from rlcr.training.saving import BEST, MODEL, check_targets, lora_config, save_model, whole_weights
from rlcr.training.teaching import TRAINING_ADVICE, counts, note, outcome, warnings_until
from rlcr.training.warm_up import warmed_start
from rlcr.verify import Verifier
from rlcr.verify.own import load_own

#: Settings of a run that are known once its problems are loaded.
_FROM_DATA = ("data", "held_out", "verifier_code")
_PACKAGES = ("rlcr", "torch", "transformers", "trl", "accelerate", "peft", "datasets", "math-verify", "numpy")


@dataclass(frozen=True)
class TrainingResult:
    """What a run left: its folder, its trained model, its last update, its held-out evaluations."""

    folder: Path
    model: Path
    updates: list[dict[str, Any]] = field(repr=False)
    evals: list[dict[str, Any]] = field(default_factory=list, repr=False)
    best: Path | None = None

    @property
    def doubts(self) -> str:
        """What is to be said of updates that taught nothing; empty where there are none."""
        return outcome(self.updates)


def train_run(
    resolved: Resolved,
    out: Path | str,
    *,
    resume: bool = False,
    data_dir: Path | str | None = None,
    run_code: bool = False,
) -> TrainingResult:
    """Train as a recipe says, or resume a run where it was interrupted.

    ``run_code`` allows a recipe to run code of the user's own, which its ``verifier`` names.
    """
    out, recipe = Path(out), resolved.recipe
    check_code(recipe, run_code)
    check_launch(recipe)
    device = device_of(recipe)
    # Made here for the first time: without a GPU, processes find each other only if they are told so.
    # They wait long for each other: one of them may sample far longer completions than the others.
    state = PartialState(cpu=device == "cpu", timeout=timedelta(hours=12))
    check_start(resolved)
    check_machine(recipe, device)
    check_vllm_server(recipe, device)
    check_micro_batch(recipe, state.num_processes)
    check_refill(recipe, state.num_processes)
    grpo_config(recipe, out)  # what TRL refuses
    if state.is_main_process:
        check_out(out, resume=resume)
    if recipe.model == EMBEDDED:
        with state.main_process_first():
            resolved = resolved.starting_from(str(build(recipe.seed)))
        recipe = resolved.recipe
    settings = {"recipe": resolved.name, **recipe.model_dump(mode="json")}
    if resume and state.is_main_process:
        _check_same(out, settings, but=_FROM_DATA)
    tokenizer = load_tokenizer(recipe.model)
    set_arguments(tokenizer, recipe.chat_template, recipe.model)
    task_set = load_problems(recipe, data_dir)
    held_out = load_held_out(recipe, task_set.problems, data_dir)
    data = prepare_problems(recipe, task_set, tokenizer)
    own: dict[str, Verifier] = {}
    if recipe.verifier:
        # The file counts as a setting: a run is not resumed with another rule than it began with.
        own[recipe.verifier], settings["verifier_code"] = load_own(recipe.verifier)
        task_set = graded_by(recipe.verifier, task_set)
        held_out = graded_by(recipe.verifier, held_out) if held_out else None
        data = replace(data, problems=tuple(replace(p, verifier=recipe.verifier) for p in data.problems))
    settings |= {"data": task_set.provenance(), "held_out": held_out.provenance() if held_out else None}
    with locked(out) if state.is_main_process else nullcontext():
        with state.main_process_first():
            if state.is_main_process:
                _open_folder(out, settings, data, resume)
        checkpoint = last_whole(out / CHECKPOINTS) if resume else None
        try:
            start = warmed_start(resolved, out, data_dir=data_dir)
            return _train(resolved, start, out, task_set, held_out, data, tokenizer, checkpoint, own)
        except RlcrError:
            if state.is_main_process and not resume:
                _leave_as_found(out)
            raise


def _train(
    resolved: Resolved,
    start: str,
    out: Path,
    task_set: TaskSet,
    held_out_set: TaskSet | None,
    data: PreparedData,
    tokenizer: Any,
    checkpoint: Path | None,
    own: Mapping[str, Verifier],
) -> TrainingResult:
    recipe, main = resolved.recipe, PartialState().is_main_process
    done = step_of(checkpoint) if checkpoint else 0
    # Made only now: accelerate's state is that of the last one made, and a warm-up has one of its own.
    args = grpo_config(recipe, out)
    # Trained weights stay in float32, where small steps do not round away; GPUs compute in bfloat16.
    dtype = "float32" if recipe.dtype == "auto" else recipe.dtype
    model, _ = load(start, device="cpu", dtype=dtype)
    check_targets(recipe.lora, model)
    if recipe.attn_implementation:
        use_attention(model, recipe.attn_implementation)
    check_positions(recipe, model, data, held_out_set, tokenizer)
    examples = [Example(*pair) for pair in zip(data.problems, data.prompts, strict=True)]
    total = recipe.total_updates(len(examples))
    journal = _Journal(out, recipe, task_set, done, main)

    def examine(update: int, rollouts: list[Rollout]) -> None:
        if update == 1 and (what := nothing_well_formed(rollouts)):
            cut_off = all(rollout.truncated for rollout in rollouts)
            raise RlcrError(f"{what}: {_format_hint(resolved, start != recipe.model, cut_off)}")

    trainer = CalibrationTrainer(
        model,
        recipe=recipe,
        reward=reward_of(recipe),
        examples=examples,
        observe=journal.observe,
        examine=examine,
        own=own,
        epochs_done=done // (len(examples) // recipe.prompts),
        args=args,
        train_dataset=dataset(examples),
        processing_class=tokenizer,
        peft_config=lora_config(recipe.lora),
        callbacks=_tensorboard(recipe, out, main),
    )
    trainer.remove_callback(PrinterCallback)  # the progress bar says it better
    held_out = HeldOut(trainer, out, held_out_set) if held_out_set else None
    if held_out:
        trainer.add_callback(held_out)
    if done < total:
        if checkpoint:
            trainer.learner.replay.load(checkpoint)
        journal.begin(total)
        try:
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        finally:
            journal.close()
    else:  # all updates were made, and perhaps the model was not yet saved; the loop would make one more
        trainer._load_from_checkpoint(str(checkpoint))
        trainer.state.global_step = done
    evals = held_out.history() if held_out else []
    weights = whole_weights(trainer)
    best = out / BEST if (out / BEST).is_dir() else None
    if main:
        trained = trainer.accelerator.unwrap_model(trainer.model)
        save_model(
            trained, tokenizer, out / MODEL, method=recipe.method, prompt=own_prompt(recipe), weights=weights
        )
        updates = read_updates(out / UPDATES)
        note(out, updates=counts(updates))
        for folder in [out / MODEL, *([best] if best else [])]:
            write_card(folder, resolved, task_set, held_out_set, updates, evals)
    PartialState().wait_for_everyone()
    return TrainingResult(out, out / MODEL, read_updates(out / UPDATES), evals, best)


def _format_hint(resolved: Resolved, warmed: bool, cut_off: bool) -> str:
    """What to do where a model does not keep the tags of its method."""
    name = resolved.name if resolved.name in RECIPES else f"{resolved.name}.yaml"
    hint = (
        f"`rlcr warm-up {name} --out WARM` teaches the model the tags; then train with model=WARM/model and"
        " another --out"
    )
    if warmed:
        hint = "its warm-up was too short: raise warm_up.examples, or warm_up.epochs, with another --out"
    if cut_off:
        limit = resolved.recipe.max_completion_tokens
        return f"{hint}; every one ran into the limit of {limit:,} tokens: raise max_completion_tokens?"
    return hint


# --- folder -----------------------------------------------------------------------------------------


def _open_folder(out: Path, settings: dict[str, Any], data: PreparedData, resume: bool) -> None:
    path = out / TRAINING
    if not resume:
        out.mkdir(parents=True, exist_ok=True)
        dropped = [{"id": name, "tokens": tokens} for name, tokens in data.dropped]
        facts = {"settings": settings, "dropped": dropped, **run_facts(_PACKAGES)}
        write_object(path, facts)
        return
    _check_same(out, settings)


def _leave_as_found(out: Path) -> None:
    """Forget a run that was refused before anything came of it: its folder is that of the next try."""
    if {path.name for path in out.iterdir()} <= {TRAINING, LOCK}:
        (out / TRAINING).unlink(missing_ok=True)


def _check_same(out: Path, settings: dict[str, Any], but: Sequence[str] = ()) -> None:
    """Raise if a run was begun with other settings. Some may not be known yet."""
    path = out / TRAINING
    if not path.exists():
        raise RlcrError(f"{out}: not a training run (it has no {TRAINING})")
    before = read_object(path, TRAINING_ADVICE).get("settings", {})
    # What a recipe could not say when the run was begun, it did by default.
    fields = Recipe.model_fields.items()
    before = {name: field.default for name, field in fields if not field.is_required()} | before
    check_same(
        out, *({name: value for name, value in s.items() if name not in but} for s in (before, settings))
    )


# --- what the trainer needs -------------------------------------------------------------------------


def dataset(examples: Sequence[Example]) -> Dataset:
    """Rendered text, so that TRL neither renders nor parses: there is one way from problem to prompt."""
    texts = [example.prompt.text for example in examples]
    return Dataset.from_dict({"prompt": texts, "index": list(range(len(examples)))})


def grpo_config(recipe: Recipe, out: Path) -> GRPOConfig:
    """A recipe in TRL's words."""
    device, vllm = device_of(recipe), recipe.vllm or Vllm()
    optimizer: dict[str, Any] = {"optim": "adamw_bnb_8bit"} if recipe.optimizer == "adam8bit" else {}
    return GRPOConfig(
        output_dir=str(out / CHECKPOINTS),
        # A step of the loop is a whole update: the loss cuts it into passes.
        per_device_train_batch_size=recipe.completions // PartialState().num_processes,
        gradient_accumulation_steps=1,
        steps_per_generation=1,
        num_generations=recipe.group,
        max_completion_length=recipe.max_completion_tokens,
        temperature=recipe.temperature,
        loss_type="dapo" if recipe.loss == "update" else "bnpo",
        scale_rewards="none",
        beta=recipe.kl,
        mask_truncated_completions=recipe.mask_truncated,
        **optimizer,
        learning_rate=recipe.lr,
        lr_scheduler_type=recipe.schedule,
        warmup_steps=0 if recipe.schedule == "constant" else recipe.warmup,
        adam_beta1=recipe.adam_betas[0],
        adam_beta2=recipe.adam_betas[1],
        adam_epsilon=recipe.adam_epsilon,
        weight_decay=recipe.weight_decay,
        max_grad_norm=recipe.grad_clip,
        num_train_epochs=recipe.epochs,
        max_steps=recipe.updates or -1,
        seed=recipe.seed,
        bf16=computes_in_bf16(recipe.dtype, device),
        gradient_checkpointing=recipe.gradient_checkpointing,
        use_cpu=device == "cpu",
        use_vllm=recipe.sampler == "vllm",
        vllm_mode="server" if vllm.server else "colocate",
        vllm_server_base_url=vllm.server,
        vllm_gpu_memory_utilization=vllm.memory,
        vllm_tensor_parallel_size=vllm.tensor_parallel,
        vllm_enable_sleep_mode=vllm.sleep,
        vllm_max_model_length=recipe.vllm_length,
        # Importance is corrected in our loss (recipe.importance), which TRL's does not come to.
        vllm_importance_sampling_correction=False,
        logging_steps=1,
        save_strategy="steps",
        save_steps=recipe.save_every,
        report_to=[name for name in recipe.report_to if name != "tensorboard"],
        disable_tqdm=True,
        remove_unused_columns=False,
    )


def _tensorboard(recipe: Recipe, out: Path, main: bool) -> list[TrainerCallback]:
    if "tensorboard" not in recipe.report_to or not main:
        return []
    from torch.utils.tensorboard import SummaryWriter
    from transformers.integrations.integration_utils import TensorBoardCallback

    return [TensorBoardCallback(SummaryWriter(str(out / "logs")))]


# --- watching ---------------------------------------------------------------------------------------


class _Journal:
    """Writes down each update, shows progress, and warns of collapse."""

    def __init__(self, out: Path, recipe: Recipe, task_set: TaskSet, done: int, main: bool) -> None:
        self._out, self._group, self._main, self._done = out, recipe.group, main, done
        task = TASKS.get(task_set.task)
        self._abstention = task.abstention if task else ""
        self._watch = CollapseWatch()
        self._progress: TrainingProgress | None = None
        self._since = time.monotonic()
        if not main:
            return
        self._updates = UpdateLog(out / UPDATES)
        self._rollouts = RolloutLog(out / ROLLOUTS)
        self._updates.drop_after(self._done)
        self._rollouts.drop_after(self._done)
        self._watch = CollapseWatch(read_updates(out / UPDATES))
        self._warnings = warnings_until(out, done)

    def begin(self, total: int) -> None:
        """The model is loaded; the first update begins."""
        self._since = time.monotonic()
        if self._main:
            self._progress = TrainingProgress(self._done, total)

    def observe(self, rollouts: list[Rollout], logged: Mapping[str, float]) -> dict[str, float]:
        """Take note of an update; returns the numbers worth plotting, by name."""
        now = time.monotonic()
        line: dict[str, Any] = {
            "update": int(logged["update"]),
            "epoch": round(logged["epoch"], 6),
            "seconds": round(now - self._since, 4),
            "lr": logged["learning_rate"],
            "loss": logged["loss"],
            "grad_norm": logged["grad_norm"],
            "entropy": logged["entropy"],
            "entropy_bonus": logged["entropy_bonus"],
            "kl": logged["kl"],
            "learned_from": int(logged["learned_from"]),
            "refilled_groups": int(logged["refilled_groups"]),
            **{name: logged[name] for name in MISMATCH},
            **measure_update(rollouts, self._group, self._abstention),
        }
        self._since = now
        if self._main:
            self._rollouts.write(line["update"], rollouts)
            self._updates.append(line)
            for warning in self._watch.observe(line):
                self._warnings.append({"update": line["update"], "warning": warning})
                note(self._out, warnings=self._warnings)
                if self._progress:
                    self._progress.warn(warning)
            if self._progress:
                self._progress.updated(line)
        known = {
            "loss",
            "grad_norm",
            "learning_rate",
            "lr",
            "epoch",
            "update",
        }  # the trainer logs them itself
        numbers = line | {f"parts/{name}": value for name, value in line["parts"].items()}
        return {
            f"rlcr/{name}": float(value)
            for name, value in numbers.items()
            if isinstance(value, int | float) and name not in known
        }

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._progress:
            self._progress.close()
