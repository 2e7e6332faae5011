"""A server on 127.0.0.1 that may answer with any bytes at all, at any speed.

    with HostileServer(honest) as server:
        EndpointSampler(server.url, "tiny")

What it sends comes from a function of :class:`Asked`: pieces of bytes, sent as they are made. An honest
reply, :func:`honest`, repeats the question, so that a reply which reaches another problem is seen.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self

#: The last piece of a reply after which the connection is closed.
CLOSE = b""


@dataclass(frozen=True)
class Asked:
    """A request: its path, its JSON, and how often the same has arrived, from 0."""

    path: str
    body: dict[str, Any]
    times: int
    authorization: str = ""

    @property
    def question(self) -> str:
        """What the user is asked: the last message."""
        return self.body["messages"][-1]["content"]


Behaviour = Callable[[Asked], Iterator[bytes]]


def choice(asked: Asked, index: int = 0) -> dict[str, Any]:
    """A choice that repeats the question, with log-probabilities."""
    name = re.sub(r"\W+", " ", asked.question)[:200].strip()
    text = f"<think>{index}</think><answer>{name}</answer><analysis>a</analysis><confidence>0.5</confidence>"
    tokens = [
        {"token": part, "logprob": -0.5, "bytes": list(part.encode())} for part in re.split(r"(?<= )", text)
    ]
    message = {"role": "assistant", "content": text}
    return {"index": index, "finish_reason": "stop", "message": message, "logprobs": {"content": tokens}}


def answer(asked: Asked) -> dict[str, Any]:
    """The JSON of an honest reply."""
    choices = [choice(asked, index) for index in range(asked.body.get("n", 1))]
    return {
        "id": "x",
        "choices": choices,
        "usage": {"prompt_tokens": 7, "completion_tokens": 5 * len(choices)},
    }


def http(body: bytes, status: str = "200 OK", **headers: str) -> bytes:
    """A whole reply. Underscores in the names of headers are hyphens."""
    fields = {"Content-Type": "application/json", "Content-Length": str(len(body))}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body


def honest(asked: Asked) -> Iterator[bytes]:
    """As it should be."""
    yield http(json.dumps(answer(asked)).encode())


class HostileServer:
    """See the head of this file. ``asked`` is everything that arrived."""

    def __init__(self, behave: Behaviour) -> None:
        self.behave = behave
        self.asked: list[Asked] = []
        self._times: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()

    def __enter__(self) -> Self:
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._open.add(connection)
        try:
            with connection, connection.makefile("rb") as arriving, contextlib.suppress(OSError):
                while asked := self._read(arriving):
                    for piece in self.behave(asked):
                        if piece == CLOSE:
                            return
                        connection.sendall(piece)
        finally:
            with self._lock:
                self._open.discard(connection)

    def _read(self, arriving: Any) -> Asked | None:
        line = arriving.readline()
        if not line.strip():
            return None
        headers: dict[str, str] = {}
        while field := arriving.readline().strip():
            name, _, value = field.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        raw = arriving.read(int(headers.get("content-length", 0)))
        path = line.split()[1].decode()
        with self._lock:
            seen = f"{path} {raw!r}"
            asked = Asked(path, json.loads(raw or b"{}"), self._times[seen], headers.get("authorization", ""))
            self._times[seen] += 1
            self.asked.append(asked)
        return asked
