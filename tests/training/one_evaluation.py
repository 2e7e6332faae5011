# pyright: basic
"""Run by torchrun: one evaluation on all processes; then one in which the second process fails.

torchrun --nproc_per_node 2 -m tests.training.one_evaluation OUT
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from accelerate.utils import gather_object
from tests.tiny import tiny_model, tiny_tokenizer

from rlcr.errors import RlcrError
from rlcr.evaluate import Settings, evaluate
from rlcr.sample import Sampler
from rlcr.sample.local import LocalSampler
from rlcr.tasks import TaskSet, load_at_most
from rlcr.training.shared_sampling import SharedSampler

SETTINGS = Settings("tiny", ("arms",), method="rlcr", split="test", limit=7, samples=3, max_tokens=12)


def own_sampler() -> LocalSampler:
    return LocalSampler(tiny_model(max_position_embeddings=2048), tiny_tokenizer(), name="tiny")


def problems() -> TaskSet:
    return load_at_most("arms", "test", 7, data_dir=None)


def evaluate_with(sampler: Sampler, out: Path) -> None:
    evaluate(SETTINGS, out, sampler=sampler, task_sets=[problems()])


class Failing(LocalSampler):
    """Runs out of memory in the middle."""

    def sample(self, requests: Any, sampling: Any) -> Any:
        def some() -> Iterator[Any]:
            yield next(super(Failing, self).sample(requests, sampling))
            raise MemoryError("no room")

        return some()


def run(out: Path, accelerator: Accelerator, sampler: SharedSampler) -> None:
    if accelerator.is_main_process:
        with sampler.leading():
            evaluate_with(sampler, out)
    else:
        sampler.follow()


if __name__ == "__main__":
    accelerator = Accelerator(cpu=True)
    assert accelerator.num_processes == 2, f"{accelerator.num_processes} processes instead of 2"
    folder, first = Path(sys.argv[1]), accelerator.is_main_process
    shared = SharedSampler(own_sampler(), accelerator)
    run(folder / "shared", accelerator, shared)
    written = gather_object([shared.written])
    sampler = own_sampler()
    if not first:
        sampler.__class__ = Failing
    said = ""
    try:
        run(folder / "failed", accelerator, SharedSampler(sampler, accelerator))
    except RlcrError as error:
        said = str(error)
    told = gather_object([said])
    if first:
        (folder / "found.json").write_text(json.dumps({"written": written, "said": told}))
