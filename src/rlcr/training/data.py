"""The problems of a run: those to train on whose prompts fit, and those that are held out.

Prompts over the limit are left out, counted and listed, never cut: a question without its end cannot be
answered. More than one in a hundred is an error, since the run would then be one on other data.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError
from rlcr.evaluate.methods import get_method
from rlcr.problem import Problem
from rlcr.prompts import Prompt, load_prompt, messages
from rlcr.sample.tokens import encode_prompts
from rlcr.tasks import TaskSet, load_at_most, load_with, overlap
from rlcr.training.difficulty import kept_by_difficulty
from rlcr.training.recipes.checks import check_problems, held_out_task, own_prompt, prompt_of
from rlcr.training.recipes.settings import Recipe

#: The share of prompts over the limit that is tolerated.
TOLERATED = 0.01

_BATCH = 256


@dataclass(frozen=True)
class PreparedData:
    """What a run trains on.

    ``prompts`` are those of the problems, rendered and tokenised once for the whole run. ``lengths`` are in
    tokens, one for each problem of the set, kept or dropped. Both are empty where there was no tokenizer, and
    then nothing is dropped.
    """

    problems: tuple[Problem, ...]
    dropped: tuple[tuple[str, int], ...]
    lengths: tuple[int, ...]
    prompts: tuple[RenderedPrompt, ...] = ()


@dataclass(frozen=True, slots=True)
class RenderedPrompt:
    """The text that the model continues, and its tokens."""

    text: str
    ids: array[int]


def load_problems(recipe: Recipe, data_dir: Path | str | None = None) -> TaskSet:
    """The problems that a recipe names."""
    built = load_with(
        recipe.task,
        recipe.split,
        size=recipe.size,
        seed=recipe.data_seed,
        data_dir=data_dir,
        verifier=None,
        settings=recipe.task_settings,
    )
    check_problems(built.problems)
    return kept_by_difficulty(built, recipe.difficulty) if recipe.difficulty else built


def load_held_out(
    recipe: Recipe, trained_on: Sequence[Problem], data_dir: Path | str | None = None
) -> TaskSet | None:
    """The problems of the held-out evaluation, none of which is trained on; None where there is none.

    A question may still be asked in both, by two problems: the toy arms have few questions, with a new gold
    at each draw. How many are, the notes say.
    """
    if recipe.eval_every is None:
        return None
    name, settings = held_out_task(recipe)
    try:
        built = load_at_most(name, recipe.eval_split, recipe.eval_size, data_dir=data_dir, settings=settings)
        check_problems(built.problems)
    except RlcrError as error:
        raise RlcrError(f"eval_every: {error}") from None
    ids = {problem.id for problem in trained_on}
    if both := [problem.id for problem in built.problems if problem.id in ids]:
        raise RlcrError(
            f"eval_every: {len(both):,} of {len(built.problems):,} held-out problems are trained on, such as"
            f" {both[0]}; name other problems with eval_task"
        )
    shared = overlap(tuple(trained_on), built.problems)
    count = len(shared.exact) + len(shared.normalised)
    note = f"{count:,} of these {len(built.problems):,} questions are asked in training too"
    return replace(built, notes=(*built.notes, note)) if count else built


def graded_by(verifier: str, task_set: TaskSet) -> TaskSet:
    """The same problems, each with this verifier."""
    problems = tuple(replace(problem, verifier=verifier) for problem in task_set.problems)
    return replace(task_set, problems=problems, verifier=verifier)


def prepare_problems(recipe: Recipe, task_set: TaskSet, tokenizer: Any | None) -> PreparedData:
    """The problems whose prompts fit; raises if more than one in a hundred do not."""
    prepared = measure_problems(recipe, task_set, tokenizer)
    if message := too_many(recipe, prepared):
        raise RlcrError(message)
    return prepared


def measure_problems(recipe: Recipe, task_set: TaskSet, tokenizer: Any | None) -> PreparedData:
    """The same, however many do not fit."""
    check_problems(task_set.problems)
    if tokenizer is None:
        return PreparedData(task_set.problems, (), ())
    kept, dropped, lengths, prompts = [], [], [], []
    rendered = render_prompts(prompt_of(recipe), task_set.problems, tokenizer)
    for problem, prompt in zip(task_set.problems, rendered, strict=True):
        lengths.append(len(prompt.ids))
        if len(prompt.ids) > recipe.max_prompt_tokens:
            dropped.append((problem.id, len(prompt.ids)))
        else:
            kept.append(problem)
            prompts.append(prompt)
    return PreparedData(tuple(kept), tuple(dropped), tuple(lengths), tuple(prompts))


def too_many(recipe: Recipe, prepared: PreparedData) -> str:
    """What to say if too many prompts are too long, or too few are left for one update; else empty."""
    count, total = len(prepared.dropped), len(prepared.lengths)
    if count > TOLERATED * total:
        return (
            f"{count:,} of {total:,} prompts ({count / total:.1%}) are longer than max_prompt_tokens ="
            f" {recipe.max_prompt_tokens}; at most {TOLERATED:.0%} may be left out. The longest has"
            f" {max(prepared.lengths)} tokens: raise the limit, or choose other problems"
        )
    if len(prepared.problems) < recipe.prompts:
        return (
            f"{len(prepared.problems):,} problems are fewer than the {recipe.prompts} prompts of one update:"
            " lower prompts, or take more problems"
        )
    return ""


def check_positions(
    recipe: Recipe, model: Any, data: PreparedData, held_out: TaskSet | None, tokenizer: Any
) -> None:
    """Raise if a prompt leaves the model no room to answer: the sampler would, in the middle of the run."""
    positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if positions is None:
        return
    longest = max(len(prompt.ids) for prompt in data.prompts)
    if longest >= positions:
        raise RlcrError(
            f"{recipe.model} has {positions} positions, but the longest prompt has {longest} tokens: lower"
            " max_prompt_tokens, over which prompts are left out"
        )
    if held_out is None:
        return
    method = get_method(recipe.method)
    prompt = own_prompt(recipe) or load_prompt(method.prompt, format=method.format)
    longest = max(len(one.ids) for one in render_prompts(prompt, held_out.problems, tokenizer))
    if longest >= positions:
        raise RlcrError(
            f"eval_every: {recipe.model} has {positions} positions, but the longest held-out prompt has"
            f" {longest} tokens: name other problems with eval_task"
        )


def render_prompts(prompt: Prompt, problems: Sequence[Problem], tokenizer: Any) -> Iterator[RenderedPrompt]:
    """Each problem's prompt, rendered and tokenised as the sampler does it."""
    remaining = iter(problems)
    while batch := list(islice(remaining, _BATCH)):
        for text, ids in encode_prompts([messages(prompt, problem) for problem in batch], tokenizer):
            yield RenderedPrompt(text, array("i", ids))
