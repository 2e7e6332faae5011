"""Prompts over the limit: dropped, counted and listed, or refused when they are too many."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.tiny import tiny_model, tiny_tokenizer
from tokenizers.processors import TemplateProcessing

from rlcr.errors import RlcrError
from rlcr.problem import Problem
from rlcr.prompts import load_prompt, messages, render
from rlcr.sample import Request, Sampling
from rlcr.sample.jobs import Maker
from rlcr.tasks import TaskSet, load, write_problems
from rlcr.training.data import (
    check_positions,
    load_held_out,
    load_problems,
    measure_problems,
    prepare_problems,
    render_prompts,
)
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
    small = {"max_prompt_tokens": 1000, "size": 2000, "prompts": 8, "group": 8, "micro_batch": 8}
    return load_recipe("tiny-arms-rlvr", small | changes).recipe


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
    found = load_problems(recipe(size=9, task_settings={"arms": 3}))
    assert (len(found.problems), found.split, found.settings["arms"]) == (9, "train", 3)


# --- held out ---------------------------------------------------------------------------------------


def bigmath(folder: Path) -> Path:
    """Big-Math as it is published: one split."""
    rows = [
        {"problem": f"{n} + 1?", "answer": str(n + 1), "source": "x", "llama8b_solve_rate": (n % 10) / 10}
        for n in range(400)
    ]
    (folder / "bigmath").mkdir()
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "bigmath" / "train.jsonl").write_text(lines, encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", ["bigmath-rlcr", "bigmath-rlvr-authors-config"])
def test_held_out_is_the_test_split_with_the_settings_of_training(name: str, tmp_path: Path) -> None:
    changes = {"size": None, "eval_size": 10, "task_settings.min_solve_rate": 0.3, "data_seed": 5}
    chosen = load_recipe(name, changes).recipe
    trained = load_problems(chosen, bigmath(tmp_path))
    held_out = load_held_out(chosen, trained.problems, tmp_path)
    assert held_out is not None
    assert (held_out.task, held_out.split, len(held_out.problems)) == ("bigmath-digits", "test", 10)
    assert held_out.settings == trained.settings
    low, high = trained.settings["min_solve_rate"], trained.settings["max_solve_rate"]
    assert all(low < problem.extras["solve_rate"] <= high for problem in held_out.problems)
    assert not {p.question for p in held_out.problems} & {p.question for p in trained.problems}
    assert not any("asked in training" in note for note in held_out.notes)


def test_nothing_is_held_out_without_evaluation() -> None:
    assert load_held_out(recipe(), ()) is None


def test_problems_that_are_trained_on_are_not_held_out(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    write_problems(path, load("arms", "train", size=20).problems[5:12])
    chosen = recipe(eval_every=1, eval_task=str(path), size=10)
    with pytest.raises(
        RlcrError, match=r"eval_every: 5 of 7 held-out problems are trained on, such as arms/"
    ):
        load_held_out(chosen, load_problems(chosen).problems)


def test_questions_that_are_asked_twice_are_counted() -> None:
    chosen = recipe(eval_every=1, eval_size=50)
    held_out = load_held_out(chosen, load_problems(chosen).problems)
    assert held_out is not None
    (note,) = held_out.notes  # the toy has few questions
    assert note.endswith(" of these 50 questions are asked in training too")


def test_a_held_out_task_that_cannot_be_had() -> None:
    with pytest.raises(RlcrError, match="eval_every: gym: give the setting dataset"):
        load_held_out(recipe(eval_every=1, eval_task="gym"), ())


@pytest.mark.parametrize(("long", "message"), [(2, "longest prompt has"), (0, "longest held-out prompt has")])
def test_prompts_without_room_for_an_answer_are_found_before_training(
    tokenizer: Any, long: int, message: str
) -> None:
    chosen = recipe(max_prompt_tokens=5000)
    data = prepare_problems(chosen, task_set(long=long), tokenizer)
    check_positions(chosen, tiny_model(max_position_embeddings=4000), data, task_set(long=1), tokenizer)
    with pytest.raises(RlcrError, match=f"embedded has 1000 positions, but the {message}"):
        check_positions(chosen, tiny_model(max_position_embeddings=1000), data, task_set(long=1), tokenizer)


@pytest.mark.parametrize("template", [None, "{{ messages[1].content }}<|im_end|>"])
@pytest.mark.parametrize("around", ["<|im_start|> $A <|im_end|>", "$A <|endoftext|>", "<|im_start|> $A"])
@pytest.mark.parametrize(
    "question", ["What is the sum?", "half a character: \ud83d", "\udc00 ends it <|im_end|>"]
)
def test_training_reads_the_prompts_that_the_sampler_reads(
    template: str | None, around: str, question: str
) -> None:
    """Also where the tokenizer ends every text, and where the text is no valid Unicode."""
    tokenizer = tiny_tokenizer(chat_template=template)
    special = [(token, tokenizer.convert_tokens_to_ids(token)) for token in around.split() if token != "$A"]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(around, None, special)
    problem, prompt = Problem("p", question, ("4",), "math"), load_prompt("rlvr")
    (trained,) = render_prompts(prompt, [problem], tokenizer)
    maker = Maker(tokenizer, Sampling(), frozenset([tokenizer.eos_token_id]), None)
    sampled = maker.job(Request("p", tuple(messages(prompt, problem))))
    assert tuple(trained.ids) == sampled.ids
    last = tokenizer.convert_tokens_to_ids("<|im_end|>")  # where a template writes it, it stays
    assert (trained.ids[-1] == last) == (template is not None)
    assert (trained.ids[0] == 1) == (template is None and around.startswith("<|im_start|>"))
    trained.text.encode()
