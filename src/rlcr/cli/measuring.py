"""`rlcr metrics`, `rlcr score` and `rlcr check-reward`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from rlcr import scoring
from rlcr.cli.evaluating import Json
from rlcr.cli.show import measurement as terminal
from rlcr.cli.show import show
from rlcr.errors import RlcrError
from rlcr.evaluate import graded_table, results
from rlcr.evaluate import score as grader
from rlcr.evaluate.progress import progress_bar
from rlcr.metrics.measurement import GradedSamples
from rlcr.report import curves, plots
from rlcr.runs.store import RUN
from rlcr.tasks.plumbing.tables import NoColumn
from rlcr.terminal import say

Table = Annotated[Path, typer.Argument(help="JSONL, CSV (both also .gz) or Parquet.", show_default=False)]
TableOrRun = Annotated[
    Path, typer.Argument(help="JSONL, CSV (both also .gz), Parquet, or a run's folder.", show_default=False)
]
Completion = Annotated[str, typer.Option(metavar="COL", help="Column of model outputs.")]
Gold = Annotated[str, typer.Option(metavar="COL", help="Column of right answers; a list holds aliases.")]
Format = Annotated[str, typer.Option(metavar="NAME", help="Tag set: rlvr, confidence or rlcr.")]
Verifier = Annotated[str, typer.Option(metavar="NAME", help="exact, math or choice.")]
Resamples = Annotated[int, typer.Option(help="Bootstrap resamples behind the intervals; 0 for none.", min=0)]


def metrics(
    file: TableOrRun,
    correct: Annotated[
        str | None,
        typer.Option(metavar="COL", help="Column of verdicts, 1 or 0, true or false; default: correct."),
    ] = None,
    confidence: Annotated[
        str | None,
        typer.Option(
            metavar="COL", help="Column of confidences; default: confidence, of a run what the model stated."
        ),
    ] = None,
    percent: Annotated[
        bool, typer.Option("--percent", help="Confidences are from 0 to 100, not from 0 to 1.")
    ] = False,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COL",
            help="Also measure each group of rows, and their average; of a run, by what its problems carry.",
        ),
    ] = None,
    question: Annotated[
        str | None, typer.Option(metavar="COL", help="Rows alike in this column are samples of one question.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw a reliability diagram (.png, .svg or .pdf).")
    ] = None,
    resamples: Resamples = 1000,
    as_json: Json = False,
) -> None:
    """How accurate and how calibrated? From verdicts and confidences you already have.

    A list in a cell holds several samples of that question; questions are then what the bootstrap
    resamples. An empty verdict is unscorable: counted, and left out.
    """
    if plot:
        plots.check_name(plot)
    if os.path.exists(file / RUN):  # os.path, since a name that is too long is no error to it
        own = {"correct": correct, "question": question, "percent": percent}
        for name in (name for name, given in own.items() if given):
            raise RlcrError(
                f"{file}: a run has its own verdicts, confidences and questions; leave out --{name}"
            )
        samples = results.run_samples(file, confidence or "verbalised", by)
    else:
        samples = _read_graded(file, correct, confidence, by, question, percent)
    with progress_bar("measuring") as measuring:
        measurement = samples.measure(resamples=resamples, progress=measuring)
    if plot:
        diagram = curves.reliability_of(file.name, measurement.reliability(), measurement.overall)
        plots.save(diagram, [plot])
    show(measurement, as_json, terminal.print_measurement)


def _read_graded(
    file: Path,
    correct: str | None,
    confidence: str | None,
    by: str | None,
    question: str | None,
    percent: bool,
) -> GradedSamples:
    """A table's verdicts and confidences, in the columns of those names where none is given."""
    try:
        with progress_bar("reading") as reading:
            return graded_table.read_graded(
                file,
                correct=correct or "correct",
                confidence=confidence or "confidence",
                by=by,
                question=question,
                percent=percent,
                progress=reading,
            )
    except NoColumn as error:
        for name, given in (("correct", correct), ("confidence", confidence)):
            if error.column == name and given is None:
                raise RlcrError(f"{error}; say which column it is: --{name} COL") from None
        raise


def score(
    file: Table,
    completion: Completion,
    gold: Gold,
    format: Format = "rlcr",
    verifier: Verifier = "exact",
    grading: Annotated[
        Literal["strict", "paper"],
        typer.Option(help="strict, or as the paper's authors graded (strict is then reported beside it)."),
    ] = "strict",
    choices: Annotated[
        str | None, typer.Option(metavar="COL", help="Column of options, for the choice verifier.")
    ] = None,
    id: Annotated[
        str | None, typer.Option(metavar="COL", help="Column that identifies a row in --out.")
    ] = None,
    think_open: Annotated[
        bool, typer.Option("--think-open", help="The prompt ended inside <think>, so outputs begin there.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a line of JSON for each completion.")
    ] = None,
    resamples: Resamples = 1000,
    as_json: Json = False,
) -> None:
    """Grade completions from anywhere: parse them, verify the answers, measure the confidences."""
    with progress_bar("grading") as reading:
        graded = grader.grade_file(
            file,
            completion=completion,
            gold=gold,
            format=format,
            verifier=verifier,
            grading=grading,
            choices=choices,
            id=id,
            think_open=think_open,
            out=out,
            progress=reading,
        )
    with progress_bar("measuring") as measuring:
        scores = graded.finish(resamples=resamples, progress=measuring)
    show(scores, as_json, terminal.print_scores)


def check_reward(
    rule: Annotated[
        str, typer.Option(metavar="NAME", help="brier, log, log-clipped or spherical.")
    ] = "brier",
    lam: Annotated[float, typer.Option(help="Weight of correctness against the scoring rule.")] = 1.0,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the expected reward (.png, .svg or .pdf).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Does the reward lam * correct - S(confidence, correct) pay for honesty, and for being right?"""
    report = scoring.check_incentives(scoring.get_rule(rule), lam)
    if plot:
        brier = scoring.check_incentives(scoring.BRIER)  # for comparison
        plots.save(curves.incentives([report] if rule == "brier" else [report, brier]), [plot])
    if as_json:
        say(json.dumps(terminal.incentives_to_dict(report)))
    else:
        terminal.print_incentives(report)
