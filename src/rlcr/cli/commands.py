"""Every command by its name, and how one is run."""

from __future__ import annotations

import sys
import warnings
from importlib.metadata import version
from typing import Annotated

import typer

from rlcr.cli import (
    adapters,
    asking,
    confidence,
    evaluating,
    examining,
    listing,
    measuring,
    reporting,
    serving,
    starting,
    tasks,
    training,
    viewing,
    voting,
    warmup,
)
from rlcr.cli.help import with_plain_help
from rlcr.errors import RlcrError
from rlcr.terminal import guard, one_line, say

app = typer.Typer(
    name="rlcr",
    help="Language models that say how sure they are, and are right about it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("metrics")(measuring.metrics)
app.command("score")(measuring.score)
app.command("check-reward")(measuring.check_reward)
app.add_typer(tasks.app, name="tasks")
app.command("eval")(evaluating.eval_)
app.command("rescore")(evaluating.rescore)
app.command("compare")(evaluating.compare)
app.command("vote")(voting.vote)
app.command("coherence")(voting.coherence)
app.command("select")(voting.select)
app.command("analyses")(voting.analyses)
app.add_typer(confidence.app, name="confidence")
app.command("import")(confidence.import_)
app.command("export")(evaluating.export)
app.command("runs")(listing.runs)
app.command("report")(reporting.report)
app.command("view")(viewing.view)
app.command("doctor")(examining.doctor)
app.command("quickstart")(starting.quickstart)
app.add_typer(training.recipes, name="recipes")
app.command("train")(training.train)
app.command("push")(training.push)
app.command("launch-config")(training.launch_config)
app.command("warm-up")(warmup.warm_up)
app.command("sft-data")(warmup.sft_data)
app.command("sft")(warmup.sft)
app.command("ask")(asking.ask)
app.command("serve-reward")(serving.serve_reward)
app.add_typer(adapters.app, name="adapters")


def _version(wanted: bool) -> None:
    if wanted:
        say(version("rlcr"))
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def run() -> None:
    """Run a command. A mistake of the user's is one line on standard error and exit status 2."""
    guard()
    # TRL calls a setting by its old name; a user can do nothing about it.
    warnings.filterwarnings("ignore", message="`(is_)?gradient_checkpointing", category=FutureWarning)
    # A flag takes no value in typer.
    arguments = ["--resume-auto" if argument == "--resume=auto" else argument for argument in sys.argv[1:]]
    try:
        # Not standalone: typer would print its usage errors as a box of five lines.
        sys.exit(with_plain_help(app)(arguments or ["--help"], standalone_mode=False))
    except Exception as error:
        if isinstance(error, RlcrError):
            message = str(error)
        elif hasattr(error, "format_message"):  # typer's usage errors, and click's under an older typer
            message = f"{error.format_message()} Try --help."  # pyright: ignore[reportAttributeAccessIssue]
        else:
            raise
        say(f"rlcr: {one_line(message)}", file=sys.stderr)
        sys.exit(2)
