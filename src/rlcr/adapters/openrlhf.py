"""The reward for OpenRLHF (0.11), in a file for ``--reward.remote_url FILE.py``:

    from rlcr.adapters.openrlhf import make_reward
    reward_func = make_reward(verifier="math")

A label is the gold, or JSON with ``gold`` and what else a row has (``verifier``, ``choices``, ``question``).
A query is prompt and completion in one, special tokens included: the prompt is taken off, and says whether it
ends inside ``<think>``. OpenRLHF swallows exceptions and cannot leave a sample out: what is unscorable gets a
constant (``unscorable``, 0 by default) and is counted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from rlcr.adapters.core import Rewarded, Row, Scorer, needs_constant

log = logging.getLogger(__name__)

#: Enough of a prompt's end to be found again where the rest was changed by tokenising.
_TAIL = 48

RewardFunction = Callable[[Sequence[str], Sequence[str], Sequence[str]], dict[str, Any]]


def make_reward(**settings: Any) -> RewardFunction:
    """The ``reward_func(queries, prompts, labels)``. ``settings`` are those of the core's ``Scorer``."""
    scorer = needs_constant(Scorer.of(settings, unscorable=0.0), "OpenRLHF")

    def reward_func(queries: Sequence[str], prompts: Sequence[str], labels: Sequence[str]) -> dict[str, Any]:
        try:
            return reply(scorer, queries, prompts, labels)
        except Exception:
            log.exception("the reward failed, and OpenRLHF will go on without it")
            raise

    return reward_func


def reply(
    scorer: Scorer, queries: Sequence[str], prompts: Sequence[str], labels: Sequence[str]
) -> dict[str, Any]:
    """What OpenRLHF reads, from a function or over HTTP: plain numbers for one query, lists for several.

    ``scores`` is 1 for a right answer, else 0: what its dynamic filtering counts.
    """
    found = scorer.score([_row(*one) for one in zip(queries, prompts, labels, strict=True)])
    logs = [_logs(one) for one in found]
    columns = {name: [one[name] for one in logs] for name in logs[0]} if logs else {}
    rewards: list[Any] = [one.total for one in found]
    scores: list[Any] = [float(bool(one.correct)) for one in found]
    if len(found) == 1:
        only = {name: column[0] for name, column in columns.items()}
        return {"rewards": rewards[0], "scores": scores[0], "extra_logs": only}
    return {"rewards": rewards, "scores": scores, "extra_logs": columns}


def _logs(found: Rewarded) -> dict[str, float]:
    """Numbers only, and the same for all: OpenRLHF makes tensors of them. Means over all samples."""
    return {
        **found.parts,
        "confidence": found.confidence or 0.0,
        "states_confidence": float(found.confidence is not None),
        "unscorable": float(not found.scorable),
    }


def _row(query: object, prompt: object, label: object) -> Row:
    completion = query
    if isinstance(query, str) and isinstance(prompt, str):
        completion = without_prompt(query, prompt)
    return Row.labelled(completion, prompt, label)


def without_prompt(query: str, prompt: str) -> str | None:
    """The completion: what a query has after its prompt; None where the prompt cannot be found in it.

    Tokenising may have cut the prompt on its left and changed white space in it.

    >>> without_prompt("User: 2 + 2? Assistant: 4</s>", "User: 2 + 2? Assistant:")
    ' 4</s>'
    """
    if query.startswith(prompt):
        return query[len(prompt) :]
    tail = prompt[-_TAIL:]
    ends, at = [], query.find(tail) if tail else -1
    while at >= 0:
        ends.append(at + len(tail))
        at = query.find(tail, at + 1)
    if not ends:
        return None
    cut = [end for end in ends if prompt.endswith(query[:end])]
    end = cut[0] if cut else min(ends, key=lambda end: abs(end - len(prompt)))
    return query[end:]
