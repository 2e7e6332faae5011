"""A live view in this process, and runs that grow."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from threading import Thread
from typing import Any

from rlcr.report.live.server import ViewServer
from rlcr.report.live.watching import Watched

#: Seconds after which something hangs; nothing needs nearly as long.
HANGS = 300


@contextmanager
def viewed(*folders: Path) -> Iterator[ViewServer]:
    """Serve some runs, as `rlcr view` does."""
    watched = Watched(folders)
    with ViewServer(watched, 0) as server:
        watched.start()
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            watched.stop()
            thread.join()


def get(server: ViewServer, path: str, method: str = "GET", **headers: str) -> tuple[HTTPResponse, str]:
    """What it replies; the path is sent as it is."""
    connection = HTTPConnection("127.0.0.1", server.server_address[1], timeout=HANGS)
    try:
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        reply = connection.getresponse()
        return reply, reply.read().decode()
    finally:
        connection.close()


def state(server: ViewServer) -> dict[str, Any]:
    return json.loads(get(server, "/state")[1])


def wait_for(condition: Callable[[], Any], what: str = "it") -> float:
    """Seconds until something is so."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < HANGS, f"waited for {what} in vain"
        time.sleep(0.02)
    return time.monotonic() - started


def append(folder: Path, records: Iterable[dict[str, Any]]) -> None:
    """More records, as a run that is under way appends them."""
    with open(folder / "records.jsonl", "ab", buffering=0) as file:
        for cells in records:
            file.write(json.dumps(cells).encode() + b"\n")
