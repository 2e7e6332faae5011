"""The report: one page that holds everything, and the same figures and tables as files.

Everything that a model or a data set wrote is text here: escaped in the HTML by the template, escaped again
in the JSON of the samples, shown by the page's script as text alone, under a policy that runs and loads
nothing but the script and the style that this module put there.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from rlcr.errors import RlcrError
from rlcr.metrics.tables import Table, csv_text, latex, markdown
from rlcr.report import artefacts, charts, columns, curves, numbers, plots, samples
from rlcr.report.fields import number_of
from rlcr.report.reading import EvalRun, ReportInput, TrainingRun, read_runs
from rlcr.report.shapes import PALETTE, Figure, data_of
from rlcr.runs.lines import write_whole
from rlcr.runs.store import COMPARISON

_HERE = Path(__file__).parent / "page"
_MOST_DATA_ROWS = 2000


@dataclass(frozen=True)
class Section:
    """A part of the page."""

    name: str
    title: str
    intro: str
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    missing: str = ""


@dataclass(frozen=True)
class Report:
    """All that a page shows, before it is written."""

    title: str
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


def write_report(
    folders: Sequence[Path | str],
    out: Path | str,
    *,
    figures: Path | None = None,
    trained_on: Sequence[str] = (),
    first: Sequence[Table] = (),
) -> Report:
    """Read the runs and write the page; with ``figures``, the figures and tables as files too.

    The results begin with the tables ``first``, which the caller has made.
    """
    out = Path(out)
    if out.is_dir():
        raise RlcrError(f"{out}: is a folder; the report is one file, such as report.html")
    if figures is not None and figures.exists() and not figures.is_dir():
        raise RlcrError(f"{figures}: not a folder")
    report = make_report(read_runs([*map(Path, folders)]), trained_on, first=first)
    write_whole(out, render(report))
    if figures is not None:
        write_files(report, figures)
    return report


def make_report(
    inputs: ReportInput,
    trained_on: Sequence[str] = (),
    *,
    first: Sequence[Table] = (),
    budget: int = samples.BUDGET,
) -> Report:
    """Compute what the page shows."""
    evals, trainings = inputs.evals, inputs.trainings
    known = tuple(dict.fromkeys([*trained_on, *(run.task for run in trainings if run.task)]))
    every_task = tuple(dict.fromkeys(task for run in evals for task in run.tasks))
    unknown = [task for task in trained_on if task not in every_task]
    if unknown and every_task:
        raise RlcrError(
            f"--trained-on {', '.join(unknown)}: no run has it; the tasks are {', '.join(every_task)}"
        )
    scopes = curves.scopes(evals, known)
    extra = artefacts.read_artefacts(evals)
    further, column_notes = _columns(evals)
    sections = [
        *_task_sections(evals, scopes),
        *further,
        _calibration(evals, scopes),
        _risk(evals, scopes, extra),
        *_several_samples(evals, extra),
        *_training(trainings),
        *_further(extra),
        Section("rules", "Scoring rules", "", figures=(curves.rules(),)),
    ]
    return Report(
        title="Calibration report",
        evals=evals,
        trainings=trainings,
        headline=_headline(evals, scopes, known, first),
        sections=sections,
        selection=samples.select(evals, budget),
        notes=[*inputs.notes, *extra.notes, *column_notes],
        warnings=inputs.warnings,
    )


def _headline(
    evals: list[EvalRun], scopes: list[curves.Scope], known: tuple[str, ...], first: Sequence[Table]
) -> Section:
    if not scopes:
        return Section(
            "results", "Results", "", missing="No run was evaluated, so that there are no results yet."
        )
    scope = scopes[0]
    if len(scope.tasks) == 1:
        # One task, or one beside what was trained on: that one.
        scope = next((s for s in scopes if s.tasks[0] not in known), scope)
        title = scope.title
    else:
        title = f"{scope.title}: average of {len(scope.tasks)} tasks"
    intro = (
        "Numbers with their 95% intervals. The best of each column is marked. Repaired: answers that took a "
        "forced continuation. Unscorable: answers that could not be judged right or wrong; they "
        "count for nothing. Rated: those that were judged and state a confidence, on which AUROC, Brier and "
        "ECE rest."
    )
    tables = (*first, numbers.scope_table(evals, scope, "headline", title))
    return Section("results", "Results", intro, tables)


def _task_sections(evals: list[EvalRun], scopes: list[curves.Scope]) -> list[Section]:
    tasks = [scope for scope in scopes if len(scope.tasks) == 1]
    sections = []
    tables = [numbers.scope_table(evals, s, s.name, s.title) for s in tasks] if len(tasks) > 1 else []
    if sources := numbers.source_table(evals):
        tables.append(sources)
    if tables:
        sections.append(Section("tasks", "Task by task", "", tuple(tables)))
    names = [task for scope in tasks for task in scope.tasks]
    if len(evals) > 1:
        intro = "Each run minus another, on the same questions."
        sections.append(Section("differences", "Differences", intro, (numbers.differences(evals, names),)))
    return sections


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
    return [Section("columns", "Columns of confidence", intro, tuple(tables), tuple(figures))], notes


def _calibration(evals: list[EvalRun], scopes: list[curves.Scope]) -> Section:
    figures = tuple(curves.reliability(evals, scope) for scope in scopes)
    missing = "" if figures else "No run was evaluated, so that there is no reliability diagram."
    return Section("reliability", "Reliability", curves.RELIABILITY, figures=figures, missing=missing)


def _risk(evals: list[EvalRun], scopes: list[curves.Scope], extra: artefacts.Artefacts) -> Section:
    figures = (curves.risk_coverage(evals, scopes),) if scopes else ()
    missing = "" if figures else "No run was evaluated, so that there is no risk and coverage."
    return Section(
        "risk",
        "Risk and coverage",
        "Does confidence tell right from wrong?",
        extra.tables_of("selective.json"),
        figures,
        missing,
    )


def _several_samples(evals: list[EvalRun], extra: artefacts.Artefacts) -> list[Section]:
    """Votes and coherence, where a run has several samples; what is not computed yet is said."""
    several = [run for run in evals if number_of(run.settings.get("samples")) > 1]
    files = ("voting.json", "analyses.json", "coherence.json")
    if not several and not any(file in run.artefacts for run in evals for file in files):
        return []

    def lacking(file: str, command: str) -> str:
        runs = [run.label for run in several if file not in run.artefacts]
        where = "; ".join(runs)
        return f"Not there, or out of date, for {where}: `rlcr {command} RUN` does it." if runs else ""

    return [
        Section(
            "scaling",
            "Test-time scaling",
            "What more samples of the same question are worth, by the way in which one answer is chosen.",
            extra.tables_of("adaptive.json", "voting.json"),
            extra.figures_of("voting.json", "analyses.json"),
            lacking("voting.json", "vote"),
        ),
        Section(
            "coherence",
            "Coherence",
            "Do the confidences of a model agree with each other?",
            figures=extra.figures_of("coherence.json"),
            missing=lacking("coherence.json", "coherence"),
        ),
    ]


def _further(extra: artefacts.Artefacts) -> list[Section]:
    figures = extra.figures_of("classifier_sizes.json")
    return [Section("further", "Further results", "", figures=figures)] if figures else []


def _training(trainings: list[TrainingRun]) -> list[Section]:
    if not trainings:
        missing = "No training run was given: name a folder of `rlcr train` to see its curves here."
        return [Section("training", "Training", "", missing=missing)]
    table = numbers.held_out_table(trainings)
    figures = (curves.training(trainings), curves.held_out(trainings))
    made = numbers.trainings_table(trainings)
    tables = (made, table) if table else (made,)
    return [Section("training", "Training", "", tables, figures)]


# --- the page ---------------------------------------------------------------------------------------


def render(report: Report) -> str:
    """The page as HTML."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["cut"] = samples.cut
    style, script = _read("style.css").replace("/* palette */", _palette()), _read("page.js")
    data = {
        "runs": [{"name": samples.cut(run.label), "method": samples.cut(run.method)} for run in report.evals],
        "colours": len(PALETTE),
        "problems": report.selection.problems,
        "samples": report.selection.samples,
    }

    def data_table(figure: Figure) -> tuple[list[str], list[list[str]], int]:
        heads, rows = data_of(figure)
        every = list(rows)
        return heads, every[:_MOST_DATA_ROWS], max(0, len(every) - _MOST_DATA_ROWS)

    text = environment.get_template("page.html").render(
        report=report,
        overview=numbers.overview(report.evals),
        tasks=list(dict.fromkeys(problem["t"] for problem in report.selection.problems)),
        style=Markup(style),
        script=Markup(script),
        policy=_policy(style, script),
        data=Markup(samples.safe_json(data)),
        svg=lambda panel, figure: Markup(charts.panel_svg(panel, figure)),
        swatch=lambda series: Markup(charts.swatch(series)),
        data_table=data_table,
        version=version("rlcr"),
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )
    # A name may hold half a character, which no file can.
    return text.lstrip().encode("utf-8", "replace").decode("utf-8")


def _read(name: str) -> str:
    # HTML turns every line break into one character, and the policy's hash is over what it makes of the text.
    return (_HERE / name).read_text(encoding="utf-8").replace("\r\n", "\n")


def _palette() -> str:
    light = "".join(f"--s{n}:{pair[0]};" for n, pair in enumerate(PALETTE))
    dark = "".join(f"--s{n}:{pair[1]};" for n, pair in enumerate(PALETTE))
    rules = "".join(f".s{n}{{--c:var(--s{n})}}" for n in range(len(PALETTE)))
    return (
        f":root{{{light}}}:root[data-theme=dark]{{{dark}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}"
        f"@media print{{:root,:root[data-theme=dark]{{{light}}}}}{rules}"
    )


def _policy(style: str, script: str) -> str:
    def source(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    return (
        f"default-src 'none'; script-src {source(script)}; style-src {source(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


# --- files ------------------------------------------------------------------------------------------


def write_files(report: Report, folder: Path) -> list[Path]:
    """Every figure as PNG, SVG and PDF, every table as Markdown, LaTeX and CSV."""
    written: list[Path] = []
    for section in report.every_section():
        for figure in section.figures:
            written += plots.write_figure(figure, folder)
        for table in section.tables:
            for ending, form in ((".md", markdown), (".tex", latex), (".csv", csv_text)):
                path = folder / f"{table.name}{ending}"
                write_whole(path, form(table).encode("utf-8", "replace").decode("utf-8"))
                written.append(path)
    return written
