# pyright: basic
"""Checkpoints that were written whole, and which of the processes that train together this one is."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

#: Inside the folder of a run.
CHECKPOINTS = "checkpoints"
#: Inside a checkpoint when all else is there: one without it was cut short by a crash.
_WHOLE = "whole"


def processes() -> int:
    """How many processes train together, as torchrun and accelerate say."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_main() -> bool:
    """Whether this is the process that writes."""
    return os.environ.get("RANK", "0") == "0"


def mark_whole() -> Any:
    """A callback of transformers' Trainer that marks each checkpoint once all of it is on disk."""
    from accelerate import PartialState
    from transformers import TrainerCallback

    class MarkWhole(TrainerCallback):
        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            PartialState().wait_for_everyone()  # others may still be writing their part
            if state.is_world_process_zero:
                (Path(args.output_dir) / f"checkpoint-{state.global_step}" / _WHOLE).touch()

    return MarkWhole()


def last_whole(folder: Path) -> Path | None:
    """The newest checkpoint in a folder that was written whole. Those that a crash cut short are removed."""
    written = sorted(folder.glob("checkpoint-*"), key=step_of)
    whole = [path for path in written if (path / _WHOLE).exists()]
    if is_main():
        for path in written:
            if path not in whole:
                shutil.rmtree(path)
    return whole[-1] if whole else None


def step_of(checkpoint: Path) -> int:
    """The number of steps after which a checkpoint was written."""
    return int(checkpoint.name.rpartition("-")[2])
