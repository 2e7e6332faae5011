"""`rlcr eval --adaptive`: sample a question in rounds until its answer is safe or the budget is spent.

The rule is that of :mod:`rlcr.many.stopping`, with the confidence that the model states. What it decides
depends on the records alone, so that a run that was interrupted continues as it would have. Grouping answers
takes no gold, and neither does stopping.

    adaptive.json   the rule, samples used, and accuracy of the voted answers and of the first round's votes;
                    written when a run is finished
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rlcr.evaluate.progress import Watch
from rlcr.evaluate.stages import Evaluation, run_stages
from rlcr.many.equivalence import Memory, group_many
from rlcr.many.pool import make_pool, pools_of
from rlcr.many.stopping import Rule, final_votes
from rlcr.metrics.bootstrap import question_weights, ratio
from rlcr.problem import Problem
from rlcr.runs.lines import read_object
from rlcr.runs.record import Key
from rlcr.runs.stamps import stamp, write_derived
from rlcr.runs.store import ADAPTIVE, Run, open_run
from rlcr.sample import Sampler


def run_adaptively(
    evaluation: Evaluation,
    sampler: Sampler,
    run: Run,
    rule: Rule,
    watch: Callable[[int, int], Watch] | None = None,
    *,
    retry: Collection[Key] = (),
) -> None:
    """Sample in rounds what the run lacks; ``evaluation.samples`` is the budget."""
    watching: list[Watch] = []

    def follow(done: int, _: int) -> Watch:
        if not watching and watch:
            watching.append(watch(done, len(evaluation.problems) * rule.budget))
        return watching[0]

    memory: Memory = {}
    left = list(evaluation.problems)
    for samples in rule.rounds:
        # Opened again, to see what the last round has written.
        some = replace(evaluation, problems=left, samples=samples, rounds=rule.rounds)
        run_stages(some, sampler, open_run(run.folder), follow if watch else None, retry=retry)
        retry = [key for key in retry if key[1] >= samples]  # retried once, whether or not it helped
        left = _unsafe(left, run, rule, samples, memory)
        if not left:
            return


def _unsafe(problems: list[Problem], run: Run, rule: Rule, samples: int, memory: Memory) -> list[Problem]:
    """The problems that need another round."""
    wanted = {problem.id for problem in problems}
    stated: dict[str, dict[int, tuple[str | None, float | None]]] = {name: {} for name in wanted}
    for record in run.records():
        if record.id in wanted and record.sample < samples:
            stated[record.id][record.sample] = record.answer, record.confidence
    # Samples that failed are spent like others, but do not vote; a problem of which all failed has no vote.
    problems = [problem for problem in problems if stated[problem.id]]
    if not problems:
        return []
    rows = [[row for _, row in sorted(stated[problem.id].items())] for problem in problems]
    groups = group_many(
        ((problem, [answer for answer, _ in row]) for problem, row in zip(problems, rows, strict=True)),
        memory,
    )
    unknown = [[0] * len(row) for row in rows]
    pool = make_pool(
        [problem.id for problem in problems],
        groups,
        unknown,
        [[confidence for _, confidence in row] for row in rows],
    )
    _, _, leader, second = final_votes(pool)
    stops = rule.stops(leader, second, samples)
    return [problem for problem, stop in zip(problems, stops, strict=True) if not stop]


def write_adaptive(run: Run) -> dict[str, Any]:
    """Measure the voted answers of an adaptive run, and note that it is finished."""
    made_from = stamp(run)
    rule = Rule(**run.settings["adaptive"])
    failed = Counter(name for name, _ in run.failures())
    tasks = {}
    for task, pool in pools_of(run, run.records()).items():
        right, scorable, _, _ = final_votes(pool)
        early, early_scorable, _, _ = final_votes(pool.first(rule.first))
        weights_RQ = question_weights(len(pool), 1000)
        used_Q = pool.size_Q.astype(np.float64)
        asked_Q = pool.size_Q + np.array([failed[name] for name in pool.ids])
        tasks[task] = {
            "questions": len(pool),
            "samples": ratio(used_Q, np.ones_like(used_Q), weights_RQ).estimate().to_dict(),
            "samples_each": {str(n): int((pool.size_Q == n).sum()) for n in np.unique(pool.size_Q)},
            "accuracy": ratio(right, scorable, weights_RQ).estimate().to_dict(),
            "first_round": ratio(early, early_scorable, weights_RQ).estimate().to_dict(),
            "stopped_early": float((asked_Q < rule.budget).mean()),
            "unscorable": float((1 - scorable).sum()),
        }
    measured = {"rule": rule.to_dict(), "tasks": tasks}
    write_derived(run, ADAPTIVE, measured, made_from)
    return measured


def adaptive_lines(folder: Path) -> list[str]:
    """The outcome of an adaptive run, one line a task. Its table of results is of the first round alone."""
    measured = read_object(folder / ADAPTIVE, f"`rlcr rescore {folder}` writes it again")
    lines = []
    for task, votes in measured["tasks"].items():
        right = votes["accuracy"]["value"]
        lines.append(
            f"{task}: {votes['samples']['value']:.1f} of {measured['rule']['budget']} samples on average,"
            f" accuracy of the voted answers {'n/a' if right is None else f'{right:.3f}'}"
        )
    return lines
