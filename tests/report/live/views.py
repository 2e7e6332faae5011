"""A live view in this process, and runs that grow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from threading import Thread, Timer
from typing import Any

from rlcr.report.live.server import ViewServer
from rlcr.report.live.watching import Watched

#: Seconds after which something hangs; nothing needs nearly as long.
HANGS = 300


@contextmanager
def viewed(*folders: Path, idle: float = 0) -> Iterator[ViewServer]:
    """Serve some runs, as `rlcr view` does; they are followed after some ``idle`` seconds."""
    watched = Watched(folders)
    with ViewServer(watched, 0) as server:
        start = Timer(idle, watched.start)
        start.start()
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            start.join()
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


#: A writer of records that stops in the middle of a line.
_WRITER = """
import json, sys, time
file = open(sys.argv[1], "ab", buffering=0)
lines = [json.dumps(line).encode() + b"\\n" for line in json.loads(sys.stdin.read())]
file.write(lines[0])
file.write(lines[1][:50])
print("half", flush=True)
time.sleep(600)
"""


@contextmanager
def killed_in_a_line(folder: Path, records: Sequence[dict[str, Any]]) -> Iterator[None]:
    """Another process that has written one record and half of the next; `kill -9` at the end."""
    command = [sys.executable, "-c", _WRITER, str(folder / "records.jsonl")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        try:
            assert writer.stdin
            assert writer.stdout
            writer.stdin.write(json.dumps(records))
            writer.stdin.close()
            assert writer.stdout.readline() == "half\n"
            yield
        finally:
            writer.kill()


def resume(folder: Path, records: Iterable[dict[str, Any]]) -> None:
    """What is left of a line is dropped, and its completion comes again."""
    whole = (folder / "records.jsonl").read_bytes()
    os.truncate(folder / "records.jsonl", whole.rfind(b"\n") + 1)
    append(folder, records)


def append(folder: Path, records: Iterable[dict[str, Any]]) -> None:
    """More records, as a run that is under way appends them."""
    with open(folder / "records.jsonl", "ab", buffering=0) as file:
        for cells in records:
            file.write(json.dumps(cells).encode() + b"\n")
