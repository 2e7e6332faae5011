"""Training on TRL: the RL runs of the paper, and the warm-ups before them.

    train_run(resolved recipe, out)     one run, into a folder from which it can be resumed

A run on disk:

    training.json        the resolved recipe, data hashes, versions, the command
    updates.jsonl        one line for each update: rewards part by part, accuracy, calibration, lengths …
    rollouts/            every completion of every update, compressed
    warm-up/             the format warm-up, where the recipe has one
    evals/update-N/      held-out evaluations, as `rlcr eval` writes them
    checkpoints/         to resume from
    model/, best/        the trained model, and the best by the held-out metric, as Hugging Face folders
    logs/                TensorBoard
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcr.errors import need
from rlcr.lazy import submodules

if TYPE_CHECKING:
    from rlcr.training.recipes import Resolved
    from rlcr.training.run import TrainingResult

__getattr__ = submodules(__name__)


def train_run(
    resolved: Resolved, out: Path, *, resume: bool = False, data_dir: Path | None = None, **options: Any
) -> TrainingResult:
    """Train as a recipe says (:func:`rlcr.training.run.train_run`; torch is imported here and not before)."""
    need("training", "torch", "trl")
    from rlcr.training.run import train_run as run

    return run(resolved, out, resume=resume, data_dir=data_dir, **options)
