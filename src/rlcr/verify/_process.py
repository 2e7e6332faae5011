"""Both ends of a worker process: one JSON job per line goes in, one JSON reply per line comes out.

Code that may never end, eat all memory or bring the interpreter down runs in a process of its own. A worker
module calls :func:`serve`; a :class:`Worker` starts it, by ``exec`` and not by ``fork`` (callers have threads
and GPUs), and asks. :mod:`rlcr.verify._pool` keeps several of them. POSIX only. A worker
gets none of the secrets of the environment.

The limit of a job is computing time, not time on the wall, so that the same job gets the same verdict on a
busy machine. The kernel's clock enforces it in the worker, whether or not the parent is still there.

How a worker ended tells whose doing it was. Out of time, out of memory, a crash: the job's. Killed by a
signal that no job can cause (the kernel's out-of-memory killer sends one), or not given the processor: that
of somebody else.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from rlcr.errors import RlcrError
from rlcr.terminal import secret_variables

_START_SECONDS = 120.0
# A worker stops itself after its limit of computing time. This many times as long by the clock on the wall,
# and it is not being allowed to compute.
_PATIENCE = 30.0
# The time that a process takes to die once its pipes are closed.
_DYING_SECONDS = 5.0

# A BLAS library reserves about 40 MB of address space for each of its threads, one for each core. That is
# counted against the limit of memory, and no job here is made faster by it.
_ONE_THREAD = dict.fromkeys(
    (
        "OPENBLAS_NUM_THREADS",
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "BLIS_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
        "NUMEXPR_NUM_THREADS",
    ),
    "1",
)

# What a process does to itself. Any other signal comes from outside.
_CRASHES = {signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV}


class WorkerStopped(Exception):
    """The worker is gone, and the job is not done."""


class WorkerCrashed(WorkerStopped):
    """The job brought the worker down."""


class WorkerLost(WorkerStopped):
    """The job had no part in it: the worker was killed from outside, or got no time to compute."""


class Worker:
    """One process and the pipes to it. Used by one thread at a time."""

    def __init__(self, module: str, environment: Mapping[str, str]) -> None:
        secrets = secret_variables()
        self.process = subprocess.Popen(
            # -P keeps the current directory off the path: a stray token.py there must not be imported.
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={
                **{name: value for name, value in os.environ.items() if name not in secrets},
                **_ONE_THREAD,
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                **environment,
            },
            # Ctrl-C is for us; the worker sees the end of its input.
            start_new_session=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._jobs, self._replies = self.process.stdin.fileno(), self.process.stdout.fileno()
        self._poll = select.poll()
        self._poll.register(self._replies, select.POLLIN)
        by_hand = f"to see why, run: {sys.executable} -m {module} < {os.devnull}"
        try:
            fault = self._receive(_START_SECONDS)
        except WorkerStopped as error:
            self._bury()
            if self._was_killed():
                raise WorkerLost from error
            raise RlcrError(f"the worker process did not start; {by_hand}") from error
        except TimeoutError as error:
            self.kill()
            raise RlcrError(f"the worker process did not start in {_START_SECONDS:g} s; {by_hand}") from error
        except BaseException:
            self.kill()
            raise
        if fault is not None:
            self.kill()
            raise RlcrError(f"a worker process cannot grade: {fault}; {by_hand}")

    def ask(self, job: Any, limit: float | None) -> Any:
        """The reply to a job that may compute for ``limit`` seconds; None is without limit.

        TimeoutError (its time was up), WorkerCrashed and WorkerLost leave the worker dead, and so does
        Ctrl-C: a late reply would be taken for that of the next job.
        """
        try:
            self._send([limit, job])
            return self._receive(None if limit is None else limit * _PATIENCE + _PATIENCE)
        except TimeoutError:
            self.kill()
            raise WorkerLost from None
        except WorkerStopped:
            self._bury()
            if self.process.returncode == -signal.SIGPROF:
                raise TimeoutError from None
            raise (WorkerLost if self._was_killed() else WorkerCrashed) from None
        except BaseException:
            self.kill()
            raise

    def _bury(self) -> None:
        """End a process whose pipe has closed, without hiding what it is dying of."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_DYING_SECONDS)
        self.kill()

    def _was_killed(self) -> bool:
        """Whether the process, now dead, was ended from outside."""
        code = self.process.returncode
        return code < 0 and -code not in _CRASHES

    def _send(self, message: Any) -> None:
        rest = memoryview(json.dumps(message).encode() + b"\n")
        try:
            while rest:
                rest = rest[os.write(self._jobs, rest) :]
        except BrokenPipeError as error:
            raise WorkerStopped from error

    def _receive(self, patience: float | None) -> Any:
        deadline = None if patience is None else time.monotonic() + patience
        received = bytearray()
        while not received.endswith(b"\n"):
            left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
            if not self._poll.poll(left):
                raise TimeoutError
            if not (part := os.read(self._replies, 1 << 16)):
                raise WorkerStopped
            received += part
        return json.loads(received)

    def alive(self) -> bool:
        """Whether the process is there."""
        return self.process.poll() is None

    def kill(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        self.forget()

    def forget(self) -> None:
        """Close our ends of the pipes; the worker, if nobody else holds them, sees the end of its input."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


def serve(answer: Callable[[Any], Any], *, memory: int, fault: Callable[[], str | None]) -> None:
    """The worker's side: answer jobs until the end of input, with ``memory`` bytes for them.

    Called when all slow imports are done. ``fault`` is the self-test, under the memory limit of the jobs: it
    says what is wrong with this worker, which then gets no jobs. That is the first line out; null is health.
    """
    _limit_memory(memory)
    # Libraries print, on both streams; that must not get among the replies.
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    try:
        unfit = fault()
    except Exception as error:
        unfit = f"its self-test ended in {error!r}"
    print(json.dumps(unfit), file=replies, flush=True)
    for line in sys.stdin:
        limit, job = json.loads(line)
        # SIGPROF has no handler, so it ends the process, even in the middle of a long C call.
        signal.setitimer(signal.ITIMER_PROF, limit or 0)
        reply = answer(job)
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps(reply), file=replies, flush=True)


def _limit_memory(memory: int) -> None:
    """Allow ``memory`` bytes beyond those in use: how many the imports take depends on the machine."""
    # Some systems have no such limit; time is limited all the same.
    with suppress(ImportError, ValueError, OSError):
        import resource

        with open("/proc/self/statm") as statm:
            in_use = int(statm.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (in_use + memory, in_use + memory))
