"""Prompts over the limit: dropped, counted and listed, or refused when they are too many."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.tiny import tiny_tokenizer

from rlcr.errors import RlcrError
from rlcr.problem import Problem
from rlcr.prompts import load_prompt, render
from rlcr.tasks import TaskSet, load
from rlcr.training.data import load_problems, measure_problems, prepare_problems
from rlcr.training.recipes import load_recipe
from rlcr.training.recipes.settings import Recipe


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return tiny_tokenizer()


def task_set(long: int, total: int = 200) -> TaskSet:
    """So many problems, of which the last few are long."""
    problems = [
        Problem(f"p/{number}", "What? " * (400 if number >= total - long else 1), ("4",), "math")
        for number in range(total)
    ]
    return replace(load("arms", "train", size=1), problems=tuple(problems), task="p")


def recipe(**changes: Any) -> Recipe:
    return load_recipe("smollm2-rlvr", {"max_prompt_tokens": 1000, **changes}).recipe


def test_up_to_one_in_a_hundred_is_dropped_and_listed(tokenizer: Any) -> None:
    prepared = prepare_problems(recipe(), task_set(long=2), tokenizer)
    assert len(prepared.problems) == 198
    assert [name for name, _ in prepared.dropped] == ["p/198", "p/199"]
    assert all(length > 1000 for _, length in prepared.dropped)
    assert len(prepared.lengths) == 200


def test_more_are_an_error_that_says_what_to_do(tokenizer: Any) -> None:
    longest = max(measure_problems(recipe(), task_set(long=3), tokenizer).lengths)
    with pytest.raises(RlcrError) as error:
        prepare_problems(recipe(), task_set(long=3), tokenizer)
    assert str(error.value) == (
        "3 of 200 prompts (1.5%) are longer than max_prompt_tokens = 1000; at most 1% may be left out."
        f" The longest has {longest} tokens: raise the limit, or choose other problems"
    )
    assert not prepare_problems(recipe(max_prompt_tokens=longest), task_set(long=3), tokenizer).dropped


@pytest.mark.parametrize("template", [True, False])
def test_a_length_is_that_of_the_rendered_prompt(template: bool) -> None:
    tokenizer = tiny_tokenizer() if template else tiny_tokenizer(chat_template=None)
    tasks = task_set(long=0, total=30)
    prompt = load_prompt("rlvr")
    slow = [
        len(tokenizer(render(prompt, problem, tokenizer), add_special_tokens=not template)["input_ids"])
        for problem in tasks.problems
    ]
    assert list(prepare_problems(recipe(), tasks, tokenizer).lengths) == slow


def test_without_a_tokenizer_nothing_is_measured_or_dropped() -> None:
    prepared = prepare_problems(recipe(), task_set(long=100), None)
    assert (len(prepared.problems), prepared.dropped, prepared.lengths) == (200, (), ())


def test_too_few_problems_for_one_update(tokenizer: Any) -> None:
    with pytest.raises(RlcrError, match="5 problems are fewer than the 8 prompts of one update"):
        prepare_problems(recipe(), task_set(long=0, total=5), tokenizer)


def test_problems_without_gold_are_refused() -> None:
    tasks = task_set(long=0)
    broken = replace(tasks, problems=(*tasks.problems, Problem("p/x", "?", (), "math")))
    with pytest.raises(RlcrError, match="1 of 201 problems have no gold answer, such as p/x"):
        prepare_problems(recipe(), broken, None)


def test_the_problems_that_a_recipe_names() -> None:
    found = load_problems(load_recipe("smollm2-rlcr", {"size": 7, "task_settings.arms": 3}).recipe)
    assert (len(found.problems), found.split, found.settings["arms"]) == (7, "train", 3)
