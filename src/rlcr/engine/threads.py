"""How many threads to compute with on a CPU, part of which may be busy with other work.

Threads wait for each other after every product. When another process keeps one of two cores busy, the thread
that shares it holds up the other at each step, and both together are slower than one alone: measured with
SmolLM2-135M, 33 tokens a second on two threads beside a busy process, 157 on one. So the threads are tried
before a model is run, and fewer are used where they are clearly faster.
"""

from __future__ import annotations

import logging
import os
import statistics
import time
from collections.abc import Callable
from functools import cache

import torch

log = logging.getLogger(__name__)

#: Fewer threads must be so much faster to be chosen: on a quiet machine the choice must not flicker.
_CLEARLY = 1.2
_ROUNDS, _PRODUCTS = 5, 4
_ROWS, _WIDTH = 64, 1024


@cache
def use_free_threads() -> None:
    """Let torch compute with as many threads as are worth having now; tried once in a process.

    Nothing is tried where ``OMP_NUM_THREADS`` is set: whoever set it has chosen.
    """
    threads = torch.get_num_threads()
    if threads == 1 or "OMP_NUM_THREADS" in os.environ:
        return
    chosen = choose_threads(threads, _seconds)
    torch.set_num_threads(chosen)
    if chosen < threads:
        log.warning(
            "computing with %d of %d threads: other work keeps cores busy, and more would be slower"
            " (OMP_NUM_THREADS decides otherwise)",
            chosen,
            threads,
        )


def choose_threads(threads: int, seconds: Callable[[int], float]) -> int:
    """The most threads, unless half, a quarter, … of them are clearly faster; ``seconds(n)`` tries n once.

    >>> choose_threads(8, {8: 1.0, 4: 1.1, 2: 2.0, 1: 4.0}.__getitem__)
    8
    >>> choose_threads(8, {8: 9.0, 4: 1.1, 2: 2.0, 1: 4.0}.__getitem__)
    4
    """
    candidates = [threads]
    while candidates[-1] > 1:
        candidates.append(candidates[-1] // 2)
    # In turns, so that a moment of other work does not count against one of them alone.
    rounds = [{count: seconds(count) for count in candidates} for _ in range(_ROUNDS)]
    typical = {count: statistics.median(one[count] for one in rounds) for count in candidates}
    best = min(candidates, key=lambda count: typical[count])
    return best if typical[threads] > _CLEARLY * typical[best] else threads


def _seconds(threads: int) -> float:
    """How long products take that are shaped like those of sampling."""
    torch.set_num_threads(threads)
    rows_RI, weight_OI = torch.ones(_ROWS, _WIDTH), torch.ones(_WIDTH, _WIDTH)
    torch.mm(rows_RI, weight_OI.T)
    start = time.perf_counter()
    for _ in range(_PRODUCTS):
        torch.mm(rows_RI, weight_OI.T)
    return time.perf_counter() - start
