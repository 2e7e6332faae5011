"""`rlcr ask`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from rlcr.cli.evaluating import Json
from rlcr.terminal import say


def ask(
    question: Annotated[str, typer.Argument(help="What to ask.", show_default=False)],
    model: Annotated[str, typer.Option(help="http://host:port/v1[#name], or a local model.")],
    samples: Annotated[int, typer.Option(help="Answers to draw and vote on.", min=1)] = 1,
    threshold: Annotated[
        str | None, typer.Option(help="Abstain below this confidence; or a run's selective.json.")
    ] = None,
    recalibration: Annotated[
        Path | None, typer.Option(metavar="FILE", help="confidence/platt.json of a run, or another map.")
    ] = None,
    safety: Annotated[
        float | None, typer.Option(help="Stop early when the leading answer stays ahead with this chance.")
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="How to ask and read; default: the checkpoint's own, else rlcr.")
    ] = None,
    verifier: Annotated[
        str, typer.Option(metavar="NAME", help="How answers are compared: exact, math or choice.")
    ] = "exact",
    temperature: Annotated[
        float | None, typer.Option(help="Default: 0 for one sample, 0.7 for several.", min=0)
    ] = None,
    max_tokens: Annotated[int, typer.Option(help="Tokens of a response at most.", min=1)] = 4096,
    seed: Annotated[int, typer.Option(help="Of the sampling.")] = 0,
    as_json: Json = False,
) -> None:
    """Ask a model one question: its answer, and how sure it is."""
    from rlcr.asking import ask as ask_model
    from rlcr.cli.show.answers import print_answer
    from rlcr.evaluate.methods import get_method, stored_method
    from rlcr.sample.opening import Access, Typed, is_server, open_sampler

    chosen = get_method(method) if method else stored_method(model) or get_method("rlcr")
    answer = ask_model(
        open_sampler(Typed(model), Access(impatient=True) if is_server(model) else None),
        question,
        method=chosen,
        verifier=verifier,
        samples=samples,
        safety=safety,
        threshold=_number_or_file(threshold),
        recalibration=recalibration,
        temperature=temperature,
        max_tokens=max_tokens,
        seed=seed,
    )
    if as_json:
        say(json.dumps(asdict(answer)))
    else:
        print_answer(answer)


def _number_or_file(threshold: str | None) -> float | Path | None:
    try:
        return None if threshold is None else float(threshold)
    except ValueError:
        return Path(threshold)  # pyright: ignore[reportArgumentType]
