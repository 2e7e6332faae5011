"""Every task on the real files: whole, unique, and each gold accepted by its own verifier."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlcr.problem import Problem
from rlcr.prompts import PROMPTS, load_prompt, render
from rlcr.tasks import TASKS, load
from rlcr.verify import verify

COUNTS = {
    ("hotpotqa", "train"): 394,  # 399 rows, 5 with too few paragraphs
    ("hotpotqa", "test"): 581,  # 586 rows, 3 with too few paragraphs, 2 that repeat a question
    ("hotpotqa-modified", "train"): 394,
    ("hotpotqa-modified", "test"): 500,
    ("bigmath-digits", "test"): 1000,
    ("math500", "test"): 500,
    ("gsm8k", "train"): 7473,
    ("gsm8k", "test"): 1319,
    ("triviaqa", "test"): 2000,
    ("simpleqa", "test"): 4326,
    ("commonsenseqa", "train"): 9741,
    ("commonsenseqa", "test"): 1221,
}
#: Problems whose gold fails its own verifier, by id, with the reason. There are none.
EXCEPTIONS: dict[str, str] = {}

each_set = pytest.mark.parametrize(("name", "split"), COUNTS, ids=str)


def dressed(problem: Problem) -> str:
    """The gold as a model might write it, so that the verifier has to read it and cannot just compare."""
    gold = problem.gold[-1]
    if problem.verifier == "math":
        return rf"\boxed{{{gold}}}"
    return gold[0] if problem.verifier == "choice" else f" {gold}\n"


def wrong(problem: Problem) -> str:
    if problem.verifier == "math":
        return "-31337.25"
    if problem.verifier == "choice":
        # Some questions have an option twice.
        gold = problem.gold[0][3:]
        return next(key for key, option in problem.extras["choices"].items() if option != gold)
    return "no such thing as this"


@each_set
def test_loads_whole_with_unique_ids(name: str, split: str, shared_data: Path) -> None:
    tasks = load(name, split, data_dir=shared_data)
    assert len(tasks.problems) == COUNTS[name, split]
    assert len({problem.id for problem in tasks.problems}) == len(tasks.problems)
    assert tasks.verifier == TASKS[name].verifier
    assert all(problem.instruction and problem.gold for problem in tasks.problems)
    assert tasks.provenance()["sha256"] == tasks.sha256
    assert len(tasks.source_sha256) == 64


@each_set
def test_gold_is_right_and_another_answer_wrong(name: str, split: str, shared_data: Path) -> None:
    problems = load(name, split, data_dir=shared_data).problems
    plain = verify(problems, [problem.gold[0] for problem in problems])
    written = verify(problems, [dressed(problem) for problem in problems])
    failed = {
        problem.id
        for problem, *verdicts in zip(problems, plain, written, strict=True)
        if not all(verdict.correct for verdict in verdicts)
    }
    assert failed == {name for name in EXCEPTIONS if name in {problem.id for problem in problems}}
    verdicts = verify(problems, [wrong(problem) for problem in problems])
    assert [p.id for p, verdict in zip(problems, verdicts, strict=True) if verdict.correct is not False] == []


@pytest.mark.parametrize("name", sorted({name for name, _ in COUNTS}))
def test_renders_in_every_prompt(name: str, shared_data: Path) -> None:
    problems = load(name, data_dir=shared_data, size=200).problems
    assert len(problems) == 200
    for prompt in map(load_prompt, PROMPTS):
        for problem in problems:
            rendered = render(prompt, problem)
            assert problem.question in rendered
            assert problem.instruction in rendered


def test_both_carriers_of_commonsenseqa_give_the_same_problems(shared_data: Path, data_dir: Path) -> None:
    carrier = shared_data / "commonsenseqa" / "rlcr_eval.jsonl"
    (data_dir / "commonsenseqa").mkdir()
    (data_dir / "commonsenseqa" / carrier.name).symlink_to(carrier)
    original, authors = load("commonsenseqa", data_dir=shared_data), load("commonsenseqa", data_dir=data_dir)
    assert (original.source, authors.source) == ("commonsenseqa/dev.jsonl", "commonsenseqa/rlcr_eval.jsonl")
    assert original.sha256 == authors.sha256


def test_the_re_keyed_carrier_of_hotpotqa_can_be_read(shared_data: Path, data_dir: Path) -> None:
    (data_dir / "hotpotqa").mkdir()
    carrier = shared_data / "hotpotqa" / "distractor_mas.jsonl.gz"
    (data_dir / "hotpotqa" / "distractor_train.jsonl.gz").symlink_to(carrier)
    tasks = load("hotpotqa-modified", "train", data_dir=data_dir)
    assert len(tasks.problems) == 247  # 250 rows, 3 with too few paragraphs
    assert "3 questions left out, fewer than 8 other paragraphs" in " ".join(tasks.notes)


def test_the_authors_trivia_file_repeats_questions(shared_data: Path) -> None:
    tasks = load("triviaqa", data_dir=shared_data)
    assert "304 rows repeat the question of an earlier row" in tasks.notes
    assert sum("#" in problem.id for problem in tasks.problems) == 304
