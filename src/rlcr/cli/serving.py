"""`rlcr serve-reward`."""

from __future__ import annotations

import math
import os
from typing import Annotated

import typer

from rlcr.cli.measuring import Verifier
from rlcr.errors import RlcrError
from rlcr.terminal import say


def serve_reward(
    reward: Annotated[str, typer.Option(metavar="NAME", help="rlcr, rlvr, rlcr-log, …")] = "rlcr",
    verifier: Verifier = "exact",
    format: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Another tag set than the reward's: rlvr, confidence, rlcr."),
    ] = None,
    think_open: Annotated[
        bool, typer.Option("--think-open", help="Prompts end inside <think>, so completions begin there.")
    ] = False,
    unscorable: Annotated[
        float, typer.Option(help="Reward of what cannot be judged, for engines that need a number.")
    ] = 0.0,
    host: Annotated[
        str, typer.Option(help="Any other than a loopback address needs a token in RLCR_SERVE_TOKEN.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 is any that is free.", min=0, max=65535)] = 8765,
    max_body: Annotated[int, typer.Option(metavar="MB", help="Size of a request at most.", min=1)] = 16,
    timeout: Annotated[float, typer.Option(help="Seconds for the reply to a request.", min=1)] = 120.0,
) -> None:
    """Serve rewards over HTTP, in the shapes of OpenRLHF, slime, NeMo-Gym and our own."""
    from rlcr.adapters.core import Scorer
    from rlcr.adapters.service import TOKEN, Limits, RewardService, serve
    from rlcr.verify import get_plain_verifier

    get_plain_verifier(verifier, "for a service")
    if not math.isfinite(unscorable):
        raise RlcrError(f"--unscorable takes a finite number, got {unscorable}")
    scorer = Scorer(reward, verifier, format, think_open=think_open, unscorable=unscorable)
    limits = Limits(body=max_body << 20, seconds=timeout)
    service = RewardService(scorer, limits=limits, token=os.environ.get(TOKEN, "").strip())
    serve(service, host, port, ready=lambda url: say(f"rewards at {url}"))
