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
from tests.training.gradients import texts_of
from tests.training.updates import recipe, response, update

from rlcr.training.mismatch import MISMATCH

#: Small passes, so that one process makes more of them than the other.
SMALL = {"max_prompt_tokens": 1, "max_completion_tokens": 50}
#: The first two groups have equal rewards: on two processes, nothing is left to learn from in one of them.
IDLE = {
    name: [response()] * 4 if number < 2 else texts
    for number, (name, texts) in enumerate(texts_of(4, 4).items())
}
#: Half of the problems teach nothing.
FLAT = {
    name: [response()] * 4 if number % 2 else texts
    for number, (name, texts) in enumerate(texts_of(6, 4).items())
}
CASES: dict[str, tuple[dict[str, Any], dict[str, list[str]]]] = {
    "all": ({"entropy": 0.02}, texts_of(4, 4)),
    "analysis+confidence": ({"credit": "analysis+confidence", "entropy": 0.02}, texts_of(4, 4)),
    "importance": ({"importance_cap": 1.5}, texts_of(4, 4)),
    "expected": ({"credit": "expected"}, texts_of(4, 4)),
    "decoupled": ({"credit": "decoupled", "entropy": 0.02, "gradient_checkpointing": True}, texts_of(4, 4)),
    "plain": ({"shared_prompts": False}, texts_of(4, 4)),
    "one process idle": (SMALL, IDLE),
    "unlike numbers of passes": ({**SMALL, "entropy": 0.02}, IDLE),
    "groups that teach nothing make room": ({"prompts": 3, "refill": 4}, FLAT),
    "a group lies on both": ({"prompts": 3}, texts_of(3, 4)),
}


def updates(out: Path) -> dict[str, Any]:
    """The gradient and the completions of one update in each case."""
    found = {}
    for name, (special, texts) in CASES.items():
        settings = recipe(**{"prompts": 4, "group": 4, "micro_batch": 2, "dtype": "float32", **special})
        made = update(settings, texts, out / name)
        assert made.trainer.sharing.on == settings.shared_prompts
        rollouts = [(rollout.problem, rollout.sample, rollout.reward) for rollout in made.rollouts]
        mismatch = {name: made.logged[-1][name] for name in MISMATCH}
        found[name] = {"gradient": made.gradient, "rollouts": sorted(rollouts), "mismatch": mismatch}
    return found


if __name__ == "__main__":
    state = PartialState(cpu=True)
    # `accelerate launch --cpu` starts one process whatever it is told: never compare one with itself.
    assert state.num_processes == 2, f"{state.num_processes} processes instead of 2"
    out = Path(sys.argv[1])
    found = updates(out)
    if state.is_main_process:
        torch.save(found, out / "found.pt")
