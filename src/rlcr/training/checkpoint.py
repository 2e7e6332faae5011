# pyright: basic
"""Checkpoints that are whole, and which of the processes that train together this one is.

When all of a checkpoint is on disk, the file ``whole`` goes into it, with the step and a hash of every other
file. A checkpoint without it was cut short by a crash. One that it does not fit was damaged, edited or
renamed: it is named, moved aside and passed over in favour of the one before.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError
from rlcr.files import file_sha256
from rlcr.runs.lines import write_whole

log = logging.getLogger(__name__)

#: Inside the folder of a run.
CHECKPOINTS = "checkpoints"
_WHOLE = "whole"
#: So many checkpoints are kept: should the newest turn out to be damaged, there is one before it.
_KEPT = 2


def processes() -> int:
    """How many processes train together, as torchrun and accelerate say."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_main() -> bool:
    """Whether this is the process that writes."""
    return os.environ.get("RANK", "0") == "0"


class WholeCheckpoints:
    """For transformers' Trainer, to be named before it: checkpoints that are whole, the last two of them.

    The Trainer's own rotation goes by the time of the files, and after the clock was set back it would remove
    the checkpoint that it has just written: ``save_total_limit`` is to be left alone.
    """

    args: Any
    state: Any

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        from accelerate import PartialState

        folder = Path(self.args.output_dir) / f"checkpoint-{self.state.global_step}"
        with saving(folder):
            super()._save_checkpoint(model, trial)  # pyright: ignore[reportAttributeAccessIssue]
            self._save_beside(folder)
        PartialState().wait_for_everyone()  # others may still be writing their part
        if self.state.is_world_process_zero:
            _mark_whole(folder)
            best = self.state.best_model_checkpoint
            for older in _newest_first(folder.parent)[_KEPT:]:
                if best is None or older.name != Path(best).name:
                    shutil.rmtree(older, ignore_errors=True)

    def _save_beside(self, checkpoint: Path) -> None:
        """Write what else a resumed run needs, each process its own file, before the checkpoint is whole."""

    def _load_best_model(self) -> None:
        folder = Path(self.state.best_model_checkpoint)
        if why := why_damaged(folder):
            raise RlcrError(
                f"{folder}: damaged: {why}; it had the best weights: remove {folder.parent} and --resume to"
                " train again"
            )
        super()._load_best_model()  # pyright: ignore[reportAttributeAccessIssue]


@contextmanager
def saving(folder: Path, partial: Path | None = None) -> Iterator[None]:
    """Say in one line that a folder of weights cannot be written, and leave nothing of what was written.

    That is in the folder itself, or in a ``partial`` one that is to take its place.

    A full disk is an OSError to Python, a RuntimeError to torch, and plain exceptions to safetensors and
    tokenizers.
    """
    try:
        yield
    except RlcrError:
        raise
    except Exception as error:
        shutil.rmtree(partial or folder, ignore_errors=True)
        line = " ".join((str(error) or type(error).__name__).split())
        raise RlcrError(
            f"{folder}: cannot be written: {line[:200]}; what is done before is kept: make room and --resume"
        ) from error


def last_whole(folder: Path) -> Path | None:
    """The newest checkpoint in a folder that is whole; the same for all processes.

    Those that a crash cut short are removed. Damaged ones are named and moved aside.
    """
    found = [_last_whole(folder) if is_main() else None]
    if processes() > 1:
        from accelerate.utils import broadcast_object_list

        broadcast_object_list(found)
    return found[0]


def _last_whole(folder: Path) -> Path | None:
    passed_over = False
    for path in _newest_first(folder):
        if not (path / _WHOLE).exists():
            shutil.rmtree(path)
        elif why := why_damaged(path):
            aside = path.with_name(f"damaged-{path.name}")
            shutil.rmtree(aside, ignore_errors=True)
            path.rename(aside)
            log.warning("%s: damaged: %s; passed over, and now called %s", path, why, aside.name)
            passed_over = True
        else:
            return path
    if passed_over:
        log.warning("%s: no other checkpoint is whole: training begins again", folder)
    return None


def why_damaged(checkpoint: Path) -> str:
    """What does not fit the hashes in a checkpoint; empty where everything does."""
    try:
        content = (checkpoint / _WHOLE).read_bytes()
        if not content:
            return ""  # of an earlier version, which wrote no hashes
        marker = json.loads(content)
        step, hashes = marker["step"], dict(marker["files"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return f"{_WHOLE} does not say which files belong to it"
    if step != step_of(checkpoint):
        return f"it was written after update {step}"
    there = _files(checkpoint)
    for name in sorted({*hashes, *there}):
        if name not in there:
            return f"{name} is missing"
        if name not in hashes:
            return f"{name} does not belong to it"
        if file_sha256([checkpoint / name]) != hashes[name]:
            return f"{name} has changed"
    return ""


def _mark_whole(checkpoint: Path) -> None:
    hashes = {name: file_sha256([checkpoint / name]) for name in sorted(_files(checkpoint))}
    marker = {"step": step_of(checkpoint), "files": hashes}
    write_whole(checkpoint / _WHOLE, json.dumps(marker, indent=1) + "\n")


def _files(checkpoint: Path) -> set[str]:
    """All files but the marker, and but those that an operating system hides in every folder."""
    inside = (path.relative_to(checkpoint) for path in checkpoint.rglob("*") if path.is_file())
    return {str(path) for path in inside if path != Path(_WHOLE) and not path.name.startswith(".")}


def _newest_first(folder: Path) -> list[Path]:
    numbered = [path for path in folder.glob("checkpoint-*") if path.name.rpartition("-")[2].isdecimal()]
    return sorted(numbered, key=step_of, reverse=True)


def step_of(checkpoint: Path) -> int:
    """The number of steps after which a checkpoint was written."""
    return int(checkpoint.name.rpartition("-")[2])
