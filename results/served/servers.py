"""Real servers for a while: vLLM on the CPU, and nginx before two of them. Ended by their process ids."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENVIRONMENT = Path(os.environ.get("VLLM_ENV") or ROOT / ".venv-vllm")
PYTHON = ENVIRONMENT / "bin" / "python"
#: As in nginx.conf: the address of all, and those of the servers.
FRONT, PORTS = 8100, (8101, 8102)
_CONF = Path(__file__).parent / "nginx.conf"
#: On a busy machine it takes long to come up.
_SECONDS = 1800
_OPTIONS = (
    *("--dtype", "float32", "--enforce-eager", "--max-model-len", "512", "--max-num-seqs", "64"),
    # On a CPU vLLM 0.32 dies of a request with a seed whose prompt it reads in parts.
    *("--no-enable-chunked-prefill", "--max-num-batched-tokens", "2048"),
)


@contextmanager
def vllm(model: Path, work: Path, *ports: int) -> Iterator[dict[int, subprocess.Popen[bytes]]]:
    """Servers of a model on these ports, each with one thread, up when this begins and gone when it ends."""
    settings = {
        **os.environ,
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "PYTHONPATH": "",
    }
    started: dict[int, subprocess.Popen[bytes]] = {}
    try:
        for number, port in enumerate(ports):
            command = [str(PYTHON), "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
            command += ["--served-model-name", "served", "--host", "127.0.0.1", "--port", str(port)]
            own = {"VLLM_CPU_OMP_THREADS_BIND": str(number % (os.cpu_count() or 1))}
            with (work / f"vllm-{port}.log").open("wb") as log:
                started[port] = subprocess.Popen(
                    [*command, *_OPTIONS], env=settings | own, cwd=work, stdout=log, stderr=log,
                    start_new_session=True,
                )  # fmt: skip
        for port, process in started.items():
            _wait(f"http://127.0.0.1:{port}/health", process, work / f"vllm-{port}.log")
        yield started
    finally:
        for process in started.values():
            end(process, signal.SIGTERM)


def end(process: subprocess.Popen[bytes], how: signal.Signals = signal.SIGKILL) -> None:
    """End a server with all its processes: they are one group."""
    for one in (how, signal.SIGKILL):
        try:
            os.killpg(process.pid, one)
        except ProcessLookupError:
            return
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            continue
        # Its workers may outlive it for a moment.
        time.sleep(1)


@contextmanager
def nginx(work: Path) -> Iterator[str]:
    """nginx before the servers of :data:`PORTS`; its logs are in ``work``."""
    command = ["nginx", "-p", str(work), "-c", str(_CONF), "-g", "daemon off;"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True)
    try:
        _wait(f"http://127.0.0.1:{FRONT}/health", process, work / "error.log")
        yield f"http://127.0.0.1:{FRONT}/v1"
    finally:
        end(process, signal.SIGTERM)


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + _SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            raise SystemExit(f"{url}: the server ended with status {process.returncode}; see {log}")
        try:
            with urllib.request.urlopen(url, timeout=10):
                return
        except OSError:
            time.sleep(1)
    raise SystemExit(f"{url}: not up after {_SECONDS} s; see {log}")
