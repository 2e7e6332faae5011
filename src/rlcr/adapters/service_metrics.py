"""What a reward service counts of itself, in the text format that Prometheus reads. No clock, no network."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

from rlcr.adapters.core import Rewarded

#: Upper bounds, in seconds, of the classes into which requests are counted.
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0)


class ServiceMetrics:
    """Counts of requests and completions; may be used from several threads.

    >>> metrics = ServiceMetrics()
    >>> metrics.replied("slime", 200, 0.004)
    >>> print(metrics.text(waiting=0, held=0).splitlines()[2])
    rlcr_requests_total{shape="slime",status="200"} 1
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._verdicts: Counter[str] = Counter()
        self._classes = [0] * (len(BOUNDS) + 1)
        self._seconds = 0.0

    def replied(self, shape: str, status: int, seconds: float) -> None:
        """Note a request that was answered, in whatever way."""
        with self._lock:
            self._requests[shape, status] += 1
            self._classes[bisect_left(BOUNDS, seconds)] += 1
            self._seconds += seconds

    def scored(self, found: Sequence[Rewarded]) -> None:
        """Note completions that were judged."""
        with self._lock:
            self._verdicts.update(map(_verdict, found))

    def text(self, *, waiting: int, held: int) -> str:
        """All counts: ``waiting`` requests are under way, with ``held`` bytes."""
        with self._lock:
            return "\n".join([*self._lines(waiting, held), ""])

    def _lines(self, waiting: int, held: int) -> Iterator[str]:
        yield "# HELP rlcr_requests_total Requests by shape and HTTP status."
        yield "# TYPE rlcr_requests_total counter"
        for (shape, status), count in sorted(self._requests.items()):
            yield f'rlcr_requests_total{{shape="{shape}",status="{status}"}} {count}'
        yield "# HELP rlcr_completions_total Completions by verdict."
        yield "# TYPE rlcr_completions_total counter"
        for verdict, count in sorted(self._verdicts.items()):
            yield f'rlcr_completions_total{{verdict="{verdict}"}} {count}'
        yield "# HELP rlcr_request_seconds Seconds from the head of a request to its reply."
        yield "# TYPE rlcr_request_seconds histogram"
        so_far = 0
        for bound, count in zip((*BOUNDS, "+Inf"), self._classes, strict=True):
            so_far += count
            yield f'rlcr_request_seconds_bucket{{le="{bound}"}} {so_far}'
        yield f"rlcr_request_seconds_sum {self._seconds:.6f}"
        yield f"rlcr_request_seconds_count {so_far}"
        yield "# HELP rlcr_waiting_requests Requests under way."
        yield "# TYPE rlcr_waiting_requests gauge"
        yield f"rlcr_waiting_requests {waiting}"
        yield "# HELP rlcr_held_bytes Bytes of bodies that are held."
        yield "# TYPE rlcr_held_bytes gauge"
        yield f"rlcr_held_bytes {held}"


def _verdict(found: Rewarded) -> str:
    if not found.scorable:
        return "unscorable"
    if not found.well_formed:
        return "malformed"
    return "correct" if found.correct else "wrong"
