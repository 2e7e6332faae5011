"""Worker processes of one kind, shared by all threads of this process.

They are started when first needed, kept between calls, replaced when they had to be killed, and gone when
this process is. A forked child begins with none; those of its parent stay the parent's.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, TypeVar
from weakref import WeakSet

from rlcr.verify._process import Worker, WorkerLost

# Each takes 80 MB, and up to its limit of some GB on a bad job: more would need a large part of a machine.
_MAX_WORKERS = 16
# A worker that is lost says nothing about its job, which another worker gets.
_ATTEMPTS = 5

Item = TypeVar("Item")
Result = TypeVar("Result")


class WorkerPool:
    """At most ``size`` workers that run ``module``; by default one for each core, at most 16."""

    def __init__(
        self, module: str, *, size: int | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        self.size = size or min(_cores(), _MAX_WORKERS)
        self._module = module
        self._environment = dict(environment or {})
        self._begin()
        _pools.add(self)

    def _begin(self) -> None:
        self._free = threading.BoundedSemaphore(self.size)
        self._closings = 0
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        self._busy: set[Worker] = set()

    def ask(self, job: Any, limit: float | None) -> Any:
        """A worker's reply. TimeoutError and WorkerCrashed as in :meth:`Worker.ask`.

        A job whose worker is lost goes to another; WorkerLost if several are, or when the pool is closed.
        """
        attempts, closings = 0, self._closings
        while True:
            attempts += 1
            try:
                with self._worker() as worker:
                    return worker.ask(job, limit)
            except WorkerLost:
                if attempts == _ATTEMPTS or self._closings != closings:
                    raise

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """``function`` of every item, in order, in as many threads as can ask workers at the same time."""
        if len(items) <= 1 or self.size == 1:
            return [function(item) for item in items]
        waiting = deque(enumerate(items))
        results: dict[int, Result] = {}

        def drain() -> None:
            while waiting:
                try:
                    index, item = waiting.popleft()
                except IndexError:  # another thread was faster
                    return
                results[index] = function(item)

        threads = min(self.size, len(items))
        with ThreadPoolExecutor(threads, "rlcr-verify") as executor:
            try:
                futures = [executor.submit(drain) for _ in range(threads)]
                wait(futures, return_when=FIRST_EXCEPTION)
            finally:
                waiting.clear()  # after Ctrl-C or an error, only the jobs under way are waited for
            for future in futures:
                future.result()
        return [results[index] for index in range(len(items))]

    def pids(self) -> list[int]:
        """Process ids of the workers alive now."""
        with self._lock:
            return [worker.process.pid for worker in (*self._idle, *self._busy) if worker.alive()]

    def close(self) -> None:
        """Kill all workers. The pool may be used again afterwards: it starts new ones."""
        with self._lock:
            self._closings += 1
            for worker in self._busy:
                worker.process.kill()  # the thread that uses it does the rest
            while self._idle:
                self._idle.pop().kill()

    def forget(self) -> None:
        """In a forked child: the workers are the parent's. Only close our ends of their pipes."""
        for worker in (*self._idle, *self._busy):
            worker.forget()
        self._begin()  # also new locks: those of the parent may have been held by threads that are not here

    @contextmanager
    def _worker(self) -> Iterator[Worker]:
        with self._free:
            worker = self._take() or Worker(self._module, self._environment)
            with self._lock:
                self._busy.add(worker)
            try:
                yield worker
            finally:
                with self._lock:
                    self._busy.discard(worker)
                    if worker.alive():
                        self._idle.append(worker)

    def _take(self) -> Worker | None:
        """An idle worker that is still alive, the last used first."""
        with self._lock:
            while self._idle:
                worker = self._idle.pop()
                if worker.alive():
                    return worker
                worker.kill()
        return None


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


_pools: WeakSet[WorkerPool] = WeakSet()


def _close_all() -> None:
    for pool in list(_pools):
        pool.close()


def _forget_all() -> None:
    for pool in list(_pools):
        pool.forget()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_forget_all)
