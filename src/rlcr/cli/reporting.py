"""`rlcr report`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from rlcr.report import page
from rlcr.terminal import say

Runs = Annotated[list[Path], typer.Argument(metavar="RUN…", help="Folders of `rlcr eval` or `rlcr train`.")]
TrainedOn = Annotated[
    str | None,
    typer.Option(metavar="TASK[,TASK]", help="Leave these tasks out of the pool: the rest is out of domain."),
]


def report(
    runs: Runs,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page to write.")] = Path("report.html"),
    figures: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Also write figures as PNG, SVG, PDF and tables as MD, TEX, CSV."
        ),
    ] = None,
    trained_on: TrainedOn = None,
) -> None:
    """One page that shows runs: tables, figures, and the answers themselves. Reads files only."""
    written = page.write_report(runs, out, figures=figures, trained_on=named_tasks(trained_on))
    for note in written.notes:
        say(f"note: {note}", file=sys.stderr)
    say(out)
    if figures:
        say(figures)


def named_tasks(trained_on: str | None) -> tuple[str, ...]:
    """The tasks of a list with commas."""
    return tuple(name.strip() for name in (trained_on or "").split(",") if name.strip())
