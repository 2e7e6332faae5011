"""`rlcr runs`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlcr.cli.evaluating import Json
from rlcr.cli.show import show
from rlcr.metrics.tables import Cell, Heading, Table
from rlcr.report.listing import Listing, list_runs
from rlcr.terminal import console, say


def runs(
    folder: Annotated[
        Path, typer.Argument(metavar="[FOLDER]", help="Where your runs are, at any depth.")
    ] = Path("runs"),
    as_json: Json = False,
) -> None:
    """List runs: what each is (evaluation, training, warm-up, import, …), how far it is, its headline."""
    show(list_runs(folder), as_json, _print_runs)


def _print_runs(listing: Listing) -> None:
    from rlcr.cli.show.results import terminal_table

    if not listing.runs:
        say(f"{listing.folder}: no runs in it")
        return
    names = ("run", "kind", "what", "how far", "headline")
    rows = tuple(
        tuple(map(Cell, (run.folder, run.kind, run.what, run.progress, run.headline))) for run in listing.runs
    )
    table = terminal_table(Table("runs", "", tuple(Heading(name, numeric=False) for name in names), rows))
    for column in table.columns[2:]:
        column.no_wrap = False
    console().print(table)
