# pyright: basic
"""One process of a case: `torchrun --nproc_per_node 2 -m cluster.worker CASE OUT [argument …]`.

    update   two updates of a tiny model, on given completions, each of several passes; OUT/weights.pt
    rlcr     the command line: `rlcr argument …`

Both with SGD in place of Adam, which makes large steps of rounding errors where gradients are nearly zero.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import trl
from tests.training import updates as made
from tests.training.gradients import texts_of
from tests.training.one_update import SMALL

import rlcr.training.update as training
from cluster.on_cpu import join
from rlcr.cli import main
from rlcr.training import run

#: So many processes, or one that stands alone.
PROCESSES = 2
#: A step of SGD; gradients are larger than ``CLIP``, so that clipping is compared as well.
STEP, CLIP = 0.1, 0.5


def update(out: Path) -> None:
    """The weights after two updates, and in how many passes this process made them."""
    passes: list[int] = []
    cut, config = training.cut, made.grpo_config

    def counted(*args: Any, **kwargs: Any) -> Any:
        parts = cut(*args, **kwargs)
        passes.append(len(parts))
        return parts

    training.cut = counted
    made.grpo_config = lambda recipe, folder: replace(
        config(recipe, folder), optim="sgd", generation_batch_size=None
    )
    settings = {"prompts": 4, "group": 4, "micro_batch": 2, "dtype": "float32", "entropy": 0.02, **SMALL}
    settings |= {"lr": STEP, "grad_clip": CLIP, "updates": 2}
    recipe = made.recipe(**settings)
    trainer = made.update(recipe, texts_of(4, 4), out).trainer
    weights = trainer.accelerator.get_state_dict(trainer.model_wrapped)
    if os.environ.get("RANK", "0") == "0":
        found = {"weights": weights, "passes": passes, "type": str(trainer.accelerator.distributed_type)}
        torch.save(found | {"wrapped": type(trainer.model_wrapped).__name__}, out / "weights.pt")


def command(arguments: list[str]) -> None:
    """The command line of rlcr, with SGD."""
    trl.SFTConfig = partial(trl.SFTConfig, optim="sgd")  # pyright: ignore[reportPrivateImportUsage]
    run.GRPOConfig = partial(run.GRPOConfig, optim="sgd")
    sys.argv = ["rlcr", *arguments]
    main()


def work(case: str, out: str, *arguments: str) -> None:
    """A case, alone or as one of several."""
    if "RANK" in os.environ:
        join(PROCESSES)
    update(Path(out)) if case == "update" else command(list(arguments))


if __name__ == "__main__":
    work(*sys.argv[1:])
