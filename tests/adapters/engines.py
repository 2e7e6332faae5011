"""Stand-ins for engines that are not installed here: the few names that an adapter imports of one.

What the real packages make of the adapters is shown by `make interop`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

Data = TypeVar("Data")
State = TypeVar("State")
Config = TypeVar("Config")


class BaseTextEnv:
    """Of skyrl-gym."""

    def __init__(self) -> None:
        self.turns = 0


class Task(Generic[Data, State, Config]):
    """Of verifiers."""

    def __init__(self, data: Data, config: Config) -> None:
        self.data, self.config = data, config


class Taskset(Generic[Data, Config]):
    """Of verifiers."""

    def __init__(self, config: Config) -> None:
        self.config = config


class TaskData(BaseModel):
    """Of verifiers."""

    id: str | None = None
    prompt: str | None = None
    system_prompt: str | None = None


class Score(SimpleNamespace):
    """Of inspect_ai."""

    @classmethod
    def unscored(cls, **fields: Any) -> Score:
        return cls(value=float("nan"), **fields)

    def as_float(self) -> float:
        return self.value


def _same(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


_VERIFIERS = {
    "Task": Task,
    "Taskset": Taskset,
    "TaskData": TaskData,
    "TaskConfig": type("TaskConfig", (BaseModel,), {}),
    "TasksetConfig": type("TasksetConfig", (BaseModel,), {}),
    "State": type("State", (BaseModel,), {}),
    "reward": _same,
    "metric": _same,
}
_SCORERS = {
    "Score": Score,
    "metric": lambda **_: _same,
    "scorer": lambda **_: _same,
    **dict.fromkeys(("Metric", "SampleScore", "Scorer", "Target"), object),
}
#: The modules of each engine with the names in them.
ENGINES: dict[str, dict[str, dict[str, Any]]] = {
    "skyrl_gym": {
        "skyrl_gym": {},
        "skyrl_gym.envs": {},
        "skyrl_gym.envs.base_text_env": {"BaseTextEnv": BaseTextEnv},
    },
    "verifiers": {"verifiers": {}, "verifiers.v1": _VERIFIERS},
    "inspect_ai": {
        "inspect_ai": {},
        "inspect_ai.scorer": _SCORERS,
        "inspect_ai.solver": {"TaskState": object},
    },
}


@contextmanager
def adapter_of(engine: str) -> Iterator[ModuleType]:
    """Our module for an engine, imported over its stand-in."""
    name = f"rlcr.adapters.{engine}"
    added = {}
    for module, names in ENGINES[engine].items():
        added[module] = ModuleType(module)
        vars(added[module]).update(names)
        parent, _, child = module.rpartition(".")
        if parent:
            setattr(added[parent], child, added[module])
    before = {module: sys.modules.get(module) for module in added}
    sys.modules.update(added)
    try:
        yield importlib.import_module(name)
    finally:
        sys.modules.pop(name, None)
        for module, old in before.items():
            sys.modules.pop(module)
            if old is not None:
                sys.modules[module] = old
