"""Any dataset of reasoning-gym, by name, graded by its own scorer (``pip install "rlcr[gym]"``).

Settings go to the dataset's configuration, which is where reasoning-gym keeps difficulty:
``build("train", 100, 0, dataset="chain_sum", min_terms=4)``. How answers are scored, and why reasoning-gym
runs in processes of its own, is in :mod:`rlcr.verify.gym`.

Left out: boxnet and rush_hour, which give no right answer; codeio, whose bundled programs do not always give
the same problem twice; and composite.

The same seed gives the same problems on every machine; across Python and numpy versions, as far as the
library's own use of ``random`` and ``numpy`` allows.
"""

from __future__ import annotations

import json
from typing import Any

from rlcr.errors import RlcrError, nearest
from rlcr.problem import Problem
from rlcr.tasks.plumbing.seeded import rank
from rlcr.tasks.plumbing.task import Built, Task, TaskRequest
from rlcr.verify.gym import make_problems

#: Some datasets take a second for each problem, hence no larger ones.
SIZES = {"train": 1_000, "test": 200}


def build(split: str, size: int | None, seed: int, *, dataset: str, **settings: Any) -> list[Problem]:
    """Problems of a reasoning-gym dataset. ``settings`` are fields of its configuration.

    Every gold has passed the dataset's own scorer; a problem whose gold does not (some of
    propositional_logic) is left out, the next takes its place, and the numbers in the ids show the gap. Train
    and test are independent draws, though a dataset with few questions (coin_flip) will repeat some.
    """
    if split not in SIZES:
        raise RlcrError(f"gym has no split {split!r}: {nearest(split, list(SIZES))}")
    size = SIZES[split] if size is None else size
    if size < 1:
        raise RlcrError(f"gym: size must be at least 1, got {size}")
    try:
        settings = json.loads(json.dumps(settings, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise RlcrError(f"gym {dataset}: settings must be plain numbers, texts and lists: {error}") from error
    # The library seeds problem i with seed + i, so neighbouring seeds share nearly all problems; a hash keeps
    # them, and the splits, apart. numpy takes no seed of more than 32 bits.
    own_seed = rank("gym", dataset, split, seed) >> 97
    return [
        Problem(
            f"gym-{dataset}/{split}/{seed}-{problem['index']}",
            problem["question"],
            (problem["gold"],),
            "gym",
            extras={name: value for name, value in problem.items() if name not in ("question", "gold")},
        )
        for problem in make_problems(dataset, settings, own_seed, size)
    ]


def _build_task(request: TaskRequest) -> Built:
    settings = dict(request.settings)
    dataset = settings.pop("dataset")
    if not dataset:
        raise RlcrError("gym: give the setting dataset, the name of a reasoning-gym dataset")
    problems = build(request.split, request.wanted, request.seed, dataset=dataset, **settings)
    return Built(problems, f"reasoning-gym {dataset}")


TASK = Task(
    name="gym",
    about="any reasoning-gym dataset by name",
    sizes=SIZES,
    verifier="gym",
    metrics="correct is a score of exactly 1.0",
    made_by="reasoning-gym",
    settings={"dataset": ""},
    open_settings=True,
    build=_build_task,
)
