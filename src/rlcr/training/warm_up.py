# pyright: basic
"""`rlcr warm-up`: teach a model that cannot keep them the tags of a recipe's method, before RL.

RL learns nothing from a model whose responses are all malformed: their rewards are equal. A few dozen steps
of supervised training on rendered responses (:mod:`rlcr.training.warm_up_data`) are enough. Their confidences
are drawn at random, so that calibration is still to be learned. `rlcr train` warms up first where a recipe
has a ``warm_up`` block.

Trained by :func:`rlcr.training.sft.fit`, in as many processes as `rlcr sft`. Before and after, responses to
problems that are not taught are sampled as in the first update of RL, by the first process with the whole
weights, and counted:

    run.json         settings, hash of the data, versions, the command
    samples/         where responses are the model's own: a run of `rlcr eval`
    sft.jsonl        the rendered responses
    checkpoints/     until it is finished
    sft.json         counts, the loss of each step
    model/           the result, an ordinary Hugging Face folder with a model card
    warm-up.json     how many responses are well-formed and right, before and after
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
from accelerate import PartialState
from accelerate.utils.memory import clear_device_cache
from transformers import TrainerCallback

from rlcr.errors import RlcrError, need
from rlcr.evaluate.methods import get_method
from rlcr.files import file_sha256
from rlcr.problem import Problem
from rlcr.prompts import messages
from rlcr.prompts.template import set_arguments
from rlcr.runs.lines import json_line, read_lines, read_object, write_object, write_whole
from rlcr.runs.store import RUN, check_new, create_run, locked, open_run, resume_run
from rlcr.runs.versions import run_facts
from rlcr.sample import Request, Sampling
from rlcr.sample.loading import identify, load
from rlcr.sample.local import LocalSampler
from rlcr.tasks import TaskSet, load_with, overlap
from rlcr.terminal import say
from rlcr.training import sft
from rlcr.training.data import measure_problems
from rlcr.training.embedded import EMBEDDED, build
from rlcr.training.preflight.device import computes_in_bf16, device_of
from rlcr.training.preflight.launch import check_sft_launch
from rlcr.training.recipes import Resolved
from rlcr.training.recipes.checks import check_problems, check_start, own_prompt, prompt_of, reward_of
from rlcr.training.recipes.settings import Recipe, WarmUp
from rlcr.training.saving import MODEL, check_targets
from rlcr.training.sft_data import SFT
from rlcr.training.warm_up_data import (
    NEUTRAL,
    SOURCES,
    Worked,
    already_warm,
    choose_source,
    render,
    rows,
    samples,
    solutions,
)

REPORT = "warm-up.json"
#: The folder of the warm-up inside that of a training run.
WARM_UP = "warm-up"
#: Updates between checkpoints.
SAVE_EVERY = 25

_PACKAGES = ("rlcr", "torch", "transformers", "trl", "accelerate", "peft")
_ABOUT = (
    "Format warm-up for RL",
    "`{model}`, trained to keep the tags of its method. Answers and steps are right; the confidences were",
    "drawn at random, so that they say nothing: this model is a start for RL, which teaches calibration.",
)

#: Is given each line that there is to print.
Say = Callable[[str], None]


def to_stderr(line: str) -> None:
    """What a run says by itself."""
    say(line, file=sys.stderr)


def warmed_start(
    resolved: Resolved, out: Path, *, data_dir: Path | str | None = None, say: Say = to_stderr
) -> str:
    """The model from which a training run in ``out`` starts: warmed up where its recipe says so.

    The warm-up lies in the run's own folder; one that is there is reused, or finished.
    """
    recipe = resolved.recipe
    if recipe.warm_up is None or already_warm(recipe.model, recipe.method):
        return recipe.model
    folder = out / WARM_UP
    if "after" not in _read(folder):
        warm_up(resolved, folder, resume=(folder / RUN).exists(), data_dir=data_dir, say=say)
    return str(folder / MODEL)


def warm_up(
    resolved: Resolved,
    out: Path | str,
    *,
    resume: bool = False,
    data_dir: Path | str | None = None,
    say: Say = to_stderr,
    callbacks: Sequence[Any] = (),
) -> dict[str, Any]:
    """Warm up the model of a recipe, or go on where that was interrupted. What is in warm-up.json.

    A recipe without a ``warm_up`` block is warmed up with the defaults. ``callbacks`` are transformers'
    TrainerCallbacks.
    """
    out = Path(out)
    check_start(resolved)
    need("training", "datasets", "peft", "trl")
    warm, lora = resolved.recipe.warm_up or WarmUp(), resolved.recipe.lora is not None
    check_sft_launch({"lora (use warm_up.all_weights=true)": lora and not warm.all_weights})
    device = device_of(resolved.recipe)
    # As in `rlcr train`: processes wait long for each other, since only the first one samples.
    state = PartialState(cpu=device == "cpu", timeout=timedelta(hours=12))
    main = state.is_main_process
    if resume:
        open_run(out)  # a misspelt folder must not be made by locking it
    elif main:
        check_new(out)
    if resolved.recipe.model == EMBEDDED:
        with state.main_process_first():
            resolved = resolved.starting_from(str(build(resolved.recipe.seed)))
    plan = _plan(resolved, out, device, state.num_processes, data_dir)
    with locked(out) if main else nullcontext():
        if main:
            facts = run_facts(_PACKAGES)
            _ = resume_run(out, plan.settings) if resume else create_run(out, plan.settings, {}, facts)
        state.wait_for_everyone()
        if "after" in _read(out):
            return _read(out)
        if main:
            plan.model.to(device)
            _prepare(plan, say)
            plan.model.to("cpu")  # from where the trainer takes it, whole or in parts
        state.wait_for_everyone()
        if not (out / MODEL).is_dir():
            _teach(plan, say if main else _nothing, callbacks)
        state.wait_for_everyone()
        if main:
            _conclude(plan, say)
        state.wait_for_everyone()
    return _read(out)


@dataclass(frozen=True)
class _Plan:
    """A warm-up before it begins: its settings are checked, its problems and its model are loaded."""

    recipe: Recipe
    warm: WarmUp
    training: sft.Settings
    machine: sft.Machine
    settings: dict[str, Any]
    task_set: TaskSet
    taught: list[Problem]
    held_out: list[Problem]
    source: str
    model: Any
    tokenizer: Any
    out: Path


def _plan(resolved: Resolved, out: Path, device: str, processes: int, data_dir: Path | str | None) -> _Plan:
    recipe = resolved.recipe
    warm = recipe.warm_up or WarmUp()
    training = sft.Settings(
        model=recipe.model,
        data=str(out / SFT),
        epochs=warm.epochs,
        lr=warm.lr,
        batch=warm.batch,
        micro_batch=math.gcd(max(1, warm.batch // processes), recipe.micro_batch),
        max_tokens=recipe.max_prompt_tokens + recipe.max_completion_tokens,
        seed=recipe.seed,
        lora_rank=recipe.lora.rank if recipe.lora and not warm.all_weights else None,
        max_completion_tokens=recipe.max_completion_tokens,
        save_every=SAVE_EVERY,
    )
    training.check(processes)
    task_set = load_taught(recipe, data_dir)
    # Float32 whatever the recipe says of RL, where adapters may have a base in half precision.
    model, tokenizer = load(recipe.model, device="cpu", dtype="float32")
    check_targets(recipe.lora, model)  # else RL would refuse them after the warm-up
    set_arguments(tokenizer, recipe.chat_template, recipe.model)
    taught, held_out = _divide(recipe, warm, task_set, tokenizer)
    source = choose_source(warm, taught)
    settings = asdict(training) | {
        "kind": "warm-up",
        "recipe": resolved.name,
        "model_weights": identify(recipe.model),
        "method": recipe.method,
        "prompt_text": prompt_of(recipe).text,
        "temperature": recipe.temperature,
        "task": task_set.provenance(),
        "warm_up": warm.model_dump(mode="json"),
        "source": source,
    }
    # The data lies in this folder, wherever that is; how a batch is cut depends on the number of processes.
    del settings["data"], settings["micro_batch"]
    machine = sft.Machine(device, bf16=computes_in_bf16(recipe.dtype, device))
    return _Plan(
        recipe, warm, training, machine, settings, task_set, taught, held_out, source, model, tokenizer, out
    )


def load_taught(recipe: Recipe, data_dir: Path | str | None = None) -> TaskSet:
    """The problems of a warm-up: another draw from what the recipe trains on."""
    warm = recipe.warm_up or WarmUp()
    try:
        task_set = load_with(
            recipe.task,
            recipe.split,
            size=warm.examples + warm.held_out,
            seed=recipe.data_seed + 1,
            data_dir=data_dir,
            verifier=None,
            settings=recipe.task_settings,
        )
        check_problems(task_set.problems)
    except RlcrError as error:
        sizes = f"warm_up.examples={warm.examples}, warm_up.held_out={warm.held_out}"
        raise RlcrError(f"warm-up ({sizes}): {error}") from None
    return task_set


def _divide(
    recipe: Recipe, warm: WarmUp, task_set: TaskSet, tokenizer: Any
) -> tuple[list[Problem], list[Problem]]:
    """The problems to teach from, and those to measure on: drawn, since a file may be sorted."""
    fitting = measure_problems(recipe, task_set, tokenizer).problems
    if len(fitting) <= warm.held_out:
        raise RlcrError(
            f"warm-up: only {len(fitting):,} of {len(task_set.problems):,} prompts are no longer than"
            f" max_prompt_tokens = {recipe.max_prompt_tokens}: raise the limit"
        )
    order = np.random.default_rng([recipe.seed % 2**32, 23]).permutation(len(fitting))
    shuffled = [fitting[place] for place in order]
    return shuffled[warm.held_out :], shuffled[: warm.held_out]


# --- the steps --------------------------------------------------------------------------------------


def _prepare(plan: _Plan, say: Say) -> None:
    """Measure, and write the responses to train on, as far as that was not done before."""
    recipe, out = plan.recipe, plan.out
    sampler = LocalSampler(
        plan.model, plan.tokenizer, name=recipe.model, fingerprint=plan.settings["model_weights"]
    )
    report = _read(out)
    if "before" not in report:
        shared = overlap(tuple(plan.taught), tuple(plan.held_out))
        report = {
            "settings": plan.settings,
            "questions_in_both": len(shared.exact) + len(shared.normalised),
            "before": measure(recipe, sampler, plan.held_out),
        }
        _write(out, report)
    say(f"before the warm-up, {describe(report['before'])}")
    if (out / SFT).exists():
        return
    counts: dict[str, Any] = {"problems": len(plan.taught)}
    if plan.source == "solutions":
        worked = solutions(plan.taught)
    else:
        worked, sampled = samples(recipe, plan.task_set, plan.taught, sampler, out, _room(plan))
        counts |= sampled
    lines, left_out = rows(recipe, plan.warm, worked)
    if not lines:
        raise RlcrError(
            f"{out}: no response to teach from: {_listed(counts)}{', ' * bool(left_out)}{_listed(left_out)};"
            " choose easier problems, or a task with worked solutions"
        )
    texts = [json_line(line) for line in lines]
    digest = hashlib.sha256("".join(texts).encode("utf-8", "surrogatepass")).hexdigest()
    counts |= {"kept": len(lines), "left_out": left_out, "sha256": digest}
    _write(out, report | {"responses": counts})
    write_whole(out / SFT, texts)


def _teach(plan: _Plan, say: Say, callbacks: Sequence[Any]) -> None:
    training, out = plan.training, plan.out
    if file_sha256([out / SFT]) != _read(out).get("responses", {}).get("sha256"):
        raise RlcrError(f"{out / SFT}: damaged or edited; remove it and --resume, which writes it again")
    lines = list(read_lines(out / SFT))
    data = sft.make_examples(
        lines, plan.model, plan.tokenizer, training.max_tokens, training.max_completion_tokens
    )
    long = f" ({len(data[1]):,} more too long)" if data[1] else ""
    say(f"training on {len(data[0]):,} responses {SOURCES[plan.source]}{long}")
    cut = {"micro_batch": training.micro_batch, "data_sha256": file_sha256([out / SFT])}
    sft.fit(
        training,
        plan.model,
        plan.tokenizer,
        data,
        out,
        resolved=plan.settings | cut,
        about=_ABOUT,
        prompt=own_prompt(plan.recipe),
        machine=plan.machine,
        callbacks=[_SaysProgress(say), *callbacks],
    )


class _SaysProgress(TrainerCallback):
    """Says now and then how far training is. In a terminal a bar does."""

    def __init__(self, say: Say) -> None:
        self._say = say

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Every tenth update."""
        if "loss" in (logs or {}) and state.global_step % 10 == 0 and args.disable_tqdm:
            self._say(f"update {state.global_step} of {state.max_steps}, loss {logs['loss']:.3f}")


def _conclude(plan: _Plan, say: Say) -> None:
    """Measure again, with the model as it lies on disk."""
    plan.model.to("cpu")  # where it is on a GPU, two of them may not fit
    clear_device_cache(garbage_collection=True)  # nor with the states of the optimiser
    sampler = LocalSampler.load(plan.out / MODEL, device=plan.machine.device, dtype="float32")
    after = measure(plan.recipe, sampler, plan.held_out)
    trained = sft.read_report(plan.out)
    facts = {"counts": trained["counts"], "steps": trained["steps"], **run_facts(_PACKAGES)}
    _write(plan.out, _read(plan.out) | {"after": after} | facts)
    say(f"after the warm-up, {describe(after)}")


def measure(recipe: Recipe, sampler: LocalSampler, problems: Sequence[Problem]) -> dict[str, Any]:
    """How many responses are well-formed, and how many of these right: sampled and read as RL does it."""
    prompt = prompt_of(recipe)
    requests = [Request(problem.id, tuple(messages(prompt, problem))) for problem in problems]
    sampling = Sampling(recipe.max_completion_tokens, recipe.temperature, seed=recipe.seed)
    completions = {completion.key: completion for completion in sampler.sample(requests, sampling)}
    ordered = [completions[problem.id] for problem in problems]
    scored = reward_of(recipe).score(
        [completion.text for completion in ordered], list(problems), think_open=ordered[0].think_open
    )
    verdicts = zip(scored.responses, scored.verdicts, strict=True)
    faults = Counter(response.fault for response in scored.responses if response.fault)
    return {
        "responses": len(ordered),
        "well_formed": sum(response.well_formed for response in scored.responses),
        "right": sum(response.well_formed and verdict.correct is True for response, verdict in verdicts),
        "unscorable": sum(verdict.outcome == "unscorable" for verdict in scored.verdicts),
        "faults": dict(faults.most_common(3)),
        "tokens_mean": sum(completion.completion_tokens for completion in ordered) / len(ordered),
    }


def describe(measured: dict[str, Any]) -> str:
    """What was measured, in one line.

    >>> describe({"responses": 100, "well_formed": 98, "right": 43})
    'of 100 sampled responses to held-out problems 98 are well-formed, 43 of them right'
    """
    return (
        f"of {measured['responses']:,} sampled responses to held-out problems {measured['well_formed']:,} are"
        f" well-formed, {measured['right']:,} of them right"
    )


def _room(plan: _Plan) -> int:
    """The tokens that tags, answer and the rest of a response take beside the steps."""
    format, longest = get_method(plan.recipe.method).format, max(NEUTRAL, key=len)
    texts = [render(format, Worked(problem, "", problem.gold[0]), 0.5, longest) for problem in plan.taught]
    return 1 + max(map(len, plan.tokenizer(texts, add_special_tokens=False)["input_ids"]))


def _read(out: Path) -> dict[str, Any]:
    path = out / REPORT
    return read_object(path, "remove it and --resume, which measures again") if path.exists() else {}


def _write(out: Path, report: dict[str, Any]) -> None:
    write_object(out / REPORT, report)


def _listed(counts: dict[str, Any]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in counts.items())


def _nothing(line: str) -> None:
    """Only the first process speaks."""
