"""The settings of a task, checked once for all tasks: known names, and values of the type of the default."""

from __future__ import annotations

import math
from collections.abc import Mapping
from os import PathLike, fspath
from typing import Any

from rlcr.errors import RlcrError, nearest
from rlcr.tasks.plumbing.task import Task

#: What is asked of every task in the same way, and is no setting.
_OPTIONS = ("split", "size", "seed", "data_dir", "verifier", "name")
#: Those whose option is called otherwise.
_NAMES_OF_OPTIONS = {"size": "--limit", "name": "the task itself"}


def checked(task: Task, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as they are, or an error that names the first with a wrong name or type."""
    for name in given:
        if name in _OPTIONS:
            option = _NAMES_OF_OPTIONS.get(name, f"--{name.replace('_', '-')}")
            raise RlcrError(f"{task.name}: {name} is an option of its own: {option}")
        if name not in task.settings and not task.open_settings:
            known = nearest(name, list(task.settings)) if task.settings else "it has none"
            raise RlcrError(f"{task.name} has no setting {name!r}: {known}")
    return {
        name: _checked(task, name, value) if name in task.settings else value for name, value in given.items()
    }


def _checked(task: Task, name: str, value: Any) -> Any:
    default = task.settings[name]
    if isinstance(value, PathLike):
        value = fspath(value)
    if value is None and name in task.optional:
        return None
    each = value if isinstance(value, list | tuple) and name in task.lists else [value]
    if not all(_fits(one, default) for one in each):
        raise RlcrError(f"{task.name}: {name} must be {_kind(default)}, got {value!r}")
    return value


def is_text(default: Any) -> bool:
    """Whether a setting with this default is text: None stands for a text that is not given."""
    return default is None or isinstance(default, str)


def _kind(default: Any) -> str:
    if is_text(default):
        return "text"
    return "a whole number" if isinstance(default, int) else "a number"


def _fits(value: Any, default: Any) -> bool:
    if is_text(default):
        return isinstance(value, str) or value is default is None
    kinds = int if isinstance(default, int) else (int, float)
    return isinstance(value, kinds) and not isinstance(value, bool) and math.isfinite(value)
