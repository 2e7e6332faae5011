"""`rlcr adapters`: examples of our reward inside other engines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlcr.adapters.example import EXAMPLES, copy_example
from rlcr.errors import RlcrError
from rlcr.terminal import say

app = typer.Typer(help="Our reward and metrics inside other engines.")


@app.callback(invoke_without_command=True)
def _list(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        for name, holds in EXAMPLES.items():
            say(f"{name:12}{holds}")


@app.command(context_settings={"allow_extra_args": True})
def example(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="ENGINE", help=", ".join(EXAMPLES), show_default=False)],
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where to; a folder named rlcr-ENGINE by default.")
    ] = None,
) -> None:
    """Copy a working example for an engine into a new folder."""
    if context.args:
        raise RlcrError(f"{context.args[0]}: name the folder with --out {context.args[0]}")
    for path in copy_example(name, out or Path(f"rlcr-{name}")):
        say(path)
