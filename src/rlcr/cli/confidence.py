"""`rlcr confidence`: further columns of confidence on a run, trained classifiers, and the comparison."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from rlcr.cli.evaluating import Grading, Json, RunFolder
from rlcr.cli.measuring import Format, Verifier
from rlcr.cli.show import show
from rlcr.errors import RlcrError
from rlcr.evaluate.progress import progress_bar
from rlcr.terminal import say

app = typer.Typer(
    help="Confidence from elsewhere: token probabilities, agreement, a probe, a classifier, recalibration.",
    no_args_is_help=True,
)


@app.command()
def add(
    source: Annotated[
        str, typer.Argument(metavar="NAME", help="One of the sources above, or several joined by commas.")
    ],
    run: RunFolder,
    name: Annotated[str | None, typer.Option("--as", metavar="COLUMN", help="Another name for it.")] = None,
    train: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN", help="Learn from this run; default: across folds of the run's questions."
        ),
    ] = None,
    of: Annotated[
        str, typer.Option(metavar="COLUMN", help="temperature, platt, isotonic: what to recalibrate.")
    ] = "verbalised",
    model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Probe: where the generating model is now.")
    ] = None,
    layer: Annotated[int, typer.Option(help="Probe: 0 the word embeddings, -1 the last layer.")] = -1,
    classifier: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="classifier: a folder of `train-classifier`.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="file: JSONL, CSV or Parquet with confidences.")
    ] = None,
    field: Annotated[str, typer.Option(metavar="COL", help="file: column of confidences.")] = "confidence",
    id_field: Annotated[str, typer.Option("--id", metavar="COL", help="file: column of problem ids.")] = "id",
    device: Annotated[str, typer.Option(help="cpu, cuda, mps; default: the fastest there is.")] = "auto",
    dtype: Annotated[str, typer.Option(help="float32, bfloat16 or float16; default by device.")] = "auto",
) -> None:
    """Add a column of confidence to a run, and measure the run again with it.

    Sources: answer-probability-min, answer-probability-product and response-likelihood, from the
    probabilities of tokens; agreement and hybrid, from several samples of a question; probe, from the
    model's hidden states; classifier, made by `rlcr confidence train-classifier`; temperature, platt and
    isotonic, which recalibrate another column; file, from a table of yours.
    """
    from rlcr.confidence.sources import Options, add_columns

    with progress_bar("embedding") as progress:
        options = Options(train, of, model, layer, classifier, file, field, id_field, device, dtype, progress)
        columns = add_columns(run, [part.strip() for part in source.split(",")], options, name)
    for added in columns:
        say(added.path)
        for key, value in added.provenance.items():
            if key not in ("source", "settings", "map"):
                say(f"  {key}: {value if isinstance(value, str) else json.dumps(value)}")


@app.command("list")
def list_(run: RunFolder) -> None:
    """The columns of a run, and where each is from."""
    from rlcr.runs.columns import column_names, fresh_columns, provenance
    from rlcr.runs.store import open_run

    opened = open_run(run)
    _, stale = fresh_columns(opened)
    for name in column_names(opened):
        say(f"{name}: {stale.get(name) or provenance(opened, name).get('source', 'unknown')}")


@app.command()
def compare(
    run: RunFolder,
    resamples: Annotated[int, typer.Option(help="Bootstrap resamples; 0 for none.", min=0)] = 1000,
    as_json: Json = False,
) -> None:
    """All columns of a run in one table, and each against what the model stated."""
    from rlcr.cli.show.columns import print_columns
    from rlcr.confidence.comparison import compare_columns

    show(compare_columns(run, resamples=resamples), as_json, print_columns)


@app.command("train-classifier")
def train_classifier(
    run: RunFolder,
    model: Annotated[str, typer.Option(help="Checkpoint to start from: folder or hub id, of any size.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to write the classifier.")],
    loss: Annotated[Literal["bce", "brier"], typer.Option(help="Cross-entropy, or squared error.")] = "bce",
    part: Annotated[
        Literal["solution", "analysis"],
        typer.Option(help="What it reads: up to the answer, or all but the stated confidence."),
    ] = "solution",
    epochs: Annotated[float, typer.Option(min=0.01)] = 3.0,
    batch: Annotated[int, typer.Option(help="Rows of an update.", min=1)] = 16,
    micro_batch: Annotated[int, typer.Option(help="Rows at once.", min=1)] = 4,
    lr: Annotated[float, typer.Option(min=0)] = 1e-5,
    max_tokens: Annotated[int, typer.Option(help="Of a longer text the beginning is cut.", min=8)] = 2048,
    seed: int = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted training.")] = False,
) -> None:
    """Train a classifier of right and wrong on the records of a run."""
    from rlcr.confidence.classifier import ClassifierSettings
    from rlcr.confidence.classifier import train_classifier as train
    from rlcr.confidence.rows import read_rows

    settings = ClassifierSettings(
        loss=loss,
        part=part,
        epochs=epochs,
        batch=batch,
        micro_batch=min(micro_batch, batch),
        lr=lr,
        max_tokens=max_tokens,
        seed=seed,
    )
    trained = train(read_rows(run), model, out, settings, resume=resume)
    right, wrong, lost = (trained.counts[name] for name in ("correct", "wrong", "unscorable"))
    say(out)
    say(
        f"records: {right:,} right, {wrong:,} wrong; {lost:,} unscorable, left out; {trained.cut:,} cut short"
    )
    held = trained.held_out
    say(f"held-out Brier: {held['brier']:.4f}; always saying the base rate: {held['base_rate_brier']:.4f}")


@app.command()
def study(
    baseline: Annotated[
        Path, typer.Argument(metavar="BASELINE", help="Run whose solutions have no analysis.")
    ],
    analysis: Annotated[
        Path, typer.Argument(metavar="ANALYSIS", help="Run of a model that analyses itself.")
    ],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to write the classifiers.")],
    recipe: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Another recipe than the paper's (YAML).")
    ] = None,
    models: Annotated[
        str | None, typer.Option(metavar="A,B", help="Other models than the recipe's, joined by commas.")
    ] = None,
) -> None:
    """Does an analysis help a classifier? The same one on two runs, at several sizes (one figure)."""
    from rlcr.cli.show.columns import print_study
    from rlcr.confidence.study import load_study, run_study

    plan = load_study(recipe)
    if models:
        plan = plan.with_models([name.strip() for name in models.split(",")])
    print_study(run_study(baseline, analysis, out, plan))


def import_(
    file: Annotated[
        Path,
        typer.Argument(help="A table, or a log of inspect, lm-eval, verifiers or verl.", show_default=False),
    ],
    out: Annotated[Path, typer.Option(metavar="RUN", help="Folder for the run.")],
    completion: Annotated[str | None, typer.Option(metavar="COL", help="Table: model outputs.")] = None,
    gold: Annotated[
        str | None, typer.Option(metavar="COL", help="Table: right answers; a list holds aliases.")
    ] = None,
    question: Annotated[str | None, typer.Option(metavar="COL", help="Table: questions.")] = None,
    id: Annotated[
        str | None,
        typer.Option(
            metavar="COL", help="Table: what identifies a question; rows alike in it are its samples."
        ),
    ] = None,
    correct: Annotated[
        str | None, typer.Option(metavar="COL", help="Verdicts, or a log's score, instead of verifying.")
    ] = None,
    confidence: Annotated[
        str | None,
        typer.Option(metavar="COL", help="Column of confidences from 0 to 1, instead of those in the text."),
    ] = None,
    percent: Annotated[
        bool, typer.Option("--percent", help="Confidences of that column are from 0 to 100.")
    ] = False,
    choices: Annotated[
        str | None, typer.Option(metavar="COL", help="Column of options, for the choice verifier.")
    ] = None,
    format: Format = "rlcr",
    verifier: Verifier = "exact",
    grading: Grading = "strict",
    task: Annotated[str | None, typer.Option(help="Name of the task; default: the file's.")] = None,
    model: Annotated[str, typer.Option(help="What made them.")] = "imported",
    as_json: Json = False,
) -> None:
    """Turn completions from anywhere into a run, for everything that reads runs.

    A table needs --completion, --gold and --question; a log of another engine needs none of them.
    """
    from rlcr.adapters.logs import COLUMNS, MISSING, log_kind, log_rows, what_is_missing
    from rlcr.cli.show.results import print_results
    from rlcr.evaluate.importing import TableColumns, import_run

    rows, missing = None, ""
    if percent and not confidence:
        raise RlcrError("--percent is about a column of confidences: name it with --confidence COL")
    if completion and gold and question:
        columns = TableColumns(completion, gold, question, id, correct, confidence, choices, percent)
    elif not (named := any((completion, gold, question, id, confidence, choices))) and (
        kind := log_kind(file)
    ):
        options = "choices" if verifier == "choice" else None
        columns = replace(COLUMNS, correct=correct, choices=options)
        rows, missing = log_rows(file, kind, correct), MISSING
    else:
        hint = "" if named else what_is_missing(file)
        raise RlcrError(
            f"{file}: say which column is which: --completion COL --gold COL --question COL"
            + (f"; {hint}" if hint else "")
        )
    results = import_run(
        file,
        out,
        columns,
        format=format,
        verifier=verifier,
        grading=grading,
        task=task,
        model=model,
        rows=rows,
        missing=missing,
    )
    show(results, as_json, print_results)
