"""A real reward service in a process of its own, and a plain client."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.command import RLCR

_LIMITED = """
import sys
from rlcr.adapters.core import Scorer
from rlcr.adapters.service import Limits, RewardService, serve
limits = Limits(**eval(sys.argv[1]))
service = RewardService(Scorer(verifier=sys.argv[2], unscorable=0.0), limits=limits)
serve(service, "127.0.0.1", 0, ready=lambda url: print("rewards at", url, flush=True))
"""


class RewardServer:
    """A running service."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process, self.url = process, url
        self.address = urlsplit(url).hostname or "", urlsplit(url).port or 0

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(*self.address, timeout=120)

    def post(
        self,
        body: object,
        *,
        path: str = "/",
        raw: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Status and JSON of the reply."""
        return self.call("POST", path, json.dumps(body).encode() if raw is None else raw, headers)

    def call(
        self, method: str, path: str, content: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        connection = self.connection()
        try:
            connection.request(method, path, content, headers or {})
            reply = connection.getresponse()
            text = reply.read().decode()
            kind = reply.headers.get_content_type()
            return reply.status, json.loads(text) if kind == "application/json" else text
        finally:
            connection.close()

    def workers(self) -> list[int]:
        """The processes that compare formulas."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return [int(pid) for task in tasks for pid in task.read_text().split()]


@contextmanager
def reward_server(*arguments: str, **environment: str) -> Iterator[RewardServer]:
    """``rlcr serve-reward`` with these arguments, on a free port."""
    yield from _running([*RLCR, "serve-reward", "--port", "0", *arguments], environment)


@contextmanager
def limited_server(verifier: str = "exact", **limits: float) -> Iterator[RewardServer]:
    """A service with limits that the command line does not offer."""
    yield from _running([sys.executable, "-c", _LIMITED, repr(limits), verifier], {})


def _running(command: list[str], environment: dict[str, str]) -> Iterator[RewardServer]:
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            assert process.stderr is not None
            raise AssertionError(f"the service did not start: {process.stderr.read()}")
        yield RewardServer(process, line.removeprefix("rewards at ").strip())
    finally:
        process.terminate()
        process.communicate(timeout=60)
