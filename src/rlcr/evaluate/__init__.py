"""Evaluating a model: methods, stages, grading, results, comparing runs.

evaluate(Settings(model, tasks, method), "runs/one")    as `rlcr eval` does it
continue_run("runs/one")                                after an interruption
rescore("runs/one", grading="paper")                    grade it again, without sampling
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlcr.lazy import submodules

if TYPE_CHECKING:
    from rlcr.evaluate.run import Settings, continue_run, evaluate, rescore, write_results

__all__ = ["Settings", "continue_run", "evaluate", "rescore", "write_results"]


_submodule = submodules(__name__)


def __getattr__(name: str) -> Any:
    # Looked up on first use: grading a text needs neither samplers nor tasks.
    if name in __all__:
        return getattr(_submodule("run"), name)
    return _submodule(name)
