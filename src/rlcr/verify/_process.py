"""Both ends of a worker process: one JSON job per line goes in, one JSON reply per line comes out.

Code that may never end, eat all memory or bring the interpreter down runs in a process of its own. A worker
module calls :func:`serve`; a :class:`Worker` starts it, by ``exec`` and not by ``fork`` (callers have threads
and GPUs), and asks. :mod:`rlcr.verify._pool` keeps several of them. POSIX only.

The limit of a job is computing time, not time on the wall, so that the same job gets the same verdict on a
busy machine. The kernel's clock enforces it in the worker, whether or not the parent is still there.
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

_START_SECONDS = 120.0
# A worker stops itself after its limit of computing time. This many times as long by the clock on the wall,
# and it is stuck in some other way.
_PATIENCE = 10.0


class WorkerStopped(Exception):
    """The worker broke down: it crashed, or was killed."""


class Worker:
    """One process and the pipes to it. Used by one thread at a time."""

    def __init__(self, module: str, environment: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            # -P keeps the current directory off the path: a stray token.py there must not be imported.
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment},
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
            by_hand = f"{sys.executable} -m {module} < {os.devnull}"
            raise RlcrError(f"the worker process did not start; to see why, run: {by_hand}") from error
        except BaseException:
            self.kill()
            raise

    def ask(self, job: Any, limit: float | None) -> Any:
        """The reply to a job that may compute for ``limit`` seconds; None is for ever.

        TimeoutError (its time was up) and WorkerStopped leave the worker dead, and so does Ctrl-C: a late
        reply would be taken for that of the next job.
        """
        try:
            self._send([limit, job])
            return self._receive(None if limit is None else limit * _PATIENCE + _PATIENCE)
        except WorkerStopped:
            self.kill()
            if self.process.returncode == -signal.SIGPROF:
                raise TimeoutError from None
            raise
        except BaseException:
            self.kill()
            raise

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


def serve(answer: Callable[[Any], Any], *, memory: int) -> None:
    """The worker's side: answer jobs until the end of input, with at most ``memory`` bytes.

    Called when all slow imports are done: the first line out says that jobs may come.
    """
    # Some systems have no such limit; time is limited all the same.
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    # Libraries print, on both streams; that must not get among the replies.
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    print(json.dumps("ready"), file=replies, flush=True)
    for line in sys.stdin:
        limit, job = json.loads(line)
        # Nobody handles SIGPROF, so it ends the process, even in the middle of a long C call.
        signal.setitimer(signal.ITIMER_PROF, limit or 0)
        reply = answer(job)
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps(reply), file=replies, flush=True)
