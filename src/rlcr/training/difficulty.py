"""Leave out problems that a model always or never solves: all samples of a group then earn alike.

How often each is solved comes from a finished `rlcr eval` of the same problems, usually by the model that
training starts from, with several samples of each.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from rlcr.errors import RlcrError
from rlcr.runs.store import open_run
from rlcr.tasks import TaskSet
from rlcr.training.recipes.settings import Difficulty


def kept_by_difficulty(task_set: TaskSet, difficulty: Difficulty) -> TaskSet:
    """The problems whose solve rate lies within the bounds; what is left out is counted in the notes.

    Of the rate only completions count that could be verified. Problems that the run does not hold are left
    out too: a problem with the same id but another question is another problem.
    """
    rates = solve_rates(Path(difficulty.run))
    lowest, highest = difficulty.keep
    kept, hard, easy, unknown = [], 0, 0, 0
    for problem in task_set.problems:
        rate = rates.get((problem.id, problem.question))
        if rate is None:
            unknown += 1
        elif rate < lowest:
            hard += 1
        elif rate > highest:
            easy += 1
        else:
            kept.append(problem)
    total = len(task_set.problems)
    if unknown == total:
        raise RlcrError(
            f"difficulty.run: {difficulty.run} holds none of these {total:,} problems: evaluate them first,"
            f" with `rlcr eval --task {task_set.task} --split {task_set.split} --samples 8`"
        )
    note = (
        f"{len(kept):,} of {total:,} problems have a solve rate of {lowest:g} to {highest:g} in"
        f" {difficulty.run}: {hard:,} are harder, {easy:,} easier, {unknown:,} are not in it"
    )
    if not kept:
        raise RlcrError(f"difficulty.keep: {note}")
    return replace(task_set, problems=tuple(kept), notes=(*task_set.notes, note))


def solve_rates(folder: Path) -> dict[tuple[str, str], float]:
    """The share of right answers to each problem of a run, by its id and its question."""
    run = open_run(folder)
    verdicts: dict[str, list[bool]] = defaultdict(list)
    for record in run.independent_records():
        if record.correct is not None:
            verdicts[record.id].append(record.correct)
    problems = run.problems()
    return {(name, problems[name].question): sum(right) / len(right) for name, right in verdicts.items()}
