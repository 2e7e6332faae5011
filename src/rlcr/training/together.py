"""When one of several processes of a run ends, the others end too, and say so in one line.

A process that waits for one that is gone finds out by a broken connection (gloo), or not at all before its
timeout (NCCL); the launcher finds out at once, and sends SIGTERM to the others.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rlcr.errors import RlcrError
from rlcr.training.checkpoint import processes

#: What the errors of torch's backends are called, or say, where a process is gone.
_NAMES = ("DistBackendError", "DistNetworkError", "DistStoreError")
_TEXTS = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "gloo/transport")


@contextmanager
def ending_together() -> Iterator[None]:
    """Turns the end of another process, or of this one by its launcher, into one line."""
    if processes() == 1:
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminated)
    try:
        yield
    except Exception as error:
        if isinstance(error, RlcrError) or not _is_lost(error):
            raise
        raise RlcrError(_line("another process of this run has ended")) from error
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminated(*_: Any) -> None:
    # Not an error that anything on the way could take for its own.
    raise SystemExit(f"rlcr: {_line('ended by its launcher (SIGTERM), as after the end of another process')}")


def _is_lost(error: BaseException) -> bool:
    return type(error).__name__ in _NAMES or any(text in str(error) for text in _TEXTS)


def _line(what: str) -> str:
    rank = os.environ.get("RANK", "0")
    return (
        f"process {rank} of {processes()}: {what}; what went wrong there stands above, or in its log; the"
        " same command with --resume goes on from the last checkpoint"
    )
