"""`rlcr tasks`: list, show, build and compare sets of problems."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlcr.cli.show import tasks as task_view
from rlcr.tasks import TaskSet, load_with, write_problems
from rlcr.terminal import console, say

app = typer.Typer(
    help="Sets of problems: alone it lists them; look at them, build them, compare them.",
    subcommand_metavar="[COMMAND] [ARGS]...",
)

Name = Annotated[str, typer.Argument(help="A task, or a .jsonl file of built problems.", show_default=False)]
Split = Annotated[str, typer.Option(help="train or test; for hub data of your own, its split.")]
Limit = Annotated[int | None, typer.Option(help="How many problems; default: as many as the paper.", min=1)]
Seed = Annotated[int, typer.Option(help="Which problems are drawn, and every shuffle.")]
DataDir = Annotated[
    Path | None, typer.Option(help="Directory of local files, before the hub.", envvar="RLCR_DATA")
]
Verifier = Annotated[str | None, typer.Option(metavar="NAME", help="Another verifier that the task allows.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting of the task; repeatable.")
]
Template = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="Of task file: the question of several columns, '{Body} {Question}'."),
]


@app.callback(invoke_without_command=True)
def _list(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        out = console(pipe_width=None)
        out.print(task_view.listing(out.width))


@app.command()
def show(
    name: Name,
    limit: Annotated[
        int, typer.Option(help="How many problems: those that `rlcr eval --limit` takes.", min=0)
    ] = 3,
    prompt: Annotated[str, typer.Option(metavar="NAME", help="System prompt, by name or file.")] = "rlcr",
    split: Split = "test",
    seed: Seed = 0,
    data_dir: DataDir = None,
    verifier: Verifier = None,
    template: Template = None,
    settings: Settings = None,
) -> None:
    """Print problems as a model gets them, with gold, verifier and provenance."""
    given = task_view.read_settings(name, settings or [], template)

    def loaded(size: int | None) -> TaskSet:
        return load_with(
            name, split, size=size, seed=seed, data_dir=data_dir, verifier=verifier, settings=given
        )

    whole = loaded(None)
    problems = loaded(limit).problems if 0 < limit < len(whole.problems) else whole.problems[:limit]
    say(task_view.show(whole, problems, prompt))


@app.command()
def build(
    name: Name,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write JSON Lines.", show_default=False)],
    split: Split = "test",
    limit: Limit = None,
    seed: Seed = 0,
    data_dir: DataDir = None,
    verifier: Verifier = None,
    template: Template = None,
    settings: Settings = None,
) -> None:
    """Write the problems of a task. The same seed gives the same bytes on any machine."""
    given = task_view.read_settings(name, settings or [], template)
    tasks = load_with(
        name, split, size=limit, seed=seed, data_dir=data_dir, verifier=verifier, settings=given
    )
    write_problems(out, tasks.problems)
    say(task_view.provenance(tasks))


@app.command()
def overlap(
    a: Annotated[str, typer.Argument(help="TASK, TASK:SPLIT or a built .jsonl file.", show_default=False)],
    b: Annotated[str, typer.Argument(help="The same.", show_default=False)],
    data_dir: DataDir = None,
) -> None:
    """Find questions that two sets share: letter by letter, and apart from case, spacing and punctuation."""
    say(task_view.compare(a, b, data_dir))
