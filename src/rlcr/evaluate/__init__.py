"""Evaluating a model: methods, stages, grading, results, comparing runs.

evaluate(Settings(model, tasks, method), "runs/one")    as `rlcr eval` does it
continue_run("runs/one")                                after an interruption
rescore("runs/one", grading="paper")                    grade it again, without sampling
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlcr.evaluate.run import Settings, continue_run, evaluate, rescore, write_results

__all__ = ["Settings", "continue_run", "evaluate", "rescore", "write_results"]


def __getattr__(name: str) -> Any:
    # Looked up on first use: grading a text needs neither samplers nor tasks.
    if name in __all__:
        return getattr(import_module("rlcr.evaluate.run"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
