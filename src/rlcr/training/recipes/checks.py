"""What can be wrong with a run before any model is loaded, each with what to do about it.

`check_settings` needs the recipe alone and is part of :func:`rlcr.training.recipes.load_recipe`; the others
look at the problems, the starting point and the output folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcr.errors import RlcrError, nearest, not_installed
from rlcr.evaluate.methods import get_method
from rlcr.problem import Problem
from rlcr.prompts import PROMPTS, Prompt, load_prompt
from rlcr.response import get_format
from rlcr.reward import REWARDS, Reward, get_reward
from rlcr.runs.store import LOCK
from rlcr.tasks import built_file, get_task, is_built_file
from rlcr.tasks.plumbing.settings import checked
from rlcr.training.recipes.settings import Recipe
from rlcr.verify import VERIFIERS
from rlcr.verify.own import check_own_name

if TYPE_CHECKING:
    from rlcr.training.recipes import Resolved

#: The settings of a run, in its folder.
TRAINING = "training.json"
#: What can be trained on; auto is the first of the others that is there.
DEVICES = ("auto", "cuda", "mps", "cpu")
#: What the warm-ups, which are no recipes, are made with.
_WARM_UP = "`rlcr sft-data` and `rlcr sft` make it"


def check_settings(recipe: Recipe) -> None:
    """Raise if the settings contradict each other or name what does not exist."""
    if not recipe.model.strip() or "\0" in recipe.model:
        raise RlcrError(f"model: {recipe.model!r} is not a model name: give a folder, or a name on the hub")
    _check_task("task", recipe.task, recipe.split)
    if not is_built_file(recipe.task):
        checked(get_task(recipe.task), recipe.task_settings)
    elif recipe.task_settings:
        raise RlcrError("task_settings: cannot be set for problems that are already built")
    if recipe.eval_every is not None:
        _check_held_out(recipe)
    reward = reward_of(recipe)
    _check_credit(recipe, reward)
    check_micro_batch(recipe)
    if recipe.size is not None and recipe.size < recipe.prompts:
        raise RlcrError(
            f"size: {recipe.size:,} problems are fewer than the {recipe.prompts} prompts of one update:"
            " lower prompts, or take more problems"
        )
    _check_device(recipe.device)
    _check_precision(recipe)
    _check_vllm(recipe)
    if recipe.verifier is not None:
        check_own_name(recipe.verifier)
    ranges = {
        "warm_up.confidence": recipe.warm_up and recipe.warm_up.confidence,
        "difficulty.keep": recipe.difficulty and recipe.difficulty.keep,
    }
    for name, ends in ranges.items():
        if ends and ends[0] > ends[1]:
            raise RlcrError(f"{name}: {ends[0]:g} to {ends[1]:g} is empty; the lower one comes first")
    if recipe.difficulty and not Path(recipe.difficulty.run).is_dir():
        raise RlcrError(f"difficulty.run: no such folder: {recipe.difficulty.run}")
    if recipe.kl and (Path(recipe.model) / "adapter_config.json").exists():
        raise RlcrError(
            f"{recipe.model}: kl pulls towards the start, which cannot be an adapter; merge it first"
        )


def held_out_task(recipe: Recipe) -> tuple[str, Mapping[str, Any]]:
    """The task of the held-out problems and its settings: those of training, where it is the same task."""
    name = recipe.eval_task or recipe.task
    return name, recipe.task_settings if name == recipe.task else {}


def prompt_of(recipe: Recipe) -> Prompt:
    """The system prompt in training: the recipe's own, or its method's."""
    method = get_method(recipe.method)
    prompt = load_prompt(recipe.prompt or method.prompt, format=method.format)
    if prompt.format != method.format:
        raise RlcrError(
            f"prompt {prompt.name} asks for {_tags(prompt.format)}, but method {method.name}, by which the"
            f" model will be read, has {_tags(method.format)}"
        )
    return prompt


def own_prompt(recipe: Recipe) -> Prompt | None:
    """The user's own prompt file, with which the model is evaluated too; None for prompts of this package.

    Those may be for training alone: a model that was trained to abstain is evaluated being told never to.
    """
    return None if recipe.prompt is None or recipe.prompt in PROMPTS else prompt_of(recipe)


def reward_of(recipe: Recipe) -> Reward:
    """The reward, with the weights of the recipe and the tag set that its prompt asks for.

    A reward with a calibration part takes any tag set with a confidence; the others keep to their own.
    """
    prompt = prompt_of(recipe)
    reward = get_reward(recipe.reward, weights=recipe.weights)
    if "calibration" in reward.weights and "confidence" in _tags_of(prompt.format):
        return get_reward(recipe.reward, format=prompt.format, weights=recipe.weights)
    if prompt.format != reward.format:
        fitting = [name for name, one in REWARDS.items() if one.format == prompt.format]
        instead = f"; rewards that fit: {', '.join(fitting)}" if fitting else ""
        raise RlcrError(
            f"prompt {prompt.name} (method {recipe.method}) asks for {_tags(prompt.format)}, but reward"
            f" {recipe.reward} pays for {_tags(reward.format)}: change method or reward{instead}"
        )
    return reward


def check_micro_batch(recipe: Recipe, processes: int = 1) -> None:
    """Raise if an update cannot be cut into whole micro-batches, and say which size can."""
    try:
        recipe.accumulation(processes)
    except ValueError as error:
        rows, rest = divmod(recipe.completions, processes)
        if rest:
            raise RlcrError(f"{error}: choose prompts so that {processes} divides prompts x group") from None
        fitting = [size for size in range(1, rows + 1) if rows % size == 0]
        best = min(fitting, key=lambda size: (abs(size - recipe.micro_batch), size))
        raise RlcrError(f"{error}: the nearest that fits is micro_batch={best}") from None


def check_refill(recipe: Recipe, processes: int) -> None:
    """Raise where groups cannot be drawn again: TRL gives all processes as many rows of vLLM."""
    vllm = recipe.vllm
    together = vllm is not None and (vllm.server is not None or vllm.tensor_parallel > 1)
    if recipe.refill and processes > 1 and together:
        raise RlcrError(
            "refill: draws unlike numbers of completions for the processes, which one vLLM for several"
            " of them cannot do: set refill=0, or vllm=null (each process has its own)"
        )


def check_code(recipe: Recipe, run_code: bool) -> None:
    """Raise if the recipe names code of the user's own that nobody allowed to run."""
    if recipe.verifier is not None and not run_code:
        raise RlcrError(
            f"verifier {recipe.verifier} is code of your own: --run-code (run_code=True in Python) lets this"
            " recipe run it"
        )


def check_start(resolved: Resolved) -> None:
    """Raise if the recipe starts from another run's model and the user has not said where that is."""
    if resolved.model_missing:
        raise RlcrError(f"{resolved.name} {start_hint(resolved.recipe.after or '')}")


def start_hint(after: str) -> str:
    """What to do where a recipe comes after another.

    >>> start_hint("hotpotqa-rlvr")
    'starts from the model that hotpotqa-rlvr trained: give model=RUN/model'
    """
    from rlcr.training.recipes import RECIPES

    remark = "" if after in RECIPES else f" ({_WARM_UP})"
    return f"starts from the model that {after} trained{remark}: give model=RUN/model"


def check_problems(problems: Sequence[Problem]) -> None:
    """Raise if there is nothing to learn from: no problems, no gold, or no verifier that a reward can use."""
    if not problems:
        raise RlcrError("no problems to train on")
    without = [problem.id for problem in problems if not any(gold.strip() for gold in problem.gold)]
    if without:
        raise RlcrError(
            f"{len(without):,} of {len(problems):,} problems have no gold answer, such as {without[0]}:"
            " training needs one for each"
        )
    for problem in problems:
        if problem.verifier not in VERIFIERS:
            raise RlcrError(
                f"problem {problem.id} is graded by {problem.verifier}, which cannot reward in training:"
                f" choose one of {', '.join(VERIFIERS)}"
            )


def missing_packages(recipe: Recipe) -> list[str]:
    """The packages that this recipe needs beyond those of every run, and that are not installed here."""
    needed = {
        "vllm": recipe.sampler == "vllm",
        "peft": recipe.lora is not None,
        "bitsandbytes": recipe.optimizer == "adam8bit",
        "tensorboard": "tensorboard" in recipe.report_to,
        "wandb": "wandb" in recipe.report_to,
        "trackio": "trackio" in recipe.report_to,
    }
    return not_installed(package for package, wanted in needed.items() if wanted)


def begun(out: Path) -> bool:
    """Whether a run was begun in a folder, so that `--resume=auto` continues it."""
    return (out / TRAINING).is_file()


def check_out(out: Path, *, resume: bool = False) -> None:
    """Raise if the output folder is in use, or if there is nothing to resume in it."""
    if out.exists() and not out.is_dir():
        raise RlcrError(f"{out}: a file; --out names a folder")
    # A run that was killed while it began has left its lock alone.
    used = out.is_dir() and any(path.name != LOCK for path in out.iterdir())
    if used and not resume and not begun(out):
        raise RlcrError(f"{out}: not empty, and no training was begun in it; choose another --out")
    if used and not resume:
        raise RlcrError(f"{out}: not empty; --resume continues the run in it, else choose another --out")
    if resume and not used:
        raise RlcrError(f"{out}: nothing to resume; leave out --resume")


def _check_task(setting: str, name: str, split: str) -> None:
    if is_built_file(name):
        if not (path := built_file(name)[1]).is_file():
            raise RlcrError(f"{setting}: no such file: {path}")
        return
    task = get_task(name)
    if task.sizes and split not in task.sizes:
        raise RlcrError(f"{setting}: {name} has no split {split!r}: {nearest(split, list(task.sizes))}")


def _check_held_out(recipe: Recipe) -> None:
    name, _ = held_out_task(recipe)
    _check_task("eval_task", name, recipe.eval_split)
    if name != recipe.task:
        return
    if is_built_file(name):
        raise RlcrError(f"eval_every: {name} is what is trained on; name other problems with eval_task")
    if recipe.eval_split == recipe.split:
        raise RlcrError(
            f"eval_every: split {recipe.split} of {name} is what is trained on; name another with eval_split,"
            " or another task with eval_task"
        )


def _check_device(device: str) -> None:
    kind, _, number = device.partition(":")
    if kind not in DEVICES:
        raise RlcrError(f"device: unknown device {device!r}: {nearest(device, list(DEVICES))}")
    if number:
        raise RlcrError(f"device={device}: set CUDA_VISIBLE_DEVICES={number} and device={kind}")


def _check_vllm(recipe: Recipe) -> None:
    vllm = recipe.vllm
    if vllm is None:
        return
    if recipe.sampler != "vllm":
        raise RlcrError(f"vllm: says how vLLM samples, but sampler is {recipe.sampler}: set sampler=vllm")
    longest = recipe.max_prompt_tokens + recipe.max_completion_tokens
    if recipe.vllm_length < longest:
        raise RlcrError(
            f"vllm.max_model_len: {recipe.vllm_length:,} tokens do not hold a prompt and its completion"
            f" ({recipe.max_prompt_tokens:,} + {recipe.max_completion_tokens:,} = {longest:,} at most)"
        )
    if vllm.server is None:
        return
    if not vllm.server.startswith(("http://", "https://")):
        raise RlcrError(f"vllm.server: {vllm.server} is no address; write it as http://host:8000")
    inside = sorted(vllm.model_fields_set & {"memory", "tensor_parallel", "sleep"})
    if inside:
        raise RlcrError(
            f"vllm.{inside[0]}: is for vLLM inside the trainer; a server is told when it is started: leave it"
            " out, or leave out vllm.server"
        )


def _check_precision(recipe: Recipe) -> None:
    """Raise where what is trained would not be held in float32 at least: Adam's steps are about ``lr``.

    The spacing of bfloat16 around a weight of 0.02 is 1e-4, so that steps of 1e-6 round away. The optimiser
    keeps no float32 copy of its own. Adapters are float32 whatever their base is held in.
    """
    works = "dtype=auto holds weights in float32 and computes in bfloat16 on a GPU"
    if recipe.dtype == "float16":
        raise RlcrError(f"dtype=float16: small gradients become 0, since no loss is scaled here; {works}")
    if recipe.dtype == "bfloat16" and recipe.lora is None:
        raise RlcrError(
            f"dtype=bfloat16: steps of lr={recipe.lr:g} round away in weights held in bfloat16; {works}, or"
            " train adapters, which stay in float32 (lora.rank=16)"
        )


def _check_credit(recipe: Recipe, reward: Reward) -> None:
    if recipe.confidence_entropy and recipe.credit != "expected":
        raise RlcrError(f"confidence_entropy needs credit=expected; with credit={recipe.credit} use entropy")
    if recipe.confidence_replay and recipe.credit != "expected":
        raise RlcrError(
            "confidence_replay needs credit=expected: other gradients are those of the policy that sampled"
        )
    if recipe.confidence_replay and recipe.loss != "update":
        raise RlcrError(
            "confidence_replay needs loss=update: a micro-batch has only what was sampled together"
        )
    if recipe.credit == "all":
        return
    if "confidence" not in _tags_of(reward.format):
        raise RlcrError(
            f"credit {recipe.credit} acts on the confidence, but format {reward.format} has only"
            f" {_tags(reward.format)}: use credit=all, or a method that states confidence"
        )
    apart = recipe.credit in ("decoupled", "expected")
    needed = ("correctness", "calibration") if apart else ("calibration",)
    for part in needed:
        if part not in reward.weights:
            raise RlcrError(f"credit {recipe.credit} needs a {part} reward, which {recipe.reward} lacks")


def _tags_of(format: str | None) -> tuple[str, ...]:
    return get_format(format).tags if format else ("analysis",)


def _tags(format: str | None) -> str:
    return ", ".join(_tags_of(format))
