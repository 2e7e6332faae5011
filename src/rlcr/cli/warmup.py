"""`rlcr warm-up`, which teaches a format; `rlcr sft-data` and `rlcr sft`, which teach to analyse."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from rlcr.cli.training import Name, Overrides, overridden
from rlcr.errors import RlcrError, need
from rlcr.evaluate.methods import METHODS
from rlcr.evaluate.progress import open_bar
from rlcr.runs.store import RUN
from rlcr.terminal import say
from rlcr.training import sft as training
from rlcr.training import sft_data as data
from rlcr.training.checkpoint import is_main
from rlcr.training.together import ending_together

_SECONDS_BETWEEN_LINES = 30.0

Out = Annotated[Path, typer.Option(metavar="RUN", help="Folder for the run.")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")]


def warm_up(
    name: Name,
    out: Out,
    overrides: Overrides = None,
    resume: Resume = False,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of local data sets (or RLCR_DATA).")] = None,
) -> None:
    """Teach a recipe's model the tags of its method, as a start for RL."""
    from rlcr.training.recipes import load_recipe

    resolved = load_recipe(name, overridden(overrides))
    need("a warm-up", "torch", "trl")
    from rlcr.training.warm_up import warm_up as run

    with _resumable(out), ending_together():
        run(resolved, out, resume=resume, data_dir=data_dir, say=say)
    if is_main():
        say(f"{out / training.MODEL}: give model={out / training.MODEL} to `rlcr train`")


def sft_data(
    model: Annotated[
        str,
        typer.Option(help="Solves: folder, hub id, LoRA adapter, GGUF file, or http://host:port/v1#name."),
    ],
    task: Annotated[str, typer.Option(help="Task; see `rlcr tasks`.")],
    expert: Annotated[
        str,
        typer.Option(metavar="MODEL", help="Analyses the solutions: a server's address, or a local model."),
    ],
    out: Out,
    limit: Annotated[int, typer.Option(help="How many problems.", min=1)] = 500,
    split: Annotated[str, typer.Option(help="Split of the task.")] = "train",
    method: Annotated[
        str, typer.Option(metavar="NAME", help=f"How to ask for solutions: {', '.join(METHODS)}.")
    ] = "rlvr",
    seed: Annotated[int, typer.Option(help="Of the draw of problems and of the sampling.")] = 0,
    temperature: Annotated[float, typer.Option(help="Of the solutions; 0 is greedy.", min=0)] = 0.7,
    max_tokens: Annotated[int, typer.Option(help="Tokens of a reply at most.", min=1)] = 4096,
    resume: Resume = False,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of local data sets (or RLCR_DATA).")] = None,
) -> None:
    """Make the data of the SFT warm-up: solutions of a model, with an expert's analysis of each."""
    settings = data.Settings(
        model=model,
        task=task,
        expert=expert,
        size=limit,
        split=split,
        method=method,
        seed=seed,
        temperature=temperature,
        max_tokens=max_tokens,
    )
    progress = _Progress()
    with _resumable(out):
        try:
            counts = data.make_sft_data(settings, out, resume=resume, data_dir=data_dir, watch=progress)
        finally:
            progress.close()
    say(f"{out / data.SFT}: {data.describe(counts)}")


def sft(
    model: Annotated[str, typer.Option(help="To be trained: folder, hub id, LoRA adapter or GGUF file.")],
    data: Annotated[
        Path, typer.Option(help="What `rlcr sft-data` wrote: its folder, or a file like its sft.jsonl.")
    ],
    out: Out,
    epochs: Annotated[int, typer.Option(help="Times through the data.", min=1)] = 3,
    lr: Annotated[float, typer.Option(help="Learning rate.")] = 1e-5,
    batch: Annotated[int, typer.Option(help="Examples in an update.", min=1)] = 16,
    micro_batch: Annotated[int, typer.Option(help="Examples in memory at once.", min=1)] = 4,
    max_tokens: Annotated[
        int, typer.Option(help="Prompt and completion together; longer examples are left out.", min=1)
    ] = 4096,
    seed: Annotated[int, typer.Option(help="Of the order of the examples.")] = 0,
    lora_rank: Annotated[
        int | None,
        typer.Option(help="Train low-rank adapters, merged at the end; default: all weights.", min=1),
    ] = None,
    resume: Resume = False,
) -> None:
    """Train a model to analyse its solutions, as a start for RL."""
    settings = training.Settings(
        model=model,
        data=str(data),
        epochs=epochs,
        lr=lr,
        batch=batch,
        micro_batch=micro_batch,
        max_tokens=max_tokens,
        seed=seed,
        lora_rank=lora_rank,
    )
    with _resumable(out), ending_together():
        report = training.train_sft(settings, out, resume=resume)
    if not is_main():
        return
    left_out = report["counts"]["too_long"]
    if left_out:
        say(f"rlcr: {left_out:,} examples were left out: longer than {max_tokens:,} tokens", file=sys.stderr)
    losses = report["losses"]
    fell = f"loss {losses[0]:.3f} at first, {losses[-1]:.3f} at last"
    say(f"{out / training.MODEL}: {report['steps']:,} updates, {fell}")


@contextmanager
def _resumable(out: Path) -> Iterator[None]:
    """Say, when a run ends early, whether it can be resumed."""
    begun_before = (out / RUN).exists()
    try:
        yield
    except KeyboardInterrupt:
        begun = (out / RUN).exists()
        rest = f"; the same command with --resume continues {out}" if begun else " before anything was begun"
        say(f"\nrlcr: interrupted{rest}", file=sys.stderr)
        raise
    except RlcrError as error:
        # If the run was there before, this may be about the command itself, such as another setting; if it
        # came to its end, this is about what came of it.
        if begun_before or not (out / RUN).exists() or (out / data.REPORT).exists():
            raise
        raise RlcrError(f"{error}. What is done is kept: the same command with --resume continues") from None


class _Progress:
    """Follows the replies: a bar for each stage in a terminal, else a line now and then."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._last_shown = time.monotonic()

    def __call__(self, stage: str, done: int, total: int) -> None:
        if sys.stderr.isatty():
            if done == 1:
                self.close()
                self._bar = open_bar(0, total)
            self._bar.update(self._bar.task_ids[0], completed=done, status=stage)
            return
        now = time.monotonic()
        if done == total or now - self._last_shown >= _SECONDS_BETWEEN_LINES:
            self._last_shown = now
            say(f"{stage}: {done:,} of {total:,}", file=sys.stderr)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._bar:
            self._bar.stop()
            self._bar = None
