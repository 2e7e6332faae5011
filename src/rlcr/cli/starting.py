"""`rlcr quickstart`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from rlcr.terminal import console, say


def quickstart(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where everything goes.")] = Path(
        "runs/quickstart"
    ),
    seed: Annotated[int, typer.Option(help="Of the embedded model, the problems and the sampling.")] = 0,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start over instead of reusing what is done.")
    ] = False,
) -> None:
    """Train a small model in four ways on a task whose optimum is known, evaluate, and write a report."""
    from rlcr import quickstart as work
    from rlcr.metrics.tables import aligned_markdown
    from rlcr.quickstart.table import exact_table

    follow = _Follow([way.title for way in (work.START, *work.WAYS)])
    names = {way.name: way.title for way in (work.START, *work.WAYS)}
    try:
        finished = work.run(
            out, seed=seed, fresh=fresh, watch=lambda name, share, word: follow(names[name], share, word)
        )
    except KeyboardInterrupt:
        say("\nrlcr: interrupted; the same command continues where it stopped", file=sys.stderr)
        raise
    finally:
        follow.close()
    say(aligned_markdown(exact_table(finished.exact)))
    say(f"\nreport: {finished.report}")


class _Follow:
    """A bar for each way on a terminal; in a pipe a line now and then."""

    def __init__(self, titles: list[str]) -> None:
        self._said: dict[str, float] = {}
        self._bar: Any = None
        if sys.stderr.isatty():
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

            self._bar = Progress(
                TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(),
                TextColumn("{task.fields[word]}"), console=console(stderr=True),
            )  # fmt: skip
            self._tasks = {title: self._bar.add_task(title, total=1.0, word="waits") for title in titles}
            self._bar.start()

    def __call__(self, title: str, share: float, word: str) -> None:
        if self._bar:
            self._bar.update(self._tasks[title], completed=share, word=word)
        elif share >= 1 or time.monotonic() - self._said.get(title, 0.0) > 30:
            self._said[title] = time.monotonic()
            say(f"{title}: {share:.0%}, {word}", file=sys.stderr)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._bar:
            self._bar.stop()
