"""`rlcr vote`, `rlcr coherence`, `rlcr select` and `rlcr analyses`: what many samples are worth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlcr.cli.evaluating import Json, RunFolder
from rlcr.terminal import say

Confidence = Annotated[
    str, typer.Option(metavar="NAME", help="Confidence column of the run, as `rlcr confidence` lists them.")
]
Seed = Annotated[int, typer.Option(help="Of drawn subsets and resamples.")]


def vote(
    run: RunFolder,
    confidence: Confidence = "verbalised",
    most: Annotated[
        int | None, typer.Option(help="Largest N; default: what nine in ten questions have.", min=2)
    ] = None,
    subsets: Annotated[
        int | None, typer.Option(help="Subsets to draw where no form is closed; default by size.", min=1)
    ] = None,
    temperature: Annotated[float, typer.Option(help="Of the softmax weights (CISC); at least 0.06.")] = 0.2,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Accuracy against the number of samples, for every way to choose among their answers."""
    from rlcr.cli.show.votes import print_votes
    from rlcr.many.vote import VOTING
    from rlcr.many.vote import vote as vote_run

    votes = vote_run(
        run, confidence=confidence, most=most, subsets=subsets, seed=seed, temperature=temperature
    )
    if as_json:
        _print_file(run / VOTING)
    else:
        print_votes(votes)


def coherence(run: RunFolder, confidence: Confidence = "verbalised", as_json: Json = False) -> None:
    """Do confidences agree within an answer, and do those of different answers add up to at most 1?"""
    from rlcr.cli.show.votes import print_coherence
    from rlcr.many.coherence import COHERENCE
    from rlcr.many.coherence import coherence as measure_coherence

    tasks = measure_coherence(run, confidence=confidence)
    if as_json:
        _print_file(run / COHERENCE)
    else:
        print_coherence(tasks)


def select(
    run: RunFolder,
    precision: Annotated[float, typer.Option(help="Wanted share of right answers among those given.")] = 0.9,
    confidence: Confidence = "verbalised",
    samples: Annotated[
        int, typer.Option(help="For the voted answers of so many samples; 1: each by itself.", min=1)
    ] = 1,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Which confidence to ask for, so that answers are right often enough; checked on another half."""
    from rlcr.cli.show.votes import print_selection
    from rlcr.many.selective import SELECTIVE
    from rlcr.many.selective import select as choose

    selection = choose(run, precision, confidence=confidence, samples=samples, seed=seed)
    if as_json:
        _print_file(run / SELECTIVE)
    else:
        print_selection(selection, precision)


def analyses(
    run: RunFolder,
    samples: Annotated[int, typer.Option(help="Analyses of each answer.", min=2)] = 8,
    answers: Annotated[int, typer.Option(help="Responses of each question to analyse.", min=1)] = 1,
    model: Annotated[
        str | None,
        typer.Option(help="The run's model, where that is on a server: its address as in the run."),
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(help="Tokens of an analysis at most; default: the run's.", min=1)
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Default: the run's, or 0.7 where it was greedy.", min=0)
    ] = None,
    seed: Seed = 0,
    device: Annotated[
        str | None, typer.Option(help="Local model: cpu, cuda, mps; default: the fastest there is.")
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="Local model: as in the run, if that was given.")] = None,
    as_json: Json = False,
) -> None:
    """Sample several analyses and confidences for the same answers; the same command again continues."""
    from rlcr.cli.show.votes import print_analyses
    from rlcr.evaluate.progress import progress_bar
    from rlcr.many.analyses import SETTINGS, Ask, access_of, sample_analyses

    with progress_bar("analyses") as progress:
        measured = sample_analyses(
            Path(run),
            Ask(samples, answers, max_tokens, temperature, seed),
            model=model,
            access=access_of(run, device, dtype),
            progress=progress,
        )
    if as_json:
        _print_file(run / SETTINGS)
    else:
        print_analyses(measured)


def _print_file(path: Path) -> None:
    """What a command wrote, as it stands there."""
    say(path.read_text(encoding="utf-8"), end="")
