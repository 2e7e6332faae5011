"""`rlcr recipes`, `rlcr train`, `rlcr push` and `rlcr launch-config`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from rlcr.errors import RlcrError, need
from rlcr.terminal import say
from rlcr.training.checkpoint import is_main

recipes = typer.Typer(
    help="Training runs, one short file each: alone it lists them; look at one of them.",
    subcommand_metavar="[COMMAND] [ARGS]...",
)

Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Settings to change, such as lr=2e-6 lora.rank=8."),
]
Name = Annotated[str, typer.Argument(metavar="RECIPE", help="A recipe's name, or your own .yaml file.")]

#: What `rlcr train` imports, in the order in which it should be installed.
_NEEDED = ("torch", "transformers", "accelerate", "datasets", "trl")
_INSTALL = (
    "install the build of torch for your hardware (pytorch.org), then"
    ' pip install "rlcr[train]"; --dry-run works without'
)


@recipes.callback(invoke_without_command=True)
def _list(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        from rlcr.metrics.tables import aligned_text
        from rlcr.training.recipes import RECIPES, load_recipe

        say("\n".join(aligned_text([(name, load_recipe(name).recipe.about) for name in RECIPES])))


@recipes.command()
def show(name: Name, overrides: Overrides = None) -> None:
    """Print a recipe resolved: every setting, its value, where it was set, and the value's source."""
    from rlcr.metrics.tables import aligned_text
    from rlcr.training.preflight.dry_run import settings_lines
    from rlcr.training.recipes import load_recipe
    from rlcr.training.recipes.checks import reward_of, start_hint

    resolved = load_recipe(name, overridden(overrides))
    weights = " + ".join(f"{weight:g} {part}" for part, weight in reward_of(resolved.recipe).weights.items())
    about = resolved.recipe.about
    say(f"{resolved.name}: {about}\n" if about else f"{resolved.name}\n")
    say("\n".join(settings_lines(resolved.settings)))
    further = [("reward", weights), ("completions", f"{resolved.recipe.completions:,}")]
    say("\n" + "\n".join(aligned_text(further)))
    if resolved.model_missing:
        say(f"note: {start_hint(resolved.recipe.after or '')}")


def train(
    name: Name,
    overrides: Overrides = None,
    out: Annotated[Path | None, typer.Option(metavar="RUN", help="Folder for the run.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what the run would do; nothing is loaded or written.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")] = False,
    resume_auto: Annotated[
        bool,
        typer.Option("--resume-auto", help="Or --resume=auto: continue a run that was begun, else begin it."),
    ] = False,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of local data sets (or RLCR_DATA).")] = None,
    run_code: Annotated[
        bool,
        typer.Option("--run-code", help="Let the recipe run your own code: verifier=my_module:function."),
    ] = False,
) -> None:
    """Train a model as a recipe says."""
    from rlcr.training.recipes import load_recipe
    from rlcr.training.recipes.checks import begun, check_code, check_out, check_start

    resolved = load_recipe(name, overridden(overrides))
    if resume_auto and out is not None:
        resume = begun(out)
    if dry_run:
        _show_dry_run(resolved, data_dir)
        if out is not None:
            check_out(out, resume=resume)
        return
    if out is None:
        raise RlcrError("give --out RUN, the folder for the run (or --dry-run)")
    check_code(resolved.recipe, run_code)
    check_start(resolved)
    if is_main():  # others may come when the first one has begun
        check_out(out, resume=resume)
    need("training", *_NEEDED, install=_INSTALL)
    from rlcr.training import train_run
    from rlcr.training.together import ending_together

    try:
        with ending_together():
            result = train_run(resolved, out, resume=resume, data_dir=data_dir, run_code=run_code)
    except KeyboardInterrupt:
        say(f"\nrlcr: interrupted; the same command with --resume continues {out}", file=sys.stderr)
        raise
    if is_main():
        say(f"trained: {result.model}" + (f"; {result.doubts}" if result.doubts else ""))


def push(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run of `rlcr train` or `rlcr sft`, or a model.")
    ],
    name: Annotated[str, typer.Argument(metavar="ORG/NAME", help="The repository on the Hugging Face hub.")],
    public: Annotated[
        bool, typer.Option("--public", help="For everyone to see; a new repository is private otherwise.")
    ] = False,
    best: Annotated[
        bool, typer.Option("--best", help="The best by the held-out metric instead of the last.")
    ] = False,
) -> None:
    """Upload a trained model to the Hugging Face hub: weights, tokenizer and card."""
    from rlcr.training.pushing import push_model

    say(f"pushed: {push_model(run, name, public=public, best=best)}")


def launch_config(
    name: Annotated[str, typer.Argument(metavar="LAUNCH", help="ddp, zero2, fsdp2 or zero3.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it here; else it is printed.")
    ] = None,
) -> None:
    """A configuration for `accelerate launch`: how several GPUs share a run."""
    from rlcr.runs.lines import write_whole
    from rlcr.training.launches import launch_config as text_of

    text = text_of(name)
    if out is None:
        say(text, end="")
        return
    if out.exists():
        raise RlcrError(f"{out}: exists already; choose another --out")
    write_whole(out, text)
    say(f"{out}: accelerate launch --config_file {out} --num_processes N -m rlcr train …")


def _show_dry_run(resolved: Any, data_dir: Path | None) -> None:
    from rlcr.training.preflight.dry_run import dry_run

    report = dry_run(resolved, data_dir)
    say(report)
    if report.error:
        raise RlcrError(report.error)


def overridden(pairs: list[str] | None) -> dict[str, Any]:
    """The settings that were given as ``key=value``."""
    from rlcr.training.recipes import parse_override

    overrides: dict[str, Any] = {}
    for name, value in map(parse_override, pairs or []):
        if name in overrides:
            raise RlcrError(f"{name} is given twice")
        overrides[name] = value
    return overrides
