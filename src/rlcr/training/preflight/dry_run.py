"""`rlcr train --dry-run`: what a run would do, without loading a model or asking the network for one.

What cannot be known here (a tokenizer, a data set, the size of a model) is named, and the rest is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError
from rlcr.metrics.tables import aligned_text
from rlcr.problem import Problem
from rlcr.prompts import render
from rlcr.prompts.template import set_arguments
from rlcr.response import get_format
from rlcr.reward import Reward
from rlcr.tasks import TASKS, TaskSet
from rlcr.tasks.plumbing.source import find_files, given_data_dir
from rlcr.training.data import PreparedData, load_held_out, load_problems, measure_problems, too_many
from rlcr.training.launches import SHARDED
from rlcr.training.preflight.memory import by_launch, estimate, precisions
from rlcr.training.preflight.model_shape import find_shape, find_tokenizer
from rlcr.training.recipes import Resolved, Setting
from rlcr.training.recipes.checks import held_out_task, missing_packages, prompt_of, reward_of, start_hint
from rlcr.training.recipes.settings import Recipe
from rlcr.training.warm_up_data import SOURCES, already_warm, choose_source

_DEVICES = (1, 2, 4, 8)
_LONGEST_SHOWN = 3000  # characters of a prompt
_BAR = 40
_BINS = 10


@dataclass(frozen=True)
class DryRun:
    """What was found: titled blocks of lines, what could not be known, and what would stop the run."""

    blocks: tuple[tuple[str, tuple[str, ...]], ...]
    unknown: tuple[str, ...]
    error: str = ""

    def block(self, title: str) -> str:
        """The lines of a block."""
        return "\n".join(dict(self.blocks)[title])

    def __str__(self) -> str:
        unknown = [("Not known here", self.unknown)] if self.unknown else []
        return "\n\n".join("\n".join([f"── {title}", *lines]) for title, lines in [*self.blocks, *unknown])


def dry_run(resolved: Resolved, data_dir: Path | str | None = None) -> DryRun:
    """All that can be said of a run beforehand."""
    recipe = resolved.recipe
    unknown, error = [], ""
    if resolved.model_missing:
        unknown.append(f"model: the run {start_hint(recipe.after or '')}; below, {recipe.model} stands in")
    tokenizer, why = find_tokenizer(recipe.model)
    if tokenizer is None:
        unknown.append(f"prompt lengths and the chat template: {why}")
    else:
        set_arguments(tokenizer, recipe.chat_template, recipe.model)
    unknown += [f"whether it runs: {name} is not installed here" for name in missing_packages(recipe)]
    if recipe.verifier:
        unknown.append(
            f"what {recipe.verifier} says: your own code is not run here; rewards are by the task's"
        )
    task_set, why = _tried(lambda: load_problems(recipe, data_dir))
    data = None
    if task_set is None:
        if _is_here(recipe.task, recipe.split, data_dir):
            error = why
        else:
            unknown.append(f"problems: {why}")
    else:
        data = measure_problems(recipe, task_set, tokenizer)
        error = too_many(recipe, data)
    trained_on = task_set.problems if task_set else ()
    held_out_name, _ = held_out_task(recipe)
    held_out, why = None, ""
    if task_set is not None or held_out_name != recipe.task:  # else the reason is given above
        held_out, why = _tried(lambda: load_held_out(recipe, trained_on, data_dir))
    if why and _is_here(held_out_name, recipe.eval_split, data_dir):
        error = error or why
    elif why:
        unknown.append(f"held-out problems: {why}")
    warm_up, why = _warm_up_lines(recipe, data.problems if data else ())
    error = error or why
    problems = data.problems[:2] if data and data.problems else _made_up(recipe)
    blocks = [
        ("Settings", settings_lines(resolved.settings)),
        ("Data", _data_lines(task_set)),
        ("Held out", _held_out_lines(recipe, held_out)),
        ("Warm-up", warm_up),
        ("Batch", _batch_lines(recipe, len(data.problems) if data else None)),
        *_prompt_blocks(recipe, problems, tokenizer),
        ("Prompt lengths", _length_lines(recipe, data)),
        ("Memory of one device that holds everything, roughly", _memory_lines(recipe)),
        ("Memory of each of several devices, roughly", _launch_lines(recipe)),
        ("Reward of crafted responses", _reward_lines(reward_of(recipe), problems[0])),
    ]
    return DryRun(tuple((title, tuple(lines)) for title, lines in blocks), tuple(unknown), error)


# --- settings and data ------------------------------------------------------------------------------


def settings_lines(settings: Sequence[Setting]) -> list[str]:
    """The settings in columns: name, value, origin, source."""
    rows = [(setting.name, show(setting.value), setting.origin, setting.source) for setting in settings]
    return aligned_text([row for row in rows if row[0] != "about"])


def show(value: Any) -> str:
    """A value as a recipe would have it.

    >>> show(1e-06), show(None), show(("tensorboard",)), show({})
    ('1e-06', 'null', '[tensorboard]', '{}')
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"[{', '.join(map(show, value))}]" if isinstance(value, list | tuple) else str(value)


def _tried(load: Callable[[], TaskSet | None]) -> tuple[TaskSet | None, str]:
    try:
        return load(), ""
    except RlcrError as error:
        return None, str(error)


def _is_here(name: str, split: str, data_dir: Path | str | None) -> bool:
    """Whether the data of a task needs no network: then, what goes wrong with it is an error."""
    task = TASKS.get(name)
    if task is None or task.source is None:
        return True
    folder = given_data_dir(data_dir)
    return folder is not None and bool(find_files(folder, task.source.files.get(split, ())))


def _data_lines(task_set: TaskSet | None) -> Iterator[str]:
    if task_set is None:
        yield "none: see the end"
        return
    yield f"{len(task_set.problems):,} problems of {task_set.task}, {task_set.split}, from {task_set.source}"
    yield f"sha256 {task_set.sha256}"
    yield from (f"note: {note}" for note in task_set.notes)


def _held_out_lines(recipe: Recipe, task_set: TaskSet | None) -> Iterator[str]:
    if recipe.eval_every is None:
        yield "no evaluation (eval_every=null)"
        return
    yield f"every {recipe.eval_every} updates; the best by {recipe.eval_metric} is kept"
    yield from _data_lines(task_set)


def _warm_up_lines(recipe: Recipe, problems: Sequence[Problem]) -> tuple[list[str], str]:
    """What comes before RL, and what would stop it. ``problems`` are empty where they are not here."""
    warm = recipe.warm_up
    if warm is None:
        return ["none (warm_up=null): the model must keep the format by itself"], ""
    if already_warm(recipe.model, recipe.method):
        return [f"none: {recipe.model} was trained for these tags before"], ""
    source, error = warm.source, ""
    if problems:
        try:
            source = choose_source(warm, problems)
        except RlcrError as fault:
            error = str(fault)
    lowest, highest = warm.confidence
    updates = warm.epochs * -(-warm.examples // warm.batch)
    lines = [
        f"up to {warm.examples:,} responses {SOURCES[source]}",
        f"confidences drawn from {lowest:g} to {highest:g}",
        f"up to {updates:,} updates of {warm.batch} at lr {warm.lr:g}, before RL",
        f"{warm.held_out:,} responses to other problems are sampled before and after",
    ]
    return lines, error


def _made_up(recipe: Recipe) -> tuple[Problem, ...]:
    """Two problems in place of the task's own, where those are not here."""
    task = TASKS.get(recipe.task)
    verifier = task.verifier if task and task.verifier in ("exact", "math") else "exact"
    instruction = task.instruction if task else ""
    return (
        Problem("made-up/1", "What is 6 x 7?", ("42",), verifier, instruction),
        Problem("made-up/2", "How many days have two weeks?", ("14",), verifier, instruction),
    )


# --- batch and memory -------------------------------------------------------------------------------


def _batch_lines(recipe: Recipe, problems: int | None) -> Iterator[str]:
    yield f"{recipe.prompts} prompts x {recipe.group} = {recipe.completions:,} completions per update"
    if recipe.shared_prompts:
        yield f"learned from in passes of up to {recipe.pass_tokens:,} tokens, each prompt once for its group"
    for devices in _DEVICES:
        try:
            steps = recipe.accumulation(devices)
        except ValueError:
            continue
        on = f"on {devices} device{'s' * (devices > 1)}"
        if recipe.shared_prompts:
            yield f"{on}: {recipe.completions // devices:,} completions"
        else:
            yield f"{on}: micro-batches of {recipe.micro_batch}, accumulated over {steps:,}"
    if problems is None:
        # What the recipe asks for stands in for what is there.
        problems = recipe.size
        if problems is None:
            yield "updates: unknown without the problems"
            return
    each, rest = divmod(problems, recipe.prompts)
    total = recipe.total_updates(problems)
    left = f" ({rest} problems of each shuffle are left over)" if rest else ""
    yield f"{problems:,} problems / {recipe.prompts} = {each:,} updates per epoch{left}"
    passes = f", {total / each:.3g} times through the problems" if each else ""
    yield f"{total:,} updates in all{passes}: {total * recipe.completions:,} completions"


def _memory_lines(recipe: Recipe) -> Iterator[str]:
    shape, source = find_shape(recipe.model)
    if shape is None:
        yield f"unknown: {source}"
        return
    held, computed = precisions(recipe)
    memory = estimate(recipe, shape)
    yield f"{_count(shape.parameters)} parameters ({source}), held in {held}, computed in {computed}"
    if recipe.lora:
        adapters = _count(shape.adapter_parameters(recipe.lora.rank))
        yield f"{adapters} more in adapters, held in float32, the only ones trained"
    limit = f"{recipe.max_prompt_tokens} + {recipe.max_completion_tokens} tokens"
    ours = recipe.sampler == "rlcr" and memory.cast
    yield from aligned_text(
        [
            ("weights", _gigabytes(memory.weights)),
            *([("their copy", f"{_gigabytes(memory.copy)}  in {computed}")] if memory.copy else []),
            ("gradients", _gigabytes(memory.gradients)),
            ("Adam states", _gigabytes(memory.adam)),
            ("activations", f"{_gigabytes(memory.activations)}  {recipe.micro_batch} sequences of {limit}"),
            ("logits", _gigabytes(memory.logits)),
            *([("vLLM", _gigabytes(memory.vllm))] if memory.vllm else []),
            ("together", _gigabytes(memory.total)),
            ("sampling cache", f"{_gigabytes(memory.cache)}  one group of {recipe.group} at the limit"),
            *([("sampling copy", f"{_gigabytes(memory.cast)}  linear layers in {computed}")] if ours else []),
            *([("while sampling", _gigabytes(memory.sampling))] if recipe.sampler == "rlcr" else []),
            ("host memory", f"{_gigabytes(memory.host)}  while the weights are loaded, for each process"),
        ]
    )


def _launch_lines(recipe: Recipe) -> Iterator[str]:
    shape, source = find_shape(recipe.model)
    if shape is None:
        yield f"unknown: {source}"
        return
    devices = [number for number in _DEVICES if number > 1]
    found = by_launch(recipe, shape, tuple(devices))
    rows = [["launch", *(f"{number} devices" for number in devices)]]
    for launch, totals in found.items():
        name = f"{launch}, vLLM samples" if launch in SHARDED else launch
        rows.append([name, *(f"{_gigabytes(total)}" for total in totals)])
    yield from aligned_text(rows)
    yield "`rlcr launch-config` writes the configuration of each"


def _count(number: float) -> str:
    return f"{number / 1e9:.2f}B" if number >= 1e9 else f"{number / 1e6:.2f}M"


def _gigabytes(count: float) -> str:
    return f"{count / 1e9:8.2f} GB"


# --- prompts ----------------------------------------------------------------------------------------


def _prompt_blocks(
    recipe: Recipe, problems: Sequence[Problem], tokenizer: Any | None
) -> Iterator[tuple[str, list[str]]]:
    kind = "plain text: no tokenizer here"
    if tokenizer is not None:
        kind = "the model's chat template" if tokenizer.chat_template else "plain text: no chat template"
    for problem in problems:
        text = _shortened(render(prompt_of(recipe), problem, tokenizer))
        yield f"Prompt of {problem.id} ({kind})", text.splitlines()


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST_SHOWN:
        return text
    half = _LONGEST_SHOWN // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half:,} characters …]\n{text[-half:]}"


def _length_lines(recipe: Recipe, data: PreparedData | None) -> Iterator[str]:
    limit = recipe.max_prompt_tokens
    if data is None or not data.lengths:
        yield f"unknown here; the limit is {limit} tokens"
        return
    longest = max(data.lengths)
    width = -(-max(longest, limit) // _BINS)
    counts = [0] * (max(longest, limit) // width + 1)
    for length in data.lengths:
        counts[length // width] += 1
    yield from aligned_text(
        [
            (f"{number * width:>6} - {(number + 1) * width - 1}", f"{count:>7,}", _bar(count, max(counts)))
            for number, count in enumerate(counts)
        ]
    )
    over = len(data.dropped)
    share = over / len(data.lengths)
    yield f"limit {limit}, longest {longest}; over the limit and left out: {over:,} ({share:.2%})"
    yield from (f"  {name}: {length} tokens" for name, length in data.dropped[:5])
    if over > 5:
        yield f"  and {over - 5:,} more"


def _bar(count: int, most: int) -> str:
    return "█" * max(round(_BAR * count / most), count > 0)


# --- rewards ----------------------------------------------------------------------------------------


def crafted_responses(reward: Reward, problem: Problem) -> dict[str, str]:
    """Responses that are right and wrong, sure and unsure, and worse, in the tag set of the reward."""
    tags = get_format(reward.format).tags

    def response(answer: str, confidence: str = "") -> str:
        parts = {"think": "…", "answer": answer, "analysis": "…", "confidence": confidence}
        return get_format(reward.format).render(**{tag: parts[tag] for tag in tags})

    right, wrong = problem.gold[0], _wrong_answer(problem)
    if "confidence" not in tags:
        # Sure or not, it cannot say so.
        responses = {"right": response(right), "wrong": response(wrong)}
    else:
        responses = {
            f"{kind}, {how} ({confidence})": response(answer, confidence)
            for kind, answer in (("right", right), ("wrong", wrong))
            for how, confidence in (("sure", "0.9"), ("unsure", "0.1"))
        }
    if "abstention" in reward.weights:
        responses["I don't know"] = response("I don't know")
    return responses | {"malformed": right}


def _wrong_answer(problem: Problem) -> str:
    from rlcr.verify import verify

    candidates = ["-1", "0", "none of these"]
    verdicts = verify([problem] * len(candidates), candidates)
    wrong = [a for a, verdict in zip(candidates, verdicts, strict=True) if verdict.outcome == "wrong"]
    return wrong[0] if wrong else candidates[-1]


def _reward_lines(reward: Reward, problem: Problem) -> list[str]:
    responses = crafted_responses(reward, problem)
    scored = reward.score(list(responses.values()), [problem] * len(responses))
    names = list(scored.rewards.parts)
    rows = [["response", *(f"{name} x {reward.weights[name]:g}" for name in names), "reward"]]
    for row, name in enumerate(responses):
        total = scored.rewards.totals()[row]
        parts = [f"{scored.rewards.parts[part][row]:.4g}" for part in names]
        rows.append([name, *parts, "unscorable" if total is None else f"{total:.4g}"])
    where = f"problem {problem.id}, gold {problem.gold[0]!r}, verifier {problem.verifier}"
    return [where, *aligned_text(rows)]
