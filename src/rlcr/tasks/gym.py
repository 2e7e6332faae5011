"""Any dataset of reasoning-gym, by name, graded by its own scorer (``pip install "rlcr[gym]"``).

Settings go to the dataset's configuration, which is where reasoning-gym keeps difficulty:
``build("train", 100, 0, dataset="chain_sum", min_terms=4)``. How answers are scored, and why reasoning-gym
runs in processes of its own, is in :mod:`rlcr.verify.gym`.

Left out: boxnet and rush_hour, which give no right answer; codeio, whose bundled programs do not always give
the same problem twice; and composite.

Problems of the datasets in ``SOLVED`` have a worked ``solution`` among their extras, from which
`rlcr warm-up` can teach.

The same seed gives the same problems on every machine; across Python and numpy versions, as far as the
library's own use of ``random`` and ``numpy`` allows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from rlcr.errors import RlcrError, nearest
from rlcr.problem import Problem
from rlcr.tasks.plumbing.seeded import rank
from rlcr.tasks.plumbing.task import Built, Task, TaskRequest
from rlcr.verify.gym import make_problems

#: Some datasets take a second for each problem, hence no larger ones.
SIZES = {"train": 1_000, "test": 200}


def _sum_steps(metadata: Mapping[str, Any]) -> tuple[str, str]:
    """A chain of sums from left to right, a step a line."""
    total, *rest = metadata["expression"].split()
    steps = []
    for sign, term in zip(rest[::2], rest[1::2], strict=True):
        result = int(total) + (int(term) if sign == "+" else -int(term))
        steps.append(f"{total} {sign} {term} = {result}")
        total = str(result)
    return "\n".join(steps), total


def _letter_steps(metadata: Mapping[str, Any]) -> tuple[str, str]:
    """Each word that has the letter, with how often."""
    letter = metadata["target_letter"].lower()
    counts = [(word, word.lower().count(letter)) for word in metadata["span"]]
    steps = [f"{word} {count}" for word, count in counts if count]
    return ", ".join(steps) or "none", str(sum(count for _, count in counts))


def _backward_steps(metadata: Mapping[str, Any]) -> tuple[str, str]:
    """The letters one by one, then in the other order."""
    word = metadata["word"]
    return f"{' '.join(word)} -> {' '.join(reversed(word))}", word[::-1]


#: Datasets whose steps can be told from a problem's metadata, and how: the steps and what they come to.
SOLVED: dict[str, Callable[[Mapping[str, Any]], tuple[str, str]]] = {
    "chain_sum": _sum_steps,
    "letter_counting": _letter_steps,
    "spell_backward": _backward_steps,
}


def solution(dataset: str, metadata: Mapping[str, Any], gold: str) -> str:
    """The worked solution of a problem, empty where there is none, or where it does not come to the gold.

    >>> solution("chain_sum", {"expression": "657 - 233 + 5"}, "429").splitlines()
    ['657 - 233 = 424', '424 + 5 = 429']
    """
    if dataset not in SOLVED:
        return ""
    steps, result = SOLVED[dataset](metadata)
    return steps if result == gold else ""


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
            extras=_extras(problem),
        )
        for problem in make_problems(dataset, settings, own_seed, size)
    ]


def _extras(problem: Mapping[str, Any]) -> dict[str, Any]:
    extras = {name: value for name, value in problem.items() if name not in ("question", "gold")}
    steps = solution(problem["dataset"], problem["metadata"], problem["gold"])
    return extras | ({"solution": steps} if steps else {})


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
