# pyright: basic
"""Run by torchrun: `rlcr sft` on two processes that hold a part of the weights each.

torchrun --nproc_per_node 2 -m tests.training.one_sft MODEL DATA OUT
"""

from __future__ import annotations

import sys
from pathlib import Path

import trl
from cluster.on_cpu import join
from transformers import TrainerCallback

from rlcr.training.sft import Settings, train_sft


def settings(model: str, data: str) -> Settings:
    return Settings(model, data, epochs=2, lr=0.1, batch=8, micro_batch=2, max_tokens=2048)


def with_sgd() -> None:
    """In place of Adam, which makes large steps of rounding errors where gradients are nearly zero."""
    config = trl.SFTConfig  # pyright: ignore[reportPrivateImportUsage]
    trl.SFTConfig = lambda **given: config(**given, optim="sgd")  # pyright: ignore


class _InParts(TrainerCallback):
    def on_train_begin(self, args, state, control, model=None, **_) -> None:
        assert model is not None
        shapes = [tuple(p.to_local().shape) for p in model.parameters()]
        assert shapes != [tuple(p.shape) for p in model.parameters()], "nothing is sharded"


if __name__ == "__main__":
    model, data, out = sys.argv[1:]
    join(2)
    with_sgd()
    train_sft(settings(model, data), Path(out), callbacks=[_InParts()])
