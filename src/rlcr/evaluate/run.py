"""`rlcr eval`: one model, one method, any number of tasks, into a run folder that can be resumed.

From Python the same is :func:`evaluate`; :func:`continue_run` resumes a run that was interrupted, and
:func:`rescore` grades a finished one again without sampling.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError
from rlcr.evaluate.adaptive import run_adaptively, write_adaptive
from rlcr.evaluate.grade import grade
from rlcr.evaluate.judge import open_judge
from rlcr.evaluate.progress import Watch
from rlcr.evaluate.results import Results, measure_records, results_table
from rlcr.evaluate.settings import Asked, Settings, kept_tasks
from rlcr.evaluate.stages import Evaluation, run_stages
from rlcr.metrics.tables import latex, markdown
from rlcr.problem import Problem
from rlcr.runs.columns import column_files, fresh_columns, stored_columns
from rlcr.runs.differences import check_same
from rlcr.runs.lines import sealed, write_whole
from rlcr.runs.record import to_line
from rlcr.runs.stamps import Hashed, stale_files, stamp_files, write_derived
from rlcr.runs.store import (
    CONFIDENCES,
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
)
from rlcr.runs.versions import run_facts
from rlcr.sample import Sampler
from rlcr.sample.opening import Access, Stored, Typed, check_access, open_sampler
from rlcr.tasks import TaskSet, load_at_most, named_apart, write_problems
from rlcr.tasks.plumbing.problem_files import sha256 as problems_sha256
from rlcr.tasks.plumbing.take import check_ids
from rlcr.verify import Grading, Verifier

log = logging.getLogger(__name__)

_PACKAGES = ("rlcr", "torch", "transformers", "httpx2", "math-verify", "numpy")
_RESCORE_BATCH = 2000


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
    own: Mapping[str, Verifier] | None = None,
) -> Results:
    """Evaluate a model and write its run folder.

    ``access`` says how to reach the model; a ``sampler`` is used instead of opening ``settings.model``, and
    ``task_sets`` instead of loading ``settings.tasks``. With ``resume`` an interrupted run is continued;
    completions that failed are asked for again only with ``retry_failed``. ``watch(done, total)`` makes the
    observer of the run, such as :class:`rlcr.evaluate.progress.RunProgress`. ``own`` are verifiers of yours,
    by the names that the problems have for them (:mod:`rlcr.verify.own`).
    """
    if retry_failed and not resume:
        raise RlcrError("--retry-failed is for a run that is there: give --resume as well")
    asked = Asked.of(settings, access or Access())
    models = _Models(Typed(settings.model), Typed(settings.judge) if settings.judge else None, sampler)
    begun = open_run(Path(out)) if resume else None
    return _evaluate(asked, Path(out), models, begun, retry_failed, data_dir, task_sets, watch, own)


def continue_run(
    out: Path | str,
    given: Mapping[str, Any] | None = None,
    *,
    retry_failed: bool = False,
    data_dir: Path | str | None = None,
    access: Access | None = None,
    watch: Callable[[int, int], Watch] | None = None,
) -> Results:
    """Continue a run that was interrupted, with the settings and the problems that it keeps.

    ``given`` are settings by their names, which must be those of the run. A server is asked only if its
    address is among them: see :mod:`rlcr.sample.opening`.
    """
    given, run = given or {}, open_run(Path(out))
    asked = Asked.again(run, given, access or Access())
    settings, place = asked.settings, run.folder / RUN
    model = Typed(settings.model) if "model" in given else Stored(settings.model, place, "--model URL")
    judge: Typed | Stored | None = None
    if settings.judge:
        judge = Typed(settings.judge) if "judge" in given else Stored(settings.judge, place, "--judge URL")
    task_sets = None if "tasks" in given else kept_tasks(run)
    return _evaluate(asked, run.folder, _Models(model, judge), run, retry_failed, data_dir, task_sets, watch)


@dataclass(frozen=True)
class _Models:
    """The model and the judge, each as the user or a file names it; or a sampler that is there already."""

    model: Typed | Stored
    judge: Typed | Stored | None
    sampler: Sampler | None = None


def _evaluate(
    asked: Asked,
    out: Path,
    models: _Models,
    begun: Run | None,
    retry_failed: bool,
    data_dir: Path | str | None,
    task_sets: Sequence[TaskSet] | None,
    watch: Callable[[int, int], Watch] | None,
    own: Mapping[str, Verifier] | None = None,
) -> Results:
    """Everything that can be refused is refused before data is loaded, and the rest before the model is."""
    settings = asked.settings
    if begun:
        asked.check(begun)
    else:
        check_new(out)
    if models.sampler is None:
        check_access(models.model, asked.access)
    if task_sets is None:
        task_sets = [
            load_at_most(name, settings.split, settings.limit, data_dir=data_dir, verifier=settings.verifier)
            for name in settings.tasks
        ]
        names = named_apart(settings.tasks)
        task_sets = [replace(task, task=name) for task, name in zip(task_sets, names, strict=True)]
    problems = [problem for task in task_sets for problem in task.problems]
    check_ids(problems, "the tasks together")
    judge_needed = any(problem.verifier == "judge" for problem in problems)
    if judge_needed and not settings.judge:
        raise _no_judge()
    resolved = asked.to_dict() | {"tasks": {task.task: task.provenance() for task in task_sets}}
    resolved = json.loads(json.dumps(resolved))
    if begun:
        check_same(out, {name: begun.settings.get(name) for name in resolved}, resolved)
        if models.sampler is None:
            asked.check_weights(begun)
    # Opened before anything is written: a misspelt model must not leave a folder behind.
    sampler = models.sampler or open_sampler(models.model, asked.access)
    judging = open_sampler(models.judge) if judge_needed and models.judge else None
    graded = _graded_by(settings.grading, settings.verifier, settings.judge, judging)
    resolved |= graded | {"model_name": sampler.name, "model_weights": sampler.fingerprint}
    with locked(out):
        run = resume_run(out, resolved) if begun else _create(out, resolved, graded, problems)
        if not (out / PROBLEMS).exists():
            write_problems(out / PROBLEMS, problems)
        retry = run.failed if retry_failed else {}
        if retry or not run.finished:
            evaluation = Evaluation(
                problems=problems,
                method=asked.method,
                prompt=asked.prompt,
                sampling=settings.sampling(),
                samples=settings.samples,
                grading=settings.grading,
                judge=open_judge(judging) if judging else None,
                own=own,
                task_of={problem.id: task.task for task in task_sets for problem in task.problems},
            )
            if rule := settings.rule():
                run_adaptively(evaluation, sampler, run, rule, watch, retry=retry)
            else:
                run_stages(evaluation, sampler, run, watch, retry=retry)
        return write_results(run)


def _create(out: Path, settings: dict[str, Any], graded: dict[str, Any], problems: list[Problem]) -> Run:
    tasks = list(settings["tasks"].values())
    # That of a single task is known already: of 100,000 problems it takes seconds.
    digest = tasks[0]["sha256"] if len(tasks) == 1 else problems_sha256(problems)
    return create_run(out, settings, graded, run_facts(_PACKAGES), problems_sha256=digest)


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
        run = open_run(run.folder)  # as nobody changes it now
        run.check_finished()
        how: Grading = grading or run.graded["grading"]
        verifier = verifier or run.graded["verifier"]
        named = _judge_of(run, judge)
        if verifier is None and (verdicts := run.settings.get("verdicts")):
            raise RlcrError(f"{run.folder}: its verdicts are {verdicts}; --verifier NAME grades it again")
        problems = run.problems(verifier)
        if any(p.verifier == "choice" and not p.extras.get("choices") for p in problems.values()):
            raise RlcrError(f"{run.folder}: its problems have no options, which the verifier choice needs")
        needs_judge = any(problem.verifier == "judge" for problem in problems.values())
        if needs_judge and named is None:
            raise _no_judge()
        judging = open_sampler(named) if needs_judge and named else None
        lines = _regraded(run, problems, how, open_judge(judging) if judging else None)
        graded = _graded_by(how, verifier, named.model if named else None, judging)
        return write_results(run.regrade(lines, graded))


def _regraded(
    run: Run, problems: dict[str, Problem], grading: Grading, judge: Verifier | None
) -> Iterator[str]:
    records = run.records()
    while batch := list(islice(records, _RESCORE_BATCH)):
        for record in batch:
            if record.id not in problems:
                raise RlcrError(f"{run.folder / RECORDS}: problem {record.id} is not in {PROBLEMS}")
        graded = grade(batch, [problems[record.id] for record in batch], grading, judge)
        if run.settings.get(CONFIDENCES):
            pairs = zip(graded, batch, strict=True)
            graded = [replace(now, confidence=before.confidence) for now, before in pairs]
        yield "".join(sealed(to_line(record)) for record in graded)


def write_results(run: Run) -> Results:
    """Measure the records of a run and write results.json, results.md and results.tex beside them.

    Of an adaptive run these are about the first round: questions that took more must not weigh more. What
    the votes came to is in adaptive.json.
    """
    if run.settings.get("adaptive"):
        write_adaptive(run)
    files = stamp_files(run, column_files(*stored_columns(run.folder)))
    columns, stale = fresh_columns(run)
    for name, why in stale.items():
        log.warning("%s: confidence column %s is left out: %s", run.folder, name, why)
    records = Hashed(run)
    results = measure_records(
        run.independent_records(records), run.described, columns, failures=run.independent_failures()
    )
    made_from = {"records": records.value(), **files}
    write_derived(run, RESULTS, results.to_dict(), made_from, without=column_files(*stale))
    table = results_table(results)
    write_whole(run.folder / "results.md", markdown(table))
    write_whole(run.folder / "results.tex", latex(table))
    for name, why in stale_files(run, made_from["records"]).items():
        log.warning("%s: %s is %s", run.folder, name, why)
    return results


# --- grading ----------------------------------------------------------------------------------------


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
