"""`rlcr eval`, `rlcr rescore`, `rlcr compare` and `rlcr export`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from rlcr.cli.show import results as tables
from rlcr.cli.show import show
from rlcr.cli.training import overridden
from rlcr.errors import RlcrError
from rlcr.evaluate import compare as comparing
from rlcr.evaluate import export as lm_eval
from rlcr.evaluate import run as evaluation
from rlcr.evaluate.adaptive import adaptive_lines
from rlcr.evaluate.methods import METHODS
from rlcr.evaluate.progress import RunProgress
from rlcr.runs.store import RUN, open_run
from rlcr.sample.opening import Access, Mode
from rlcr.terminal import say

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A folder written by `rlcr eval`.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Grading = Annotated[
    Literal["strict", "paper"], typer.Option(help="strict, or as the paper's authors read and graded.")
]
Judge = Annotated[
    str | None, typer.Option(metavar="MODEL", help="Model or URL that judges tasks whose verifier is judge.")
]


def eval_(
    context: typer.Context,
    *,
    model: Annotated[
        str | None,
        typer.Option(help="Folder, hub id, LoRA adapter, GGUF file, or http://host:port/v1[#name]."),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="Task, or several joined by commas; see `rlcr tasks`.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="RUN", help="Folder for the run.")],
    method: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"How to ask and read: {', '.join(METHODS)}; default: what the checkpoint was trained for.",
        ),
    ] = None,
    split: Annotated[str, typer.Option(help="Split of the tasks.")] = "test",
    limit: Annotated[
        int | None, typer.Option(help="How many problems of each task; default: all.", min=1)
    ] = None,
    samples: Annotated[int, typer.Option(help="Samples of each problem.", min=1)] = 1,
    adaptive: Annotated[
        bool,
        typer.Option("--adaptive", help="Stop once a problem's answer is safe; --samples is the budget."),
    ] = False,
    safety: Annotated[
        float | None,
        typer.Option(help="With --adaptive: chance that the leading answer stays ahead; default 0.95."),
    ] = None,
    max_tokens: Annotated[int, typer.Option(help="Tokens of a response at most.", min=1)] = 4096,
    temperature: Annotated[
        float | None, typer.Option(help="Default: 0 for one sample, 0.7 for several.", min=0)
    ] = None,
    top_p: Annotated[
        float, typer.Option(help="Draw from the likeliest tokens that together reach this probability.")
    ] = 1.0,
    stop: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="End a response before this text; may be given several times."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the sampling.")] = 0,
    grading: Grading = "strict",
    verifier: Annotated[
        str | None, typer.Option(help="Another verifier than the task's own, such as judge.")
    ] = None,
    judge: Judge = None,
    prompt: Annotated[
        str | None, typer.Option(metavar="FILE", help="Another system prompt than the method's.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of local data sets (or RLCR_DATA).")] = None,
    mode: Annotated[
        Mode | None, typer.Option(help="Server: how to ask. completion continues responses on any server.")
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Server: folder or hub id whose chat template completion uses."),
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(help="Server: requests at once; default 16.", min=1)
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(help="Server: seconds for a request; default 600.", min=1)
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Local model: cpu, cuda, mps; default: the fastest there is.")
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="Local model: float32, bfloat16 or float16; default by device.")
    ] = None,
    chat_template: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Argument of the chat template: enable_thinking=false."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in --out, which knows all other options.")
    ] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="With --resume: ask again for completions that failed.")
    ] = False,
    as_json: Json = False,
) -> None:
    """How accurate and how calibrated is this model?"""
    if safety is not None and not adaptive:
        raise RlcrError("--safety is for --adaptive: give both, or neither")
    settings: dict[str, Any] = {
        "model": model,
        "tasks": tuple(name.strip() for name in (task or "").split(",")),
        "method": method,
        "split": split,
        "limit": limit,
        "samples": samples,
        "max_tokens": max_tokens,
        "temperature": temperature,
        "top_p": top_p,
        "stop": tuple(stop or ()),
        "seed": seed,
        "grading": grading,
        "verifier": verifier,
        "judge": judge,
        "prompt": prompt,
        "adaptive": (0.95 if safety is None else safety) if adaptive else None,
    }
    missing = [name for name, value in (("--model", model), ("--task", task)) if value is None]
    if missing and not resume:
        raise RlcrError(f"give {' and '.join(missing)}; or --resume, to continue the run in {out}")
    watching: list[RunProgress] = []

    def watch(done: int, total: int) -> RunProgress:
        watching.append(RunProgress(done, total))
        return watching[-1]

    reaching: dict[str, Any] = {
        "retry_failed": retry_failed,
        "data_dir": data_dir,
        "access": Access(mode, tokenizer, concurrency, timeout, device, dtype, overridden(chat_template)),
        "watch": watch,
    }
    try:
        if resume:
            given = {name: settings[name] for name in settings if _is_given(context, name)}
            measured = evaluation.continue_run(out, given, **reaching)
        else:
            measured = evaluation.evaluate(evaluation.Settings(**settings), out, **reaching)
    except KeyboardInterrupt:
        rest = f": {_kept(out)}" if (out / RUN).exists() else " before anything was begun"
        say(f"\nrlcr: interrupted{rest}", file=sys.stderr)
        raise
    except RlcrError as error:
        if not watching:  # nothing was begun
            raise
        raise RlcrError(f"{error}. What is done is kept: {_kept(out)}") from None
    finally:
        for progress in watching:
            progress.close()
    show(measured, as_json, tables.print_results)
    if measured.settings["adaptive"] and not as_json:
        for line in adaptive_lines(out):
            say(line)


def _is_given(context: typer.Context, setting: str) -> bool:
    """Whether the user gave the option of a setting, rather than left it to its default."""
    options = {"tasks": ["task"], "adaptive": ["adaptive", "safety"]}.get(setting, [setting])
    sources = [context.get_parameter_source(option) for option in options]
    return any(source is not None and source.name == "COMMANDLINE" for source in sources)


def _kept(out: Path) -> str:
    """How much of a run is there, and how to go on."""
    run = open_run(out)
    return f"{run.state()}; {run.resume_command()} continues"


def rescore(
    run: RunFolder,
    grading: Annotated[
        Literal["strict", "paper"] | None, typer.Option(help="Another grading than the run's.")
    ] = None,
    verifier: Annotated[str | None, typer.Option(help="Another verifier than the run's.")] = None,
    judge: Judge = None,
    as_json: Json = False,
) -> None:
    """Read, verify and measure a run again, without sampling."""
    measured = evaluation.rescore(run, grading=grading, verifier=verifier, judge=judge)
    show(measured, as_json, tables.print_results)


def compare(
    run_a: Annotated[Path, typer.Argument(metavar="RUN_A")],
    run_b: Annotated[Path, typer.Argument(metavar="RUN_B")],
    confidence: Annotated[
        str, typer.Option(metavar="COLUMN", help="Confidence column of both runs; see `rlcr confidence`.")
    ] = "verbalised",
    as_json: Json = False,
) -> None:
    """Paired differences between two runs on the same questions: the second minus the first."""
    comparison = comparing.compare_runs(run_a, run_b, confidence=confidence)
    show(comparison, as_json, tables.print_comparison)


def export(
    run: RunFolder, out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to write.")]
) -> None:
    """Write a run in lm-evaluation-harness's shape: results.json and samples_TASK.jsonl."""
    for path in lm_eval.export(run, out):
        say(path)
