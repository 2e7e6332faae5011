"""`rlcr eval`: one model, one method, any number of tasks, into a run folder that can be resumed.

From Python the same is :func:`evaluate`; :func:`rescore` grades a finished run again without sampling.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError
from rlcr.evaluate.adaptive import run_adaptively, write_adaptive
from rlcr.evaluate.grade import grade
from rlcr.evaluate.judge import open_judge
from rlcr.evaluate.methods import Method, get_method, stored_method
from rlcr.evaluate.progress import Watch
from rlcr.evaluate.results import Results, measure_records, results_table
from rlcr.evaluate.stages import Evaluation, run_stages
from rlcr.many.stopping import Rule
from rlcr.metrics.tables import latex, markdown
from rlcr.problem import Problem
from rlcr.prompts import Prompt, load_prompt
from rlcr.runs.columns import column_files, fresh_columns, stamp_columns
from rlcr.runs.record import to_line
from rlcr.runs.stamps import stale_files, write_derived
from rlcr.runs.store import (
    PROBLEMS,
    RECORDS,
    RESULTS,
    RUN,
    Run,
    check_new,
    create_run,
    locked,
    open_run,
    resume_run,
    write_whole,
)
from rlcr.runs.versions import run_facts
from rlcr.sample import Sampler, Sampling
from rlcr.sample.opening import Access, Stored, Typed, open_sampler
from rlcr.tasks import TaskSet, load_at_most, write_problems
from rlcr.tasks.plumbing.take import check_ids
from rlcr.verify import Grading, Verifier

log = logging.getLogger(__name__)

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
    top_p: float = 1.0
    stop: tuple[str, ...] = ()
    seed: int = 0
    grading: Grading = "strict"
    verifier: str | None = None
    judge: str | None = None
    prompt: str | None = None
    adaptive: float | None = None
    """Sample a problem only until its leading answer is this safe; ``samples`` is then the budget."""

    def rule(self) -> Rule | None:
        """When to stop sampling a problem, if that depends on its answers."""
        return None if self.adaptive is None else Rule(budget=self.samples, safety=self.adaptive)

    def sampling(self) -> Sampling:
        """How to sample."""
        usual = 0.0 if self.samples == 1 else 0.7
        temperature = usual if self.temperature is None else self.temperature
        return Sampling(self.max_tokens, temperature, self.top_p, self.stop, self.seed)


def evaluate(
    settings: Settings,
    out: Path | str,
    *,
    resume: bool = False,
    retry_failed: bool = False,
    data_dir: Path | str | None = None,
    access: Access | None = None,
    sampler: Sampler | None = None,
    task_sets: Sequence[TaskSet] | None = None,
    watch: Callable[[int, int], Watch] | None = None,
) -> Results:
    """Evaluate a model and write its run folder.

    ``access`` says how to reach the model; a ``sampler`` is used instead of opening ``settings.model``, and
    ``task_sets`` instead of loading ``settings.tasks``. With ``resume`` an interrupted run is continued;
    completions that failed are asked for again only with ``retry_failed``. ``watch(done, total)`` makes the
    observer of the run, such as :class:`rlcr.evaluate.progress.RunProgress`.
    """
    out = Path(out)
    if retry_failed and not resume:
        raise RlcrError("--retry-failed is for a run that is there: give --resume as well")
    if len(set(settings.tasks)) < len(settings.tasks):
        raise RlcrError(f"a task is named twice: {', '.join(settings.tasks)}")
    settings.sampling().check()
    rule = settings.rule()
    method = _method(settings)
    prompt = _prompt(settings, method)
    if task_sets is None:
        task_sets = [
            load_at_most(name, settings.split, settings.limit, data_dir=data_dir, verifier=settings.verifier)
            for name in settings.tasks
        ]
    problems = [problem for task in task_sets for problem in task.problems]
    check_ids(problems, "the tasks together")
    judge_needed = any(problem.verifier == "judge" for problem in problems)
    if judge_needed and not settings.judge:
        raise _no_judge()
    if resume:
        open_run(out)
    else:
        check_new(out)
    # Opened before anything is written: a misspelt model must not leave a folder behind.
    sampler = sampler or open_sampler(Typed(settings.model), access)
    judging = open_sampler(Typed(settings.judge)) if judge_needed and settings.judge else None
    graded = _graded_by(settings.grading, settings.verifier, settings.judge, judging)
    resolved = _resolved(settings, method, prompt, task_sets, sampler, access or Access()) | graded
    with locked(out):
        run = resume_run(out, resolved) if resume else create_run(out, resolved, graded, run_facts(_PACKAGES))
        if not (out / PROBLEMS).exists():
            write_problems(out / PROBLEMS, problems)
        retry = run.failed if retry_failed else {}
        if retry or not run.finished:
            evaluation = Evaluation(
                problems=problems,
                method=method,
                prompt=prompt,
                sampling=settings.sampling(),
                samples=settings.samples,
                grading=settings.grading,
                judge=open_judge(judging) if judging else None,
                task_of={problem.id: task.task for task in task_sets for problem in task.problems},
            )
            if rule:
                run_adaptively(evaluation, sampler, run, rule, watch, retry=retry)
            else:
                run_stages(evaluation, sampler, run, watch, retry=retry)
        return write_results(run)


def rescore(
    folder: Path | str,
    *,
    grading: Grading | None = None,
    verifier: str | None = None,
    judge: str | None = None,
) -> Results:
    """Read, verify and measure the records of a run again. Nothing is sampled.

    Without arguments as the run is graded, by the parser and the verifiers as they are now.
    The records are replaced whole. A judge on a server is asked only if it is named here: see
    :mod:`rlcr.sample.opening`. Verdicts that came with an imported table are replaced only if a verifier
    is named.
    """
    run = open_run(Path(folder))
    if not run.graded:
        raise RlcrError(f"{folder}: nothing in it was ever graded: it is not a run of `rlcr eval`")
    with locked(run.folder):
        run.check_finished()
        how: Grading = grading or run.graded["grading"]
        verifier = verifier or run.graded["verifier"]
        named = _judge_of(run, judge)
        if verifier is None and (verdicts := run.settings.get("verdicts")):
            raise RlcrError(f"{run.folder}: its verdicts are {verdicts}; --verifier NAME grades it again")
        problems = run.problems(verifier)
        needs_judge = any(problem.verifier == "judge" for problem in problems.values())
        if needs_judge and named is None:
            raise _no_judge()
        judging = open_sampler(named) if needs_judge and named else None
        lines = _regraded(run, problems, how, open_judge(judging) if judging else None)
        write_whole(run.records_path, lines)
        return write_results(run.regraded(_graded_by(how, verifier, named.model if named else None, judging)))


def _regraded(
    run: Run, problems: dict[str, Problem], grading: Grading, judge: Verifier | None
) -> Iterator[str]:
    records = run.records()
    while batch := list(islice(records, _RESCORE_BATCH)):
        for record in batch:
            if record.id not in problems:
                raise RlcrError(f"{run.folder / RECORDS}: problem {record.id} is not in {PROBLEMS}")
        graded = grade(batch, [problems[record.id] for record in batch], grading, judge)
        yield "".join(map(to_line, graded))


def write_results(run: Run) -> Results:
    """Measure the records of a run and write results.json, results.md and results.tex beside them.

    Of an adaptive run these are about the first round: questions that took more must not weigh more. What
    the votes came to is in adaptive.json.
    """
    if run.settings.get("adaptive"):
        write_adaptive(run)
    made_from = stamp_columns(run)
    columns, stale = fresh_columns(run)
    for name, why in stale.items():
        log.warning("%s: confidence column %s is left out: %s", run.folder, name, why)
    results = measure_records(
        run.independent_records(), run.described, columns, failures=run.independent_failures()
    )
    write_derived(run, RESULTS, results.to_dict(), made_from, without=column_files(*stale))
    table = results_table(results)
    write_whole(run.folder / "results.md", markdown(table))
    write_whole(run.folder / "results.tex", latex(table))
    for name, why in stale_files(run, made_from["records"]).items():
        log.warning("%s: %s is %s", run.folder, name, why)
    return results


# --- settings ---------------------------------------------------------------------------------------


def _method(settings: Settings) -> Method:
    if settings.method:
        named = get_method(settings.method)
        with contextlib.suppress(RlcrError):  # of a file that cannot be read; it is not needed
            stored = stored_method(settings.model)
            return stored if stored and stored.name == named.name else named
        return named
    stored = stored_method(settings.model)
    if stored is None:
        raise RlcrError(
            f"{settings.model} does not say how it was trained: give --method (base, rlvr, rlcr, …)"
        )
    return stored


def _prompt(settings: Settings, method: Method) -> Prompt:
    return load_prompt(settings.prompt or method.prompt, format=method.format)


def _judge_of(run: Run, judge: str | None) -> Typed | Stored | None:
    if judge:
        return Typed(judge)
    stored = run.graded["judge"]
    return Stored(stored, run.folder / RUN, "--judge URL") if stored else None


def _no_judge() -> RlcrError:
    return RlcrError("these tasks are to be graded by a judge: give --judge URL or a model")


def _graded_by(
    grading: Grading, verifier: str | None, judge: str | None, judging: Sampler | None
) -> dict[str, Any]:
    """How records are graded. A judge is the model that it was, not only the name that the user gave."""
    return {
        "grading": grading,
        "verifier": verifier,
        "judge": judge,
        "judge_name": judging.name if judging else None,
        "judge_weights": judging.fingerprint if judging else None,
    }


def _resolved(
    settings: Settings,
    method: Method,
    prompt: Prompt,
    task_sets: Sequence[TaskSet],
    sampler: Sampler,
    access: Access,
) -> dict[str, Any]:
    """What a run is compared by when it is resumed: JSON, with every default filled in.

    Of ``access`` only what changes results; the dtype is part of the weights' fingerprint.
    """
    resolved = asdict(settings) | {
        "model_name": sampler.name,
        "model_weights": sampler.fingerprint,
        "mode": access.mode,
        "tokenizer": access.tokenizer,
        "chat_template": access.chat_template or None,
        "method": method.name,
        "temperature": settings.sampling().temperature,
        "prompt": prompt.name,
        "prompt_text": prompt.text,
        "adaptive": rule.to_dict() if (rule := settings.rule()) else None,
        "tasks": {task.task: task.provenance() for task in task_sets},
    }
    return json.loads(json.dumps(resolved))
