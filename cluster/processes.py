# pyright: basic
"""Processes that run a case: one alone, or two that a launcher starts.

The launcher is torchrun. With ``forked`` it is its launcher called from Python, whose processes begin as
copies of this one: they import nothing again, which is most of the time of a short run on a slow machine.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from cluster.launches import environment

ROOT = Path(__file__).parents[1]
#: Seconds after which a run has hung. DeepSpeed compiles at its first start.
LIMIT = 1200


class Running:
    """A case that runs: the process that was started first, and the file of what it and others say."""

    def __init__(self, pid: int, errors: Path) -> None:
        self.pid, self._errors = pid, errors
        self.status: int | None = None

    @property
    def errors(self) -> str:
        """What has been said on standard error."""
        return self._errors.read_text(encoding="utf-8", errors="replace")

    def poll(self) -> int | None:
        """The exit status; None while it runs."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = os.waitstatus_to_exitcode(status) if pid else None
        return self.status

    def wait(self, limit: float = LIMIT) -> int:
        """Wait for its end; the exit status. What takes longer is ended."""
        until = time.monotonic() + limit
        while (status := self.poll()) is None:
            if time.monotonic() > until:
                self.end()
                raise RuntimeError(f"it had not ended after {limit:.0f} s")
            time.sleep(0.1)
        return status

    def end(self) -> None:
        """End it and all that it has started, if it still runs."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def children(self) -> list[int]:
        """Those that the launcher has started, in the order of their ranks."""
        found = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return sorted(int(child) for child in found)


def start(launch: str | None, arguments: Sequence[str], errors: Path, *, forked: bool) -> Running:
    """Begin `cluster.worker` with these arguments: under a launch, or alone in one process."""
    variables = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    # DeepSpeed looks for ninja there.
    variables["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    if launch is not None:
        variables |= environment(launch) | {"DS_ACCELERATOR": "cpu"}
    if forked:
        return _fork(launch is not None, arguments, errors, variables)
    command = [sys.executable]
    if launch is not None:
        command += ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    with errors.open("w") as stream:
        process = subprocess.Popen(
            [*command, "-m", "cluster.worker", *arguments],
            cwd=ROOT,
            env=os.environ | variables | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            stderr=stream,
            start_new_session=True,
        )
    process.returncode = 0  # it is waited for by its id
    return Running(process.pid, errors)


def _fork(several: bool, arguments: Sequence[str], errors: Path, variables: dict[str, str]) -> Running:
    # What processes would import, once for all.
    import deepspeed  # pyright: ignore[reportMissingImports]  # noqa: F401

    from cluster.worker import work

    pid = os.fork()
    if pid:
        return Running(pid, errors)
    status = 1
    try:
        os.setsid()
        with errors.open("w") as stream:
            os.dup2(stream.fileno(), 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.environ.update(variables)
        _launch(arguments) if several else work(*arguments)
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    finally:
        sys.stderr.flush()
        os._exit(status)


def _launch(arguments: Sequence[str]) -> None:
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    config = LaunchConfig(
        min_nodes=1, max_nodes=1, nproc_per_node=2, rdzv_backend="c10d", rdzv_endpoint="localhost:0",
        run_id="cluster", max_restarts=0, start_method="fork",
    )  # fmt: skip
    elastic_launch(config, _worker)(*arguments)


def _worker(*arguments: str) -> None:
    from cluster.worker import work

    try:
        work(*arguments)
    except SystemExit as ended:
        if isinstance(ended.code, str):  # as the interpreter would
            print(ended.code, file=sys.stderr, flush=True)
        if ended.code:
            os._exit(ended.code if isinstance(ended.code, int) else 1)
