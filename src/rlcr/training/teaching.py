"""Updates that taught nothing: which they are, why, what to try, and what is said of them at the end.

An update teaches by differences: where all completions of each prompt earn the same, no token has an
advantage, the policy gradient is zero and no weight changes (but for an entropy bonus or a KL term, which
know nothing of right and wrong).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlcr.runs.lines import read_object, write_object
from rlcr.training.recipes.checks import TRAINING

# So many cut off are why a format is never right.
_MOST_CUT_OFF = 0.9


def taught(line: Mapping[str, Any]) -> bool:
    """Whether anything was learned from in an update, by its line in ``updates.jsonl``."""
    learned_from = line.get("learned_from")
    # Logs of before did not count completions.
    return line.get("zero_variance_groups") != 1 if learned_from is None else learned_from > 0


def why_nothing(line: Mapping[str, Any]) -> str:
    """The likely cause why an update taught nothing, and what to try."""

    def number(name: str) -> float:
        value = line.get(name)
        return float("nan") if value is None else float(value)

    if number("unscorable") == number("completions"):
        return f"no answer could be graded ({line.get('unscorable_reason')}): look at gold and verifier"
    if number("truncated") == 1 or (number("truncated") >= _MOST_CUT_OFF and number("well_formed") == 0):
        return "the completions ran into the limit of tokens: raise max_completion_tokens"
    if number("well_formed") == 0:
        return (
            "no response is well-formed: teach the tags first (`rlcr warm-up`), or use a prompt with an"
            " example (prompt=FILE)"
        )
    if number("zero_variance_groups") < 1:
        return "no token that counts has an advantage: look at credit and mask_truncated"
    if number("accuracy") == 1:
        return "every answer is right, and earns the same: take harder problems"
    if number("accuracy") == 0:
        return "every answer is wrong, and earns the same: take easier problems or a stronger model"
    return "the completions of a prompt all earn the same: raise temperature or group"


def outcome(updates: Sequence[Mapping[str, Any]]) -> str:
    """What is to be said of a whole run; empty where every update taught something.

    >>> outcome([{"update": 1, "learned_from": 0, "accuracy": 1.0}, {"update": 2, "learned_from": 8}])
    '1 of 2 updates taught nothing (every answer is right, and earns the same: take harder problems)'
    """
    idle = [line for line in updates if not taught(line)]
    if not idle:
        return ""
    why = why_nothing(idle[-1])
    if len(idle) == len(updates):
        return f"NOTHING WAS LEARNED: none of its {len(updates):,} updates taught anything ({why})"
    return f"{len(idle):,} of {len(updates):,} updates taught nothing ({why})"


def counts(updates: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many updates were made, and how many taught anything."""
    return {"made": len(updates), "taught": sum(map(taught, updates))}


#: What to do where training.json is damaged.
TRAINING_ADVICE = "put back the file as it was, or train in another --out"


def note(run: Path, **facts: Any) -> None:
    """Add facts to the ``training.json`` of a run, or replace them."""
    path = run / TRAINING
    write_object(path, read_object(path, TRAINING_ADVICE) | facts)


def warnings_until(run: Path, update: int) -> list[dict[str, Any]]:
    """The warnings that a run noted up to an update, which is where it is resumed."""
    stored = read_object(run / TRAINING, TRAINING_ADVICE).get("warnings", [])
    return [warning for warning in stored if warning["update"] <= update]
