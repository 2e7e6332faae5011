"""HTTP for `rlcr view`: three addresses, to be read, for a browser on this machine.

    /          the page
    /state     how far the runs are
    /answers   a page of answers (:mod:`~rlcr.report.live.query` has its fields)

Nothing else is there: no address names a file. It listens on 127.0.0.1 alone. A web site that the reader
visits elsewhere can send requests to this address too, so that only requests for a name of this machine are
answered (the ``Host`` that a site cannot choose, whatever its own name resolves to), and no other origin may
read or embed a reply.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from rlcr.errors import RlcrError
from rlcr.report.live.query import BadQuery, read_query
from rlcr.report.live.watching import Watched
from rlcr.report.page import policy

log = logging.getLogger(__name__)

HOST = "127.0.0.1"
#: Names of this machine. The port may be another one: a tunnel from elsewhere has its own.
_NAMES = ("127.0.0.1", "localhost", "[::1]")
_IDLE_SECONDS = 30


class _Handler(BaseHTTPRequestHandler):
    """One connection of a browser."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "rlcr", ""
    timeout = _IDLE_SECONDS
    server: ViewServer  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        """Answer a request."""
        name, _, port = self.headers.get("Host", "").rpartition(":")
        if (name if port.isdecimal() else self.headers.get("Host", "")) not in _NAMES:
            self._text(HTTPStatus.MISDIRECTED_REQUEST, "not a name of this machine")
            return
        try:
            address = urlsplit(self.path)
            known = {"/": self._page, "/state": self._state, "/answers": self._answers}
            if address.path in known:
                known[address.path](address.query)
            else:
                self._text(HTTPStatus.NOT_FOUND, "there is nothing here")
        except (BadQuery, ValueError) as error:  # urllib says ValueError of an address that is none
            self._text(HTTPStatus.BAD_REQUEST, str(error))

    do_HEAD = do_GET

    def _page(self, _: str) -> None:
        self._reply(HTTPStatus.OK, "text/html", self.server.watched.page.encode())

    def _state(self, _: str) -> None:
        self._json(self.server.watched.state())

    def _answers(self, query: str) -> None:
        fields = parse_qs(query, keep_blank_values=True, strict_parsing=bool(query), max_num_fields=32)
        self._json(self.server.watched.answers.page(read_query(fields)))

    def _json(self, value: Any) -> None:
        self._reply(HTTPStatus.OK, "application/json", json.dumps(value, allow_nan=False).encode())

    def _text(self, status: HTTPStatus, text: str) -> None:
        self._reply(status, "text/plain", f"{text}\n".encode("utf-8", "replace"))

    def _reply(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: who looks at what is nobody's business."""


class ViewServer(ThreadingHTTPServer):
    """Serves runs that are watched, one thread for each connection."""

    daemon_threads = True

    def __init__(self, watched: Watched, port: int) -> None:
        self.watched = watched
        self.headers = {
            "Content-Security-Policy": f"{policy(live=True)}; frame-ancestors 'none'",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cache-Control": "no-store",
        }
        super().__init__((HOST, port), _Handler)

    @property
    def url(self) -> str:
        """Where it can be met."""
        return f"http://{HOST}:{self.server_address[1]}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away is no error; anything else is one, and is shown."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            log.exception("a request failed")


def serve(watched: Watched, port: int, *, ready: Callable[[str], None]) -> None:
    """Serve until Ctrl-C or SIGTERM. ``ready`` is called with the address."""
    try:
        server = ViewServer(watched, port)
    except OSError as error:
        raise RlcrError(
            f"cannot listen on {HOST}, port {port}: {error.strerror or error}; --port 0 takes a free one"
        ) from None
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    with server:
        watched.start()
        try:
            ready(server.url)
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            pass
        finally:
            watched.stop()
            signal.signal(signal.SIGTERM, before)
