"""HTTP as uvicorn speaks it, but for clients that stop half-way.

uvicorn waits for ever for the head of a request, and for a client to read its reply. Here a client has a
limited time for each: a head that is begun and not finished is refused (408), a connection on which nothing
comes is closed, and one whose reply is not read is cut, together with the reply that it keeps in memory.

Only h11 bounds the size of a head, so the other parsers of uvicorn are not used, even where they are
installed.
"""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

#: The largest head of a request, in bytes.
HEAD = 16 << 10


class BoundedProtocol(H11Protocol):
    """One connection."""

    #: How long a client may take to send a head, and how long to read a reply.
    seconds: float

    _head_timer: asyncio.TimerHandle | None = None
    _reading_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """A client is there: its first request is due."""
        super().connection_made(transport)
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        """More of a request, or the beginning of the next one."""
        super().data_received(data)
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._stop_timers()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client does not read."""
        super().pause_writing()
        self._reading_timer = self.loop.call_later(self.seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has read."""
        super().resume_writing()
        if self._reading_timer:
            self._reading_timer.cancel()

    def send_400_response(self, msg: str) -> None:
        """What uvicorn says to bytes that are no request, in the way of all our errors."""
        self._refuse(400, f"not an HTTP request, or one with a head of more than {HEAD:,} bytes")

    def _watch_head(self) -> None:
        """Limit the time until a head is there. Between two requests uvicorn has a limit of its own."""
        if self.conn.their_state is not h11.IDLE:
            if self._head_timer:
                self._head_timer.cancel()
                self._head_timer = None
        elif not self._head_timer and not self.timeout_keep_alive_task:
            self._head_timer = self.loop.call_later(self.seconds, self._head_is_late)

    def _head_is_late(self) -> None:
        begun, _ = self.conn.trailing_data
        if begun:
            self._refuse(408, f"the head of the request did not arrive within {self.seconds:g} s")
        else:
            self.transport.close()

    def _refuse(self, status: int, message: str) -> None:
        body = json.dumps({"error": message}).encode()
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def _stop_timers(self) -> None:
        for timer in (self._head_timer, self._reading_timer):
            if timer:
                timer.cancel()


def bounded_protocol(limit: float) -> type[BoundedProtocol]:
    """The protocol with a limit in seconds; uvicorn wants a class."""

    class Bounded(BoundedProtocol):
        seconds = limit

    return Bounded
