"""The tasks whose problems are made rather than read: the toy arms, and reasoning-gym."""

from __future__ import annotations

from rlcr.errors import RlcrError
from rlcr.tasks import arms, gym
from rlcr.tasks.plumbing.task import Built, Request, Task

_FROM_SEED = "drawn from the seed"


def _build_arms(request: Request) -> Built:
    return Built(arms.build(request.split, request.wanted, request.seed, **request.settings), _FROM_SEED)


def _build_gym(request: Request) -> Built:
    settings = dict(request.settings)
    dataset = settings.pop("dataset")
    if not dataset:
        raise RlcrError("gym: give the setting dataset, the name of a reasoning-gym dataset")
    problems = gym.build(request.split, request.wanted, request.seed, dataset=dataset, **settings)
    return Built(problems, f"reasoning-gym {dataset}")


ARMS = Task(
    name="arms",
    about="guess the next draw from one of K arms: a toy with a known optimum",
    sizes=arms.SIZES,
    verifier="math",
    metrics="exact expected accuracy, Brier and reward without sampling (arms_optimum)",
    made_by=_FROM_SEED,
    settings={"arms": 5, "min_draws": 0, "max_draws": 5, "prior": 1.0},
    lists=("prior",),
    build=_build_arms,
)
GYM = Task(
    name="gym",
    about="any reasoning-gym dataset by name",
    sizes=gym.SIZES,
    verifier="gym",
    metrics="correct is a score of exactly 1.0",
    made_by="reasoning-gym",
    settings={"dataset": ""},
    open_settings=True,
    build=_build_gym,
)
