"""The processes of a run end together: when one fails, the others say so in one line; when all are done, none
leaves before the others.

A process that waits for one that is gone finds out by a broken connection (gloo), or not at all before its
timeout (NCCL); the launcher finds out at once, and sends SIGTERM to the others. And one that simply exits may
be aborted on its way out by the threads of its connections, after everything has been saved.
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
    """Turns the end of another process, or of this one by its launcher, into one line.

    At the end it waits for the others and closes the connections to them.
    """
    if processes() == 1:
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminated)
    try:
        yield
        _leave()
    except Exception as error:
        if isinstance(error, RlcrError) or not _is_lost(error):
            raise
        raise RlcrError(_line("another process of this run has ended")) from error
    finally:
        signal.signal(signal.SIGTERM, before)


def _leave() -> None:
    import torch

    if torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


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
