"""A few worker processes that compare formulas, and a clock that stops them.

sympy can neither be trusted to end nor be interrupted from a thread, so every comparison runs in another
process, for a limited time of computing. Workers are started when first needed, by ``exec`` and not by ``fork`` (callers have threads and
GPUs), kept between calls, replaced when they had to be killed, and gone when this process is. POSIX only.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from rlcr.errors import RlcrError
from rlcr.verify.verdict import Outcome, Verdict

_START_SECONDS = 120.0
# A worker stops itself after its limit of computing time. This many times as long by the clock on the wall,
# and it is stuck in some other way.
_PATIENCE = 10.0
_MAX_WORKERS = 16


@dataclass(frozen=True, slots=True)
class Job:
    """One comparison: an answer with the aliases of its gold."""

    golds: tuple[str, ...]
    answer: str
    paper: bool = False


class WorkerStopped(Exception):
    """The worker is dead: its time was up, or it broke down."""


class _Worker:
    """One process and the pipes to it. Used by one thread at a time."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            # -P keeps the current directory off the path: a stray token.py there must not be imported.
            [sys.executable, "-P", "-m", "rlcr.verify._math_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            # Ctrl-C is for us; the worker sees the end of its input.
            start_new_session=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._jobs, self._replies = self.process.stdin.fileno(), self.process.stdout.fileno()
        self._poll = select.poll()
        self._poll.register(self._replies, select.POLLIN)
        try:
            self._receive(_START_SECONDS)
        except (WorkerStopped, TimeoutError) as error:
            self.kill()
            raise RlcrError(
                "the math worker did not start; to see why, run: "
                f"{sys.executable} -m rlcr.verify._math_worker < {os.devnull}"
            ) from error

    def ask(self, job: Job, limit: float) -> Verdict:
        """The worker's verdict. TimeoutError or WorkerStopped: kill this worker and take another."""
        message = {"golds": job.golds, "answer": job.answer, "paper": job.paper, "limit": limit}
        rest = memoryview(json.dumps(message).encode() + b"\n")
        try:
            while rest:
                rest = rest[os.write(self._jobs, rest) :]
        except BrokenPipeError as error:
            raise WorkerStopped from error
        outcome, reason = self._receive(limit * _PATIENCE + _PATIENCE)
        return Verdict(outcome, reason)

    def _receive(self, limit: float) -> tuple[Outcome, str]:
        deadline = time.monotonic() + limit
        received = b""
        while not received.endswith(b"\n"):
            if not self._poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise TimeoutError
            if not (part := os.read(self._replies, 65536)):
                raise WorkerStopped
            received += part
        return tuple(json.loads(received))

    def alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.forget()

    def forget(self) -> None:
        """Close our ends of the pipes; the worker, if alive, sees the end of its input."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


class MathPool:
    """At most ``size`` workers, shared by all threads of this process."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._free = threading.BoundedSemaphore(size)
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()

    def run(self, jobs: Sequence[Job], limit: float) -> list[Verdict]:
        """Verdicts in the order of the jobs, each given ``limit`` seconds of its own."""
        if len(jobs) <= 1 or self.size == 1:
            return [self.run_one(job, limit) for job in jobs]
        waiting = deque(enumerate(jobs))
        verdicts: dict[int, Verdict] = {}

        def drain() -> None:
            while waiting:
                try:
                    index, job = waiting.popleft()
                except IndexError:  # another thread was faster
                    return
                verdicts[index] = self.run_one(job, limit)

        threads = min(self.size, len(jobs))
        with ThreadPoolExecutor(threads, "rlcr-math") as executor:
            try:
                for future in [executor.submit(drain) for _ in range(threads)]:
                    future.result()
            finally:
                waiting.clear()  # after Ctrl-C or an error, only the comparisons under way are waited for
        return [verdicts[index] for index in range(len(jobs))]

    def run_one(self, job: Job, limit: float) -> Verdict:
        """One verdict: the worker's own, or unscorable because it had to be stopped or broke down."""
        with self._worker() as worker:
            try:
                return worker.ask(job, limit)
            except (TimeoutError, WorkerStopped) as error:
                worker.kill()
                if isinstance(error, TimeoutError) or worker.process.returncode == -signal.SIGPROF:
                    return Verdict("unscorable", f"timed out after {limit:g} s")
                return Verdict("unscorable", "verifier ran out of memory or crashed")

    def pids(self) -> list[int]:
        """Process ids of the workers alive now."""
        with self._lock:
            return [worker.process.pid for worker in (*self._idle, *self._busy) if worker.alive()]

    def close(self) -> None:
        """Kill all workers. The pool may be used again afterwards: it starts new ones."""
        with self._lock:
            for worker in (*self._idle, *self._busy):
                worker.process.kill()
            while self._idle:
                self._idle.pop().kill()

    def forget(self) -> None:
        """In a forked child: the workers are the parent's. Leave them alone, but let go of their pipes."""
        for worker in (*self._idle, *self._busy):
            worker.forget()

    @contextmanager
    def _worker(self) -> Iterator[_Worker]:
        with self._free:
            worker = self._take() or _Worker()
            with self._lock:
                self._busy.add(worker)
            try:
                yield worker
            except BaseException:
                worker.kill()  # Ctrl-C in the middle of a job: its reply would be taken for the next one's
                raise
            finally:
                with self._lock:
                    self._busy.discard(worker)
                    if worker.alive():
                        self._idle.append(worker)

    def _take(self) -> _Worker | None:
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


_shared: MathPool | None = None
_shared_lock = threading.Lock()


def shared_pool() -> MathPool:
    """The pool of this process: a worker for each core, at most 16."""
    global _shared
    with _shared_lock:
        if _shared is None:
            _shared = MathPool(min(_cores(), _MAX_WORKERS))
            atexit.register(_shared.close)
        return _shared


def settle(looks: Sequence[Verdict | Job], limit: float) -> list[Verdict]:
    """Verdicts as they are, jobs done by the shared pool; a job that a batch holds twice is done once."""
    jobs = list(dict.fromkeys(look for look in looks if isinstance(look, Job)))
    verdicts = dict(zip(jobs, shared_pool().run(jobs, limit), strict=True)) if jobs else {}
    return [verdicts[look] if isinstance(look, Job) else look for look in looks]


def _after_fork_in_child() -> None:
    global _shared, _shared_lock
    _shared_lock = threading.Lock()
    if _shared is not None:
        atexit.unregister(_shared.close)
        _shared.forget()
        _shared = None


os.register_at_fork(after_in_child=_after_fork_in_child)
