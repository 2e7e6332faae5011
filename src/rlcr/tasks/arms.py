"""The toy K-arm task: guess the next draw, with a known optimum (:mod:`rlcr.tasks.arms_optimum`).

Nature picks chances p ~ Dirichlet(prior) that nobody sees, then N draws from p that the model is shown,
N uniform in a range; the gold is one more draw. An arm may be answered, or -1 with confidence 0.

Problems are drawn without p: with p integrated out, the next draw is arm i with the posterior predictive
chance (n_i + a_i) / (n + sum a), n_i being how often it came so far (Polya's urn). The distribution of
draws and gold is exactly the same, and it takes one uniform number for each draw, which comes from a hash:
streams of ``random`` and ``numpy`` are the same between versions by policy only, and their gamma variates,
which a Dirichlet sample needs, have changed before.

Differs from the paper: its formulas count arms from 1, its sample from 0; ours count from 0. The paper
names no test size. With at most 3,906 questions (default settings), train and test share questions,
though never their random numbers; the number of a problem, not its question, makes its id.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from rlcr.errors import RlcrError, nearest
from rlcr.problem import Problem
from rlcr.tasks.plumbing.seeded import rank
from rlcr.tasks.plumbing.task import Built, Task, TaskRequest

#: The paper trains on 10,000 examples; the test size is ours. (An exact evaluation needs no test set.)
SIZES = {"train": 10_000, "test": 1_000}

#: The answer that names no arm.
ABSTAIN = -1


@dataclass(frozen=True)
class Arms:
    """The settings of the task. ``prior`` is the Dirichlet's: one number for all arms, or one for each.

    >>> Arms(arms=2, prior=(1, 3)).prior
    (1.0, 3.0)
    """

    arms: int = 5
    min_draws: int = 0
    max_draws: int = 5
    prior: float | Sequence[float] = 1.0

    def __post_init__(self) -> None:
        for name in ("arms", "min_draws", "max_draws"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise RlcrError(f"arms: {name} must be a whole number, got {value!r}")
        if self.arms < 2:
            raise RlcrError(f"arms: there must be at least 2 arms, got {self.arms}")
        if not 0 <= self.min_draws <= self.max_draws:
            raise RlcrError(
                f"arms: need 0 <= min_draws <= max_draws, got {self.min_draws} and {self.max_draws}"
            )
        # One canonical form, so that equal settings are equal and hashable.
        object.__setattr__(self, "prior", self._prior_of_each())

    def _prior_of_each(self) -> tuple[float, ...]:
        if isinstance(self.prior, str) or not isinstance(self.prior, int | float | Iterable):
            raise RlcrError(f"arms: prior must be a number, or one for each arm, got {self.prior!r}")
        given = [self.prior] * self.arms if isinstance(self.prior, int | float) else list(self.prior)
        if len(given) != self.arms:
            raise RlcrError(f"arms: prior has {len(given)} numbers for {self.arms} arms")
        for value in given:
            if not isinstance(value, int | float) or not (math.isfinite(value) and value > 0):
                raise RlcrError(f"arms: prior must be finite and above 0, got {value!r}")
        return tuple(float(value) for value in given)

    @property
    def prior_K(self) -> tuple[float, ...]:
        """The prior of each arm."""
        assert isinstance(self.prior, tuple)
        return self.prior

    def as_extras(self) -> dict[str, Any]:
        """The settings, ready for JSON; ``Arms(**…)`` of it gives them back."""
        return {
            "arms": self.arms,
            "min_draws": self.min_draws,
            "max_draws": self.max_draws,
            "prior": list(self.prior_K),
        }


def build(
    split: str,
    size: int | None,
    seed: int,
    *,
    arms: int = 5,
    min_draws: int = 0,
    max_draws: int = 5,
    prior: float | Sequence[float] = 1.0,
) -> list[Problem]:
    """Draw problems. A smaller set is the beginning of a larger one; splits are independent draws.

    >>> problem = build("train", 3, seed=0)[2]
    >>> problem.id, problem.extras["draws"], problem.gold
    ('arms/train/0-2', [1, 1, 4], ('4',))
    """
    if split not in SIZES:
        raise RlcrError(f"arms has no split {split!r}: {nearest(split, list(SIZES))}")
    if size is not None and size < 0:
        raise RlcrError(f"arms: size must be at least 0, got {size}")
    task = Arms(arms, min_draws, max_draws, prior)
    return [
        _draw_problem(task, split, seed, index) for index in range(SIZES[split] if size is None else size)
    ]


def sequence_problem(task: Arms, draws: Sequence[int], *, id: str = "", gold: int | None = None) -> Problem:
    """The problem that shows these draws.

    Without ``gold``, the likeliest arm stands in its place (the lowest of several): a problem to *ask* for
    each possible sequence, whose answers are for :func:`rlcr.tasks.arms_optimum.exact_evaluation`, since
    no single gold is right.

    >>> print(sequence_problem(Arms(), [1, 1, 0]).question)
    There are 5 arms, numbered 0 to 4. Every draw comes from one of them, each arm with a chance of its own \
that you are not told. Here are some draws; predict which arm the next one comes from.
    <BLANKLINE>
    Draws so far, in order: 1, 1, 0
    Number of draws shown: 3
    """
    if any(not 0 <= draw < task.arms for draw in draws):
        raise RlcrError(f"arms: draws must be arms from 0 to {task.arms - 1}, got {list(draws)}")
    if gold is None:
        weights = urn(task, draws)
        gold = weights.index(max(weights))
    question = (
        f"There are {task.arms} arms, numbered 0 to {task.arms - 1}. Every draw comes from one of them, "
        "each arm with a chance of its own that you are not told. Here are some draws; predict which arm the "
        f"next one comes from.\n\nDraws so far, in order: {', '.join(map(str, draws)) or 'none'}\n"
        f"Number of draws shown: {len(draws)}"
    )
    instruction = (
        f"Answer with the index of the arm that you predict (0 to {task.arms - 1}), and nothing else. "
        f"If you are really unsure, you may answer {ABSTAIN} with confidence 0."
    )
    id = id or "arms/sequence/" + ("-".join(map(str, draws)) or "none")
    # The math verifier and not exact match, which drops punctuation and so takes -1 for 1.
    extras = {"draws": list(draws), **task.as_extras()}
    return Problem(id, question, (str(gold),), "math", instruction, extras)


def urn(task: Arms, draws: Sequence[int]) -> list[float]:
    """The weight of each arm for the next draw, n_i + a_i: its chance up to a common factor.

    >>> urn(Arms(arms=3), [2, 2])
    [1.0, 1.0, 3.0]
    """
    weights = list(task.prior_K)
    for draw in draws:
        weights[draw] += 1
    return weights


def _draw_problem(task: Arms, split: str, seed: int, index: int) -> Problem:
    def uniform(number: int) -> float:
        # 53 of the 128 bits fill a float exactly, so it is below 1 and the same everywhere.
        return (rank("arms", seed, split, index, number) >> 75) / 2**53

    count = task.min_draws + int(uniform(0) * (task.max_draws - task.min_draws + 1))
    draws: list[int] = []
    for number in range(1, count + 2):
        reached = list(accumulate(urn(task, draws)))
        point = uniform(number) * reached[-1]
        # Rounding may lift the point to the very end, which belongs to the last arm.
        draws.append(next((arm for arm, end in enumerate(reached) if point < end), task.arms - 1))
    return sequence_problem(task, draws[:-1], id=f"arms/{split}/{seed}-{index}", gold=draws[-1])


def _build_task(request: TaskRequest) -> Built:
    return Built(build(request.split, request.wanted, request.seed, **request.settings), _FROM_SEED)


_FROM_SEED = "drawn from the seed"
TASK = Task(
    name="arms",
    about="guess the next draw from one of K arms: a toy with a known optimum",
    sizes=SIZES,
    verifier="math",
    metrics="exact expected accuracy, Brier and reward without sampling (arms_optimum)",
    made_by=_FROM_SEED,
    settings={"arms": 5, "min_draws": 0, "max_draws": 5, "prior": 1.0},
    lists=("prior",),
    build=_build_task,
    abstention=str(ABSTAIN),
)
