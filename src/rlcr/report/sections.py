"""What a page shows, before it is written: the sentence at its head, and its sections in one order.

Results first (the sentence, reliability in a row, the table), then what explains them: runs by tasks,
differences, reliability task by task, risk, other sources of confidence, votes, coherence, training. A
section that would be empty is not there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rlcr.errors import RlcrError
from rlcr.metrics.tables import Mark, Table
from rlcr.report import artefacts, columns, curves, learning, numbers, samples
from rlcr.report.collapse import collapse_of
from rlcr.report.differences import differences
from rlcr.report.fields import number_of
from rlcr.report.headline import Differ, apart, exactly, headline, of_trainings
from rlcr.report.naming import joined, without_folders
from rlcr.report.pairs import Pairs
from rlcr.report.reading import EvalRun, ReportInput, TrainingRun
from rlcr.report.shapes import Figure
from rlcr.report.summaries import result_of, results_on_shared, trained_of
from rlcr.runs.store import COMPARISON

# So many reliability diagrams of runs and tasks fit one row.
_MOST_IN_A_ROW = 6


@dataclass(frozen=True)
class Section:
    """A part of the page. Of ``choices`` the reader chooses one table to see, the first by default."""

    name: str
    title: str
    intro: str = ""
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    missing: str = ""
    short: str = ""
    """What the table of contents calls it."""
    choices: tuple[tuple[str, Table], ...] = ()
    choose: str = ""
    """What is chosen; each choice has a name."""

    def every_table(self) -> tuple[Table, ...]:
        """All its tables."""
        return (*(table for _, table in self.choices), *self.tables)


@dataclass(frozen=True)
class Story:
    """What the caller of a report knows beyond the folders: names, and numbers without sampling noise."""

    names: Mapping[Path, str] = field(default_factory=dict)
    exact: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    """Run by its name -> metric -> value. These stand for the measured ones."""
    table: Table | None = None
    """The exact numbers, which lead the page."""
    lengths: str = ""
    """Why the trainings are not equally long."""


@dataclass(frozen=True)
class Report:
    """All that a page shows, before it is written."""

    title: str
    sentence: str
    evals: list[EvalRun]
    trainings: list[TrainingRun]
    headline: Section
    sections: list[Section]
    selection: samples.ShownSamples
    notes: list[str]
    warnings: list[str]

    def every_section(self) -> list[Section]:
        """The sections in order."""
        return [self.headline, *self.sections]


def make_report(
    inputs: ReportInput,
    trained_on: Sequence[str] = (),
    *,
    story: Story | None = None,
    budget: int = samples.BUDGET,
    selection: samples.ShownSamples | None = None,
) -> Report:
    """Compute what the page shows; the answers are chosen here, unless a ``selection`` is given."""
    evals, trainings, story = inputs.evals, inputs.trainings, story or Story()
    known = tuple(dict.fromkeys([*trained_on, *(run.task for run in trainings if run.task)]))
    every_task = tuple(dict.fromkeys(task for run in evals for task in run.tasks))
    unknown = [task for task in trained_on if task not in every_task]
    if unknown and every_task:
        raise RlcrError(
            f"--trained-on {', '.join(unknown)}: no run has it; the tasks are {', '.join(every_task)}"
        )
    made = _Making(evals, trainings, story, curves.scopes(evals, known), known, every_task)
    extra = artefacts.read_artefacts(evals)
    further, column_notes = _columns(evals)
    sections = [
        *made.tasks(),
        *made.differences(),
        *made.reliability(),
        *made.risk(extra),
        *further,
        *_several_samples(evals, extra),
        *_further(extra),
        *made.training(),
    ]
    return Report(
        title="Calibration report",
        sentence=made.sentence(),
        evals=evals,
        trainings=trainings,
        headline=made.headline(),
        sections=sections,
        selection=selection or samples.select(evals, budget),
        notes=[*inputs.notes, *map(without_folders, [*extra.notes, *column_notes])],
        warnings=[*(text for _, text in made.collapsed.values() if text), *inputs.warnings],
    )


class _Making:
    """The sections that are made of the runs themselves, and what they share."""

    def __init__(
        self,
        evals: list[EvalRun],
        trainings: list[TrainingRun],
        story: Story,
        scopes: list[curves.Scope],
        known: tuple[str, ...],
        every_task: tuple[str, ...],
    ) -> None:
        self.evals, self.trainings, self.story, self.every_task = evals, trainings, story, every_task
        self.scopes = scopes
        self.single = [scope for scope in scopes if len(scope.tasks) == 1]
        self.scope = _leading(scopes, known)
        self.measured = numbers.Measured()
        self.pairs = Pairs(evals, every_task)
        tasks = self.scope.tasks if self.scope else every_task
        self.collapsed: dict[str, tuple[Mark, str]] = {
            run.label: collapse_of(run, [task for task in tasks if task in run.tasks]) for run in evals
        }

    @property
    def marks(self) -> dict[str, Mark]:
        return {label: mark for label, (mark, _) in self.collapsed.items()}

    # --- the first screen ---------------------------------------------------------------------------

    def sentence(self) -> str:
        """What happened."""
        if not self.evals:
            return of_trainings([trained_of(run) for run in self.trainings])
        if not self.scopes:
            return f"{joined([run.label for run in self.evals])}: no answer yet."
        scope = self.scope or max(
            self.single, key=lambda s: sum(s.tasks[0] in run.tasks for run in self.evals)
        )
        having = [n for n, run in enumerate(self.evals) if set(scope.tasks) <= set(run.tasks)]
        if len(having) == 1 and len(self.evals) > 1 and not self.scope:
            return self._apart()
        results = [result_of(self.evals[n], scope.tasks, self.measured, self.marks) for n in having]
        where = self._where(scope)
        if self.story.exact:
            results = [replace(run, values=self.story.exact.get(run.label, run.values)) for run in results]
            return headline(results, exactly(results), where)

        if len(having) > 1 and any(self.evals[n].unfinished for n in having):
            results = results_on_shared(self.pairs, having, scope.tasks, self.marks)
            if not results:
                task = "of at least one task " if len(scope.tasks) > 1 else ""
                return f"{where}: {task}no question has been answered by every run yet."
            where += ", on the questions that all of them answered"

        def on(tasks: Sequence[str]) -> Differ:
            return lambda a, b, metric: self.pairs.difference(having[a], having[b], tasks, metric)

        by_task = {task: on([task]) for task in scope.tasks} if len(scope.tasks) > 1 else {}
        text = headline(results, on(scope.tasks), where, by_task)
        if others := [run.label for n, run in enumerate(self.evals) if n not in having]:
            text = f"{text[:-1]}; {joined(others)} {'has' if len(others) == 1 else 'have'} other tasks."
        return text

    def _where(self, scope: curves.Scope) -> str:
        """What the sentence is about, where that is not all there is: some tasks, or what is done so far."""
        said = []
        if len(scope.tasks) > 1:
            said.append(f"over {len(scope.tasks)} tasks")
        elif len(self.every_task) > 1:
            said.append(f"on {scope.title}")
            if not self.scope:
                shared = [set(run.tasks) for run in self.evals if run.tasks]
                alone = set.intersection(*shared) == set(scope.tasks)
                said.append("the only task in common" if alone else f"one of {len(self.every_task)} tasks")
        if unfinished := [run.unfinished for run in self.evals if run.unfinished]:
            done, total = (sum(counts) for counts in zip(*unfinished, strict=True))
            said += ["so far", f"after {done:,} of {total:,} answers"]
        if training := next((run for run in self.trainings if run.is_unfinished), None):
            said.append(f"at update {len(training.update):,} of {training.planned:,.0f}")
        text = ", ".join(said)
        return text[:1].upper() + text[1:]

    def _apart(self) -> str:
        results = [
            (task, result_of(run, [task], self.measured, self.marks))
            for run in self.evals
            for task in run.tasks
        ]
        return apart(results[:_MOST_IN_A_ROW])

    def headline(self) -> Section:
        """Reliability in a row, and the table."""
        if not self.evals:
            first = learning.key_curves(self.trainings)
            tables = (learning.trainings_table(self.trainings),)
            return Section("results", "Results", tables=tables, figures=() if first.missing else (first,))
        if not self.scopes:
            return Section("results", "Results", missing="Nothing has been answered yet.")
        return Section("results", "Results", tables=self._leading_tables(), figures=self._leading_row())

    def _leading_tables(self) -> tuple[Table, ...]:
        if not self.scope:
            return (self._grid(),)
        many = len(self.scope.tasks)
        title = (
            f"{self.scope.title}: average of {many} tasks" if many > 1 else f"Results on {self.scope.title}"
        )
        table = numbers.scope_table(self.pairs, self.measured, self.scope, self.marks, "headline", title)
        if not self.story.table:
            return (table,)
        folded = replace(
            table, title=f"{title}, sampled", folded="The same from sampled problems, with intervals"
        )
        return self._marked(self.story.table), folded

    def _marked(self, table: Table) -> Table:
        """A table of the caller's, with the marks of runs that collapsed."""
        rows = tuple((replace(row[0], mark=self.marks.get(row[0].text, "")), *row[1:]) for row in table.rows)
        return replace(table, rows=rows)

    def _leading_row(self) -> tuple[Figure, ...]:
        if self.scope:
            at = numbers.METRICS.index("ece")
            eces = {
                run.label: self.measured.of(run, self.scope.tasks)[0][at].value
                for run in self.evals
                if set(self.scope.tasks) <= set(run.tasks)
            }
            eces |= {label: values.get("ece") for label, values in self.story.exact.items()}
            figure = curves.reliability(self.evals, self.scope, is_row=True, eces=eces)
        else:
            figure = curves.reliability_row(self.evals, self.single, _MOST_IN_A_ROW)
        return (figure,)

    # --- what explains it ---------------------------------------------------------------------------

    def _grid(self) -> Table:
        table = numbers.grid(self.evals, self.measured, self.every_task)
        return self._marked(table)

    def tasks(self) -> list[Section]:
        """Runs by tasks, every task with all its numbers, and other sources of confidence."""
        tables: list[Table] = []
        if len(self.single) > 1:
            tables += [self._grid()] if self.scope else []
            for scope in self.single:
                marks: dict[str, Mark] = {run.label: collapse_of(run, scope.tasks)[0] for run in self.evals}
                table = numbers.scope_table(self.pairs, self.measured, scope, marks, scope.name, scope.title)
                tables.append(replace(table, folded=f"All numbers of {scope.title}, with intervals"))
        if sources := numbers.source_table(self.evals):
            tables.append(sources)
        if sources and len(tables) == 1:
            title = "Sources of confidence"
            return [Section("tasks", title, tables=tuple(tables), short="Sources")]
        return [Section("tasks", "Task by task", tables=tuple(tables), short="Tasks")] if tables else []

    def differences(self) -> list[Section]:
        """Every run minus one, which the reader chooses."""
        tables = differences(self.pairs, [self.marks[run.label] for run in self.evals])
        if len(self.evals) < 2 or not tables:
            return []
        intro = "Each run minus the baseline, on the questions that both answered."
        return [Section("differences", "Differences", intro, choices=tuple(tables), choose="Baseline")]

    def reliability(self) -> list[Section]:
        """The diagrams of every task, where the first screen has not shown them all."""
        drawn_first = sum(len(run.tasks) for run in self.evals) <= _MOST_IN_A_ROW and not self.scope
        if len(self.single) < 2 or drawn_first:
            return []
        figures = tuple(curves.reliability(self.evals, scope) for scope in self.single)
        drawn = tuple(figure for figure in figures if not figure.missing)
        return [Section("reliability", "Reliability", curves.RELIABILITY, figures=drawn)] if drawn else []

    def risk(self, extra: artefacts.Artefacts) -> list[Section]:
        """Error rates of the most confident answers."""
        figures = (curves.risk_coverage(self.evals, self.scopes),) if self.scopes else ()
        figures = tuple(figure for figure in figures if not figure.missing)
        tables = extra.tables_of("selective.json")
        intro = "Does confidence tell right from wrong?"
        section = Section("risk", "Risk and coverage", intro, tables, figures, short="Risk")
        return [section] if figures or tables else []

    def training(self) -> list[Section]:
        """The curves of the trainings, their held-out evaluations, and what each scoring rule pays."""
        if not self.trainings:
            return []
        table = learning.held_out_table(self.trainings)
        held_out = learning.held_out(self.trainings)
        figures = (learning.training(self.trainings), *(() if held_out.missing else (held_out,)))
        # Without evaluations the table of trainings leads the page.
        tables = (learning.trainings_table(self.trainings),) if self.evals else ()
        intro = " ".join(filter(None, [learning.lengths(self.trainings), self.story.lengths]))
        rules = Section("rules", "Scoring rules", figures=(curves.rules(),), short="Rules")
        return [
            Section("training", "Training", intro, (*tables, *([table] if table else [])), figures),
            rules,
        ]


def _leading(scopes: Sequence[curves.Scope], known: Sequence[str]) -> curves.Scope | None:
    """What the first table is of: the pool, or the one task there is, or the one not trained on."""
    if not scopes or len(scopes) == 1 or len(scopes[0].tasks) > 1:
        return scopes[0] if scopes else None
    others = [scope for scope in scopes if scope.tasks[0] not in known]
    return others[0] if len(others) == 1 else None


def _columns(evals: list[EvalRun]) -> tuple[list[Section], list[str]]:
    """Every column of confidence of the runs that compared theirs (`rlcr confidence compare`)."""
    tables: list[Table] = []
    figures: list[Figure] = []
    notes: list[str] = []
    for run in evals:
        if stored := run.artefacts.get(COMPARISON):
            compared, figure, problems = columns.section_of(run, stored)
            tables += compared
            figures += [figure] if figure else []
            notes += problems
    if not tables:
        return [], notes
    intro = (
        "Other sources of confidence in the same answers: from the model, from further samples, or learned."
    )
    section = Section(
        "columns", "Columns of confidence", intro, tuple(tables), tuple(figures), short="Columns"
    )
    return [section], notes


def _several_samples(evals: list[EvalRun], extra: artefacts.Artefacts) -> list[Section]:
    """Votes and coherence, where a run has several samples; what is not computed yet is said."""
    several = [run for run in evals if number_of(run.settings.get("samples")) > 1]

    def lacking(file: str, command: str) -> str:
        runs = [run.label for run in several if file not in run.artefacts]
        where = "; ".join(runs)
        return f"Missing or out of date for {where}: run `rlcr {command} RUN`." if runs else ""

    scaling = Section(
        "scaling",
        "Test-time scaling",
        "What more samples of the same question are worth, for each way of choosing one answer.",
        extra.tables_of("adaptive.json", "voting.json"),
        extra.figures_of("voting.json", "analyses.json"),
        lacking("voting.json", "vote"),
        short="Votes",
    )
    coherence = Section(
        "coherence",
        "Coherence",
        "Are a model's confidences consistent with each other?",
        figures=extra.figures_of("coherence.json"),
        missing=lacking("coherence.json", "coherence"),
    )
    return [
        section for section in (scaling, coherence) if section.tables or section.figures or section.missing
    ]


def _further(extra: artefacts.Artefacts) -> list[Section]:
    figures = extra.figures_of("classifier_sizes.json")
    section = Section("further", "Classifiers of several sizes", figures=figures, short="Classifiers")
    return [section] if figures else []
