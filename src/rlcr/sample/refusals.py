"""Whose fault is it when requests fail: their own, or the server's?"""

from __future__ import annotations

from contextlib import closing

from rlcr.errors import RlcrError
from rlcr.sample import Refused, Request, Sampler, Sampling


def confirm(refused: Refused, sampler: Sampler, other: Request | None, sampling: Sampling) -> None:
    """Raise unless the fault is in the requests: the model must answer another, best one that it has before.

    A server whose credit is spent or whose settings are wrong refuses everything, with the same status as a
    filter refuses one prompt. Taking that for failures of the requests would write off a whole run.
    """
    if other is None:
        raise refused
    if refused.certain:
        return
    try:
        with closing(sampler.sample([other], sampling)) as replies:
            for _ in replies:
                return
    except RlcrError as error:
        why = f" ({error})" if not isinstance(error, Refused) else ""
        name = other.key.partition("\0")[0]
        raise RlcrError(f"{refused}; it does not answer {name!r} either{why}") from None
    raise refused
