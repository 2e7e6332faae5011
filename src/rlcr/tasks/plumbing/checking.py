"""Every row of a user's file is checked when it is built, not after hours of sampling."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rlcr.errors import RlcrError
from rlcr.problem import Problem
from rlcr.verify import verify

_PLAIN_NUMBER = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?")
#: Equal to no gold, so that comparing with it takes a gold that can be compared.
_PROBE = "98765.4321"
_SHOWN = 10


def gold_faults(problems: Sequence[Problem]) -> dict[int, str]:
    """What is wrong with golds, by the place of their problem: those that do not pass their own verifier."""
    asked = {place: answer for place, problem in enumerate(problems) if (answer := _asked(problem))}
    verdicts = verify([problems[place] for place in asked], list(asked.values()))
    faults: dict[int, str] = {}
    for place, verdict in zip(asked, verdicts, strict=True):
        problem = problems[place]
        if verdict.outcome == "unscorable" or (problem.verifier == "choice" and not verdict.correct):
            why = verdict.reason or f"its letter is {verdict.outcome}"
            faults[place] = f"the gold {problem.gold[0][:40]!r} does not pass its own verifier: {why}"
    return faults


def _asked(problem: Problem) -> str:
    """An answer that shows whether the gold of a problem can be compared; empty where there is no doubt."""
    if problem.verifier == "choice":
        return problem.gold[0][0]
    if problem.verifier == "math":
        return "" if all(map(_PLAIN_NUMBER.fullmatch, problem.gold)) else _PROBE
    return problem.gold[0] if problem.verifier == "exact" else ""


def all_faults(faults: Mapping[int, str]) -> RlcrError:
    """One line for all of them: the first in full, and the lines of the others."""
    first, *others = sorted(faults)
    if not others:
        return RlcrError(faults[first])
    lines = ", ".join(map(str, others[:_SHOWN])) + (", …" if len(others) > _SHOWN else "")
    more = f"1 more row is faulty: line {lines}"
    if len(others) > 1:
        more = f"{len(others):,} more rows are faulty: lines {lines}"
    return RlcrError(f"{faults[first]} ({more})")
