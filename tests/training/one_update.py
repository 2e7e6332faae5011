# pyright: basic
"""Run by torchrun: one update on all processes; the first one writes the gradient.

torchrun --nproc_per_node 2 -m tests.training.one_update OUT
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from tests.training.test_gradients import texts_of
from tests.training.updates import recipe, update

CREDITS = ("all", "analysis+confidence", "decoupled")


def updates(out: Path) -> dict[str, Any]:
    """The gradient and the completions of one update for each credit mode."""
    found = {}
    for credit in CREDITS:
        settings = recipe(prompts=4, group=4, micro_batch=2, credit=credit, entropy=0.02, dtype="float32")
        made = update(settings, texts_of(4, 4), out / credit)
        rollouts = [(rollout.problem, rollout.sample, rollout.reward) for rollout in made.rollouts]
        found[credit] = {"gradient": made.gradient, "rollouts": sorted(rollouts)}
    return found


if __name__ == "__main__":
    state = PartialState(cpu=True)
    # `accelerate launch --cpu` starts one process whatever it is told: never compare one with itself.
    assert state.num_processes == 2, f"{state.num_processes} processes instead of 2"
    out = Path(sys.argv[1])
    found = updates(out)
    if state.is_main_process:
        torch.save(found, out / "found.pt")
