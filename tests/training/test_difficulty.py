# pyright: basic
"""Problems that a finished evaluation always or never solved are left out, counted and named."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.confidence.colour_runs import raw, write_run

from rlcr.errors import RlcrError
from rlcr.problem import Problem
from rlcr.tasks import write_problems
from rlcr.training.data import load_problems
from rlcr.training.preflight.dry_run import dry_run
from rlcr.training.recipes import load_recipe

#: How many of four samples are right; None: not in the run.
RIGHT = {"never": 0, "once": 1, "mostly": 3, "always": 4, "unknown": None}


def text(answer: str) -> str:
    return f"<think>so</think><answer>{answer}</answer><confidence>0.5</confidence>"


@pytest.fixture
def changes(tmp_path: Path) -> dict[str, object]:
    problems = [Problem(name, f"How often is {name}?", ("4",), "exact") for name in RIGHT]
    write_problems(tmp_path / "mine.jsonl", problems)
    known = [problem for problem in problems if RIGHT[problem.id] is not None]
    records = [
        raw(problem.id, sample, text("4" if sample < (RIGHT[problem.id] or 0) else "5"))
        for problem in known
        for sample in range(4)
    ]
    write_run(tmp_path / "base", records, known)
    return {
        "task": str(tmp_path / "mine.jsonl"), "task_settings": None, "size": None, "prompts": 1, "group": 2,
        "micro_batch": 2, "warm_up": None, "difficulty.run": str(tmp_path / "base"),
    }  # fmt: skip


def test_what_teaches_is_kept(changes: dict[str, object]) -> None:
    resolved = load_recipe("smollm2-rlcr", changes)
    kept = load_problems(resolved.recipe)
    assert [problem.id for problem in kept.problems] == ["once", "mostly"]
    assert kept.notes[-1].startswith("2 of 5 problems have a solve rate of 0.1 to 0.9 in ")
    assert kept.notes[-1].endswith(": 1 are harder, 1 easier, 1 are not in it")
    assert kept.notes[-1] in dry_run(resolved).block("Data")
    all_of_them = load_recipe("smollm2-rlcr", {**changes, "difficulty": None}).recipe
    assert load_problems(all_of_them).sha256 != kept.sha256
    easier = load_recipe("smollm2-rlcr", {**changes, "difficulty.keep": [0.5, 1]}).recipe
    assert [problem.id for problem in load_problems(easier).problems] == ["mostly", "always"]


def test_what_cannot_be_filtered_says_so(changes: dict[str, object], tmp_path: Path) -> None:
    none = load_recipe("smollm2-rlcr", {**changes, "difficulty.keep": [0.3, 0.6]}).recipe
    with pytest.raises(RlcrError, match="difficulty.keep: 0 of 5 problems have a solve rate of 0.3 to 0.6"):
        load_problems(none)
    with pytest.raises(RlcrError, match="difficulty.keep: 0.9 to 0.1 is empty; the lower one comes first"):
        load_recipe("smollm2-rlcr", {**changes, "difficulty.keep": [0.9, 0.1]})
    with pytest.raises(RlcrError, match="difficulty.run: no such folder: nowhere"):
        load_recipe("smollm2-rlcr", {**changes, "difficulty.run": "nowhere"})
    # The same ids, but other questions.
    write_problems(tmp_path / "mine.jsonl", [Problem(name, "Another?", ("4",), "exact") for name in RIGHT])
    with pytest.raises(RlcrError, match="holds none of these 5 problems: evaluate them first"):
        load_problems(load_recipe("smollm2-rlcr", changes).recipe)
