"""Two halves of the questions: what is chosen on one is checked on the other."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from rlcr.many.pool import Ints


def halves(ids: Sequence[str], seed: int = 0) -> tuple[Ints, Ints]:
    """The places of two halves of the questions, by a hash of their ids: the same in every run.

    >>> first, second = halves(["a", "b", "c"])
    >>> sorted([*first.tolist(), *second.tolist()]), len(first)
    ([0, 1, 2], 2)
    """
    hashes = [hashlib.sha256(f"{seed}/{name}".encode("utf-8", "surrogatepass")).digest() for name in ids]
    order = sorted(range(len(ids)), key=lambda place: hashes[place])
    middle = (len(ids) + 1) // 2
    return np.array(sorted(order[:middle]), np.int64), np.array(sorted(order[middle:]), np.int64)
