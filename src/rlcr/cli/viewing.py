"""`rlcr view`."""

from __future__ import annotations

import os
import sys
import threading
from typing import Annotated

import typer

from rlcr.cli.reporting import Runs, TrainedOn, named_tasks
from rlcr.terminal import say


def view(
    runs: Runs,
    port: Annotated[int, typer.Option(help="0 is any that is free.", min=0, max=65535)] = 8766,
    trained_on: TrainedOn = None,
) -> None:
    """Watch runs while they are written: the page of `rlcr report` in a browser, kept current.

    Reads files only, and listens on 127.0.0.1 alone. Ctrl-C ends it.
    """
    from rlcr.report.live.server import serve
    from rlcr.report.live.watching import Watched

    watched = Watched(runs, named_tasks(trained_on))
    serve(watched, port, ready=lambda url: say(f"{url} (Ctrl-C ends it)"))
    if threading.active_count() > 1:
        # A page of very many records is still being made. Python would stop that thread by unwinding it, and
        # numpy's C++ aborts the process then. Nothing is being written, so it can simply exit.
        sys.stdout.flush()
        os._exit(0)
