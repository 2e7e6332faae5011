"""A verifier of the user's own: a function in a Python file, named ``module:function``.

    def right(answer: str, problem: rlcr.Problem) -> bool | None:
        return answer.strip().lower() in problem.gold        # None: it cannot be told

The only place where a text names code, and it is the user's: whoever loads one must have been told to.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rlcr.errors import RlcrError, described, named, nearest
from rlcr.problem import Problem
from rlcr.verify.verdict import CORRECT, NO_ANSWER, WRONG, Verdict, Verifier

_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def check_own_name(name: str) -> None:
    """Raise if a name is not of the form ``module:function``."""
    if not _NAME.fullmatch(name):
        raise RlcrError(f"verifier: {name!r} is not of the form my_module:function")


def load_own(name: str) -> tuple[Verifier, str]:
    """Import a verifier, from the working directory too; with the hash of its file. This runs its code."""
    check_own_name(name)
    module_name, _, function_name = name.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise RlcrError(f"verifier {name}: {module_name} cannot be imported ({named(error)})") from error
    finally:
        sys.path.remove(os.getcwd())
    function = getattr(module, function_name, None)
    if not callable(function):
        known = [key for key, value in vars(module).items() if inspect.isfunction(value)]
        hint = nearest(function_name, known) if known else "it has none"
        raise RlcrError(f"verifier {name}: {module_name} has no function {function_name!r}: {hint}")
    file = inspect.getsourcefile(function)
    digest = hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else ""

    def verdict(problem: Problem, answer: str | None) -> Verdict:
        if answer is None:
            return NO_ANSWER
        said = function(answer, problem)
        if said is None:
            return Verdict("unscorable", f"{name} could not tell")
        if not isinstance(said, bool | np.bool_):
            raise RlcrError(f"verifier {name}: returned {described(said)} instead of True, False or None")
        return CORRECT if said else WRONG

    def verify_own(problems: Sequence[Problem], answers: Sequence[str | None]) -> list[Verdict]:
        return [verdict(problem, answer) for problem, answer in zip(problems, answers, strict=True)]

    return verify_own, digest
