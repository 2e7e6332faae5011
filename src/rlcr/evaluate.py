"""`rlcr eval`: one model, one method, any number of tasks, into a run folder that can be taken up again.

From Python the same is :func:`evaluate`; :func:`rescore` grades a finished run anew without sampling.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError
from rlcr.judging import open_judge
from rlcr.methods import Method, get_method, stored_method
from rlcr.problem import Problem
from rlcr.prompts import Prompt, load_prompt
from rlcr.records import (
    PROBLEMS,
    RECORDS,
    Run,
    check_new,
    create_run,
    open_run,
    resume_run,
    to_line,
    write_whole,
)
from rlcr.report import results as tables
from rlcr.results import RESULTS, Results, measure_records
from rlcr.sample import Sampler, Sampling
from rlcr.sample.opening import open_sampler
from rlcr.stages import Evaluation, Watch, grade, run_stages
from rlcr.tasks import TaskSet, load, read_problems, write_problems
from rlcr.tasks.take import check_ids
from rlcr.verify import Grading, Verifier

_PACKAGES = ("rlcr", "torch", "transformers", "openai", "math-verify", "numpy")
_RESCORE_BATCH = 2000


@dataclass(frozen=True)
class Settings:
    """All that decides what a run samples and how it is graded. A run is resumed only with the same.

    ``model`` is a folder, hub id, GGUF file or the address of a server. Without ``temperature`` a single
    sample is greedy and several are drawn at 0.7, the temperature of training.
    """

    model: str
    tasks: tuple[str, ...]
    method: str | None = None
    split: str = "test"
    limit: int | None = None
    samples: int = 1
    max_tokens: int = 4096
    temperature: float | None = None
    seed: int = 0
    grading: Grading = "strict"
    verifier: str | None = None
    judge: str | None = None
    prompt: str | None = None

    def sampling(self) -> Sampling:
        """How to sample."""
        usual = 0.0 if self.samples == 1 else 0.7
        temperature = usual if self.temperature is None else self.temperature
        return Sampling(max_tokens=self.max_tokens, temperature=temperature, seed=self.seed)


def evaluate(
    settings: Settings,
    out: Path | str,
    *,
    resume: bool = False,
    data_dir: Path | str | None = None,
    sampler: Sampler | None = None,
    watch: Callable[[int, int], Watch] | None = None,
) -> Results:
    """Evaluate a model and write its run folder.

    ``sampler`` is used instead of opening ``settings.model``. ``watch(done, total)`` makes whoever follows
    the run, such as :class:`rlcr.progress.RunProgress`.
    """
    out = Path(out)
    if len(set(settings.tasks)) < len(settings.tasks):
        raise RlcrError(f"a task is named twice: {', '.join(settings.tasks)}")
    method = _method(settings)
    prompt = _prompt(settings, method)
    task_sets = [_load(settings, name, data_dir) for name in settings.tasks]
    judge_needed = any(p.verifier == "judge" for task in task_sets for p in task.problems)
    if judge_needed and not settings.judge:
        raise RlcrError("these tasks are to be graded by a judge: give --judge URL or a model")
    resolved = _resolved(settings, method, prompt, task_sets)
    if not resume:
        check_new(out)
    # Opened before anything is written: a misspelt model must not leave a folder that then is in the way.
    sampler = sampler or open_sampler(settings.model)
    judge = _judge(settings) if judge_needed else None
    run = resume_run(out, resolved) if resume else create_run(out, resolved, _facts())
    problems = [problem for task in task_sets for problem in task.problems]
    check_ids(problems, "the tasks together")
    if not (out / PROBLEMS).exists():
        write_problems(out / PROBLEMS, problems)
    done, total = len(run.done), len(problems) * settings.samples
    if done < total:
        evaluation = Evaluation(
            problems=problems,
            method=method,
            prompt=prompt,
            sampling=settings.sampling(),
            samples=settings.samples,
            grading=settings.grading,
            judge=judge,
            task_of={problem.id: task.task for task in task_sets for problem in task.problems},
        )
        run_stages(evaluation, sampler, run, watch(done, total) if watch else None)
    return write_results(run)


def rescore(
    folder: Path | str,
    *,
    grading: Grading | None = None,
    verifier: str | None = None,
    judge: str | None = None,
) -> Results:
    """Read, verify and measure a run anew from its records. Nothing is sampled.

    Without arguments as the run was graded, with whatever the parser and the verifiers have learned since.
    The records are replaced whole.
    """
    run = open_run(Path(folder))
    settings = run.settings
    now = replace(
        _settings(settings),
        grading=grading or settings["grading"],
        verifier=verifier or settings["verifier"],
        judge=judge or settings["judge"],
    )
    problems = {problem.id: problem for problem in read_problems(run.folder / PROBLEMS)}
    total = len(problems) * settings["samples"]
    if len(run.done) < total:
        # What is missing is not a random part: responses that need repairs come last.
        raise RlcrError(
            f"{folder}: unfinished ({len(run.done):,} of {total:,}); `rlcr eval … --resume` first"
        )
    if now.verifier:
        problems = {name: replace(problem, verifier=now.verifier) for name, problem in problems.items()}
    needs_judge = any(problem.verifier == "judge" for problem in problems.values())
    method = get_method(settings["method"])
    evaluation = Evaluation(
        problems=[],
        method=method,
        prompt=Prompt("", "", method.format),
        sampling=now.sampling(),
        grading=now.grading,
        judge=_judge(now) if needs_judge else None,
    )
    write_whole(run.records_path, _regraded(run, problems, evaluation))
    changed = settings | {"grading": now.grading, "verifier": now.verifier, "judge": now.judge}
    return write_results(Run(run.folder, changed))


def _regraded(run: Run, problems: dict[str, Problem], evaluation: Evaluation) -> Iterator[str]:
    records = run.records()
    while batch := list(islice(records, _RESCORE_BATCH)):
        for record in batch:
            if record["id"] not in problems:
                raise RlcrError(f"{run.folder / RECORDS}: problem {record['id']} is not in {PROBLEMS}")
        graded = grade(batch, [problems[record["id"]] for record in batch], evaluation)
        yield "".join(map(to_line, graded))


def write_results(run: Run) -> Results:
    """Measure the records of a run and write results.json, results.md and results.tex beside them."""
    results = measure_records(run.records(), run.settings)
    write_whole(run.folder / RESULTS, json.dumps(results.to_dict(), indent=2) + "\n")
    write_whole(run.folder / "results.md", tables.markdown(results))
    write_whole(run.folder / "results.tex", tables.latex(results))
    return results


# --- settings ---------------------------------------------------------------------------------------


def _method(settings: Settings) -> Method:
    if settings.method:
        return get_method(settings.method)
    stored = stored_method(settings.model)
    if stored is None:
        raise RlcrError(
            f"{settings.model} does not say how it was trained: give --method (base, rlvr, rlcr, …)"
        )
    return stored


def _prompt(settings: Settings, method: Method) -> Prompt:
    return load_prompt(settings.prompt or method.prompt, format=method.format)


def _load(settings: Settings, name: str, data_dir: Path | str | None) -> TaskSet:
    task = load(name, settings.split, seed=0, data_dir=data_dir, verifier=settings.verifier)
    if settings.limit is not None and settings.limit < len(task.problems):
        # A smaller draw is part of a larger one, so that a trial run is the beginning of the whole.
        task = load(name, settings.split, size=settings.limit, data_dir=data_dir, verifier=settings.verifier)
    return task


def _judge(settings: Settings) -> Verifier:
    if not settings.judge:
        raise RlcrError("this run is to be graded by a judge: give --judge URL or a model")
    return open_judge(open_sampler(settings.judge))


def _resolved(
    settings: Settings, method: Method, prompt: Prompt, task_sets: Sequence[TaskSet]
) -> dict[str, Any]:
    """What a run is compared by when it is resumed: JSON, with every default filled in."""
    resolved = asdict(settings) | {
        "method": method.name,
        "temperature": settings.sampling().temperature,
        "prompt": prompt.name,
        "prompt_text": prompt.text,
        "tasks": {task.task: task.provenance() for task in task_sets},
    }
    return json.loads(json.dumps(resolved))


def _settings(resolved: dict[str, Any]) -> Settings:
    known: dict[str, Any] = {name: resolved[name] for name in Settings.__dataclass_fields__}
    known["tasks"] = tuple(resolved["tasks"])
    return Settings(**known)


def _facts() -> dict[str, Any]:
    """What is worth knowing of a run but may differ when it is resumed."""
    return {"command": shlex.join(sys.argv), "versions": dict(_versions())}


def _versions() -> Iterator[tuple[str, str]]:
    yield "python", sys.version.split()[0]
    for package in _PACKAGES:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            continue
