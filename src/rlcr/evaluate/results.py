"""From the records of a run to its results, and from these to a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlcr import metrics
from rlcr.errors import RlcrError, described, nearest
from rlcr.evaluate.forced import FORCED_KINDS, ForcedConfidences
from rlcr.evaluate.gathering import TaskSamples, gather
from rlcr.evaluate.graded_table import group_name
from rlcr.metrics.frames import Tabular, estimate_cells, headings
from rlcr.metrics.measurement import GradedSamples, Measurement
from rlcr.metrics.tables import (
    Better,
    Cell,
    Heading,
    Table,
    estimate_text,
    of_all,
    partial_note,
    resting_on,
    text_headings,
)
from rlcr.runs.columns import VERBALISED, read_column
from rlcr.runs.lines import read_object
from rlcr.runs.record import Key, Record
from rlcr.runs.stamps import records_hash, why_stale
from rlcr.runs.store import CONFIDENCES, RESULTS, Run, open_run, retrying
from rlcr.verify.verdict import UNSCORABLE_SHARE, unscorable_warning


@dataclass(frozen=True)
class Coverage:
    """How many of the completions of a task were answered. Those that failed are in no number, only here."""

    answered: int
    failed: Mapping[str, int]
    """How many failed for each reason."""

    @property
    def asked(self) -> int:
        """All of them."""
        return self.answered + sum(self.failed.values())

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {"asked": self.asked, "answered": self.answered, "failed": dict(self.failed)}


@dataclass(frozen=True)
class TaskResult:
    """One task: a measurement for each source of confidence, and what was counted beside them."""

    confidences: Mapping[str, Measurement]
    completions: int
    mean_tokens: float
    repair_rate: Mapping[str, float]
    unrepaired: Mapping[str, int]
    """Completions that needed a forced answer or confidence from a model that would not continue them."""
    cut_off_rate: float
    without_logprobs: int
    """Completions for which the sampler returned none, or what cannot be any: NaN, values above 0."""
    unscorable: Mapping[str, int]
    verifiers: Mapping[str, int]
    """How many answers each verifier graded."""
    forced: ForcedConfidences

    @property
    def summary(self) -> metrics.Summary:
        """The metrics of the confidence that the model stated."""
        return self.confidences[VERBALISED].overall

    def to_dict(self) -> dict[str, Any]:
        """As JSON: the metrics of the stated confidence; those of other sources under "confidences"."""
        others = {name: m.overall.to_dict() for name, m in self.confidences.items() if name != VERBALISED}
        return self.summary.to_dict() | {
            "completions": self.completions,
            "tokens": self.mean_tokens,
            "repair_rate": dict(self.repair_rate),
            "unrepaired": dict(self.unrepaired),
            "cut_off_rate": self.cut_off_rate,
            "without_logprobs": self.without_logprobs,
            "unscorable": dict(self.unscorable),
            "verifiers": dict(self.verifiers),
            "forced_confidences": self.forced.to_dict(),
            "confidences": others,
        }


#: What the tables of a notebook show of each task.
HEADLINE: dict[str, tuple[str, Better]] = {
    "accuracy": ("accuracy", "up"),
    "auroc": ("AUROC", "up"),
    "brier": ("Brier", "down"),
    "ece": ("ECE", "down"),
}


@dataclass(frozen=True)
class Results(Tabular):
    """The results of a run, task by task, with the unweighted average where there are several."""

    settings: Mapping[str, Any]
    tasks: Mapping[str, TaskResult]
    macro: metrics.MacroAverage | None
    unscored: Mapping[str, Mapping[str, int]]
    """Tasks of which nothing could be scored, with the reasons: they have no numbers."""
    coverage: Mapping[str, Coverage]

    @property
    def warnings(self) -> list[str]:
        """What makes the numbers doubtful: answers that count for nothing, confidences that are none."""
        found: list[tuple[str, str | None]] = []
        for name, task in self.tasks.items():
            found.append((name, unscorable_warning(task.unscorable, task.completions)))
            found.append((name, _without_confidence(task.summary)))
            found.append((name, task.forced.warning()))
        for name, reasons in self.unscored.items():
            found.append((name, unscorable_warning(reasons, sum(reasons.values()))))
        return [f"{name}: {warning}" for name, warning in found if warning]

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "settings": dict(self.settings),
            "tasks": {name: result.to_dict() for name, result in self.tasks.items()},
            "macro": self.macro.to_dict() if self.macro else None,
            "unscored": {name: dict(reasons) for name, reasons in self.unscored.items()},
            "warnings": self.warnings,
            "coverage": {name: coverage.to_dict() for name, coverage in self.coverage.items()},
        }

    def table(self) -> Table:
        """A line for each task and source of confidence, and one for the average, in full numbers."""
        measured = [
            (task, source, measurement.overall)
            for task, result in self.tasks.items()
            for source, measurement in result.confidences.items()
        ]
        rows = [
            (Cell(task), Cell(source), *_counts(found), *estimate_cells(found.metrics, list(HEADLINE)))
            for task, source, found in [
                *measured,
                *([("average", "verbalised", self.macro)] if self.macro else []),
            ]
        ]
        columns = (
            *text_headings("task", "confidence"),
            Heading("scored"),
            Heading("rated"),
            *headings(HEADLINE),
        )
        return Table("results", "", columns, tuple(rows), notes=tuple(self.warnings))


def _counts(measured: metrics.Summary | metrics.MacroAverage) -> tuple[Cell, Cell]:
    return Cell(f"{measured.n:,}", measured.n), Cell(f"{measured.rated:,}", measured.rated)


def _without_confidence(summary: metrics.Summary) -> str | None:
    if summary.n - summary.rated <= UNSCORABLE_SHARE * summary.n:
        return None
    if not summary.rated:
        return f"none of the {summary.n:,} scored answers states a confidence: there is no calibration to see"
    return (
        f"AUROC, Brier and ECE rest on {summary.rated:,} of {summary.n:,} scored answers: the others state no"
        " confidence that can be read"
    )


def measure_records(
    records: Iterable[Record],
    settings: Mapping[str, Any],
    columns: Mapping[str, Mapping[Key, float | None]] | None = None,
    *,
    failures: Iterable[Mapping[str, Any]] = (),
    resamples: int = 1000,
) -> Results:
    """Measure records. Their order does not matter: the same records give the same results.

    ``columns`` are further sources of confidence, beside those that the records hold; ``failures`` are the
    completions that became no records.
    """
    gathered = gather(records, columns or {})
    unscored = {name: dict(task.unscorable) for name, task in sorted(gathered.items()) if not task.scored}
    if len(unscored) == len(gathered):
        raise RlcrError(f"nothing to measure: no completion could be scored ({unscored})")
    tasks = {name: _result(gathered[name], resamples) for name in sorted(gathered) if name not in unscored}
    macro = (
        metrics.macro_average({name: task.summary for name, task in tasks.items()})
        if len(tasks) > 1
        else None
    )
    return Results(settings, tasks, macro, unscored, _coverage(gathered, failures))


def _coverage(
    gathered: Mapping[str, TaskSamples], failures: Iterable[Mapping[str, Any]]
) -> dict[str, Coverage]:
    failed: dict[str, Counter[str]] = {name: Counter() for name in gathered}
    for failure in failures:
        failed.setdefault(failure["task"], Counter())[failure["reason"]] += 1
    return {
        name: Coverage(
            gathered[name].completions if name in gathered else 0, dict(failed[name].most_common())
        )
        for name in sorted(failed)
    }


def _result(task: TaskSamples, resamples: int) -> TaskResult:
    measured = {
        name: samples.measure(resamples=resamples)
        for name, samples in task.samples.items()
        if name == VERBALISED or samples.states_any()
    }
    n = task.completions
    return TaskResult(
        confidences=measured,
        completions=n,
        mean_tokens=task.tokens / n,
        repair_rate={part: task.repaired[part] / n for part in ("answer", "confidence")},
        unrepaired=dict(task.unrepaired),
        cut_off_rate=task.cut_off / n,
        without_logprobs=task.without_logprobs,
        unscorable=dict(task.unscorable),
        verifiers=dict(task.verifiers),
        forced=ForcedConfidences(n, **{kind: task.forced[kind] for kind in FORCED_KINDS}),
    )


_HEADINGS = (
    *text_headings("task", "by"),
    Heading("scored"),
    Heading("rated"),
    Heading("accuracy", "up"),
    Heading("AUROC", "up"),
    Heading("Brier", "down"),
    Heading("ECE", "down"),
    Heading("tokens"),
    Heading("repaired"),
)


def results_table(results: Results) -> Table:
    """A line for each task and source of confidence, and one for the average."""
    rows = []
    for name, task in results.tasks.items():
        repaired = f"{task.repair_rate['answer']:.0%}/{task.repair_rate['confidence']:.0%}"
        asked, counted = results.coverage[name].asked, (f"{task.mean_tokens:.0f}", repaired)
        for source, measurement in task.confidences.items():
            counts = counted if source == VERBALISED else ("", "")
            rows.append(_row(name, _called(source, results), measurement.overall, asked, counts))
    if results.macro:
        asked = sum(results.coverage[name].asked for name in results.tasks)
        rows.append(_row("average", _called(VERBALISED, results), results.macro, asked, ("", "")))
    model, method, grading = (results.settings[key] for key in ("model", "method", "grading"))
    caption = (
        f"Model {model}, method {method}, grading {grading}, verified by {verified_by(results)}. ± is half"
        " the width of the 95% interval. Scored: answers judged right or wrong, on which accuracy rests."
        " Rated: those of them with a confidence, on which the others rest. Repaired: answers/confidences"
        " that took a forced continuation."
    )
    warnings = (*failures(results), *(f"Warning: {warning}" for warning in results.warnings))
    return Table("results", "", _HEADINGS, tuple(rows), caption, notes=(*partial_note(rows), *warnings))


def verified_by(results: Results) -> str:
    """Which verifiers graded the answers; task by task where they differ."""
    judge = results.settings.get("judge_name")
    by = {name: verifier_names(task.verifiers, judge) for name, task in results.tasks.items()}
    if len(set(by.values())) == 1:
        return next(iter(by.values()))
    return ", ".join(f"{names} ({task})" for task, names in by.items())


def verifier_names(verifiers: Iterable[str], judge: str | None) -> str:
    """The names of verifiers; a judge with that of its model.

    >>> verifier_names(["judge", "exact"], "tiny")
    'judge tiny and exact'
    """
    return " and ".join(f"judge {judge}" if name == "judge" and judge else name for name in verifiers)


def failures(results: Results) -> Iterator[str]:
    """A sentence for each task of which completions failed: how many, and why most of them did."""
    for name, coverage in results.coverage.items():
        if coverage.failed:
            (reason, *others), failed = coverage.failed, coverage.asked - coverage.answered
            more = f", and {len(others)} other reasons" if others else ""
            yield (
                f"{name}: {coverage.answered:,} of {coverage.asked:,} completions; {failed:,} failed,"
                f" counted in no number ({reason}{more}){retrying(results.settings)}."
            )


def _called(source: str, results: Results) -> str:
    """A source by its name; confidences that came with the completions were not stated by a model."""
    return results.settings.get(CONFIDENCES, source) if source == VERBALISED else source


def _row(
    task: str,
    source: str,
    measured: metrics.Summary | metrics.MacroAverage,
    asked: int,
    counts: Iterable[str],
) -> tuple[Cell, ...]:
    values = [
        resting_on(Cell(estimate_text(measured.metrics[name])), measured.rows(name), asked)
        for name in ("accuracy", "auroc", "brier", "ece")
    ]
    rows = of_all(measured.n, asked), of_all(measured.rated, asked)
    return (Cell(task), Cell(source), *map(Cell, rows), *values, *map(Cell, counts))


def load_results(folder: Path) -> dict[str, Any]:
    """The results that a finished run wrote; an error where its records have changed since."""
    path = folder / RESULTS
    try:
        results = read_object(path, f"`rlcr rescore {folder}` writes it again")
    except FileNotFoundError:
        raise RlcrError(
            f"{folder}: has no {RESULTS}; finish it with --resume, or `rlcr rescore` it"
        ) from None
    if why := why_stale(folder, results, records_hash(open_run(folder))):
        raise RlcrError(f"{path}: stale: {why}; `rlcr rescore {folder}` writes it again")
    return results


def run_samples(folder: Path, confidence: str, by: str | None = None) -> GradedSamples:
    """Verdicts of a run with one of its confidence columns, grouped by task where there are several.

    ``by`` groups them instead by what its problems carry under that name (``Problem.extras``).
    """
    run = open_run(folder)
    run.check_finished()
    stated = read_column(run, confidence)
    several = len(run.settings["tasks"]) > 1
    values = _values(run, by) if by else {}
    samples, questions = GradedSamples(), {}
    for record in run.independent_records():
        samples.add(
            record.correct,
            stated.get(record.key),
            question=questions.setdefault(record.id, len(questions)),
            group=values[record.id] if by else record.task if several else None,
        )
    samples.failed = len(run.independent_failures())
    return samples


def _values(run: Run, by: str) -> dict[str, str]:
    """What the problems of a run carry under a name, as the names of groups."""
    problems = run.problems()
    known = sorted({name for problem in problems.values() for name in problem.extras})
    if by not in known:
        hint = nearest(by, known) if known else "they carry nothing"
        raise RlcrError(f"{run.folder}: --by {by}: no problem has it; {hint}")
    values = {name: problem.extras.get(by) for name, problem in problems.items()}
    many = next((value for value in values.values() if isinstance(value, (list, dict))), None)
    if many is not None:
        raise RlcrError(f"{run.folder}: --by {by}: expected a text or a number, found {described(many)}")
    return {name: group_name(value) for name, value in values.items()}
