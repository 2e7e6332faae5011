"""`rlcr serve-reward`: rewards over HTTP, for engines that post completions (docs/serving.md).

    POST /…        a body of any of the :mod:`~rlcr.adapters.shapes`, on any path
    GET  /health   what is served
    GET  /metrics  counts, for Prometheus

The event loop only moves bytes. JSON is read, completions are judged and replies are written in a few
threads, which share the processes that compare formulas.

What a client cannot do to the others: send a body that is too large (413) or too slowly (408), wait for ever
(504), or fill the memory: requests beyond those that may be under way, or whose bodies would be too much
together, are told to come back (503, with Retry-After). A job that has begun keeps its place until it ends,
also where nobody waits for it any more. Heads, and replies that nobody reads, are bounded by
:mod:`~rlcr.adapters.service_protocol`.

Errors are ``{"error": "one line"}``. A token, where there is one, comes as ``Authorization: Bearer …`` or,
from engines that send no headers, as ``?token=…`` in the address; nothing writes addresses down.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rlcr.adapters.core import Rewarded, Row, Scorer
from rlcr.adapters.service_metrics import ServiceMetrics
from rlcr.adapters.shapes import BadRequest, answer, shape_of
from rlcr.errors import RlcrError, named, need
from rlcr.problem import Problem
from rlcr.verify import get_plain_verifier, verify

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

log = logging.getLogger(__name__)

TOKEN = "RLCR_SERVE_TOKEN"
_INSTALL = 'pip install "rlcr[serve]"'
# So much of a body that is too large is read and dropped: a client that is still sending reads no reply.
_DRAINED = 16
# All bodies together, in bodies of the largest size.
_HELD = 8
_SHUTDOWN_SECONDS = 30
_KEEP_ALIVE_SECONDS = 75
_BACKLOG = 2048


@dataclass(frozen=True)
class Limits:
    """What one client may ask of the service.

    ``body`` is in bytes. ``seconds`` are for the reply, from when the body is there. ``client_seconds`` are
    for what the client does: sending a head, sending a body, reading the reply. ``waiting`` is how many
    requests may be under way.
    """

    body: int = 16 << 20
    seconds: float = 120.0
    client_seconds: float = 30.0
    waiting: int = 1024


@dataclass(frozen=True)
class _Served(Scorer):
    """A scorer that counts."""

    noted: Callable[[Sequence[Rewarded]], None] = lambda _: None

    def score(self, rows: Sequence[Row]) -> list[Rewarded]:
        found = super().score(rows)
        self.noted(found)
        return found


class _Refused(Exception):
    """A reply that is an error."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers


@dataclass
class _Held:
    """What is under way: requests, and the bytes of their bodies. Jobs end in threads, hence the lock."""

    limits: Limits
    requests: int = 0
    bytes: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def enter(self) -> None:
        with self.lock:
            if self.requests >= self.limits.waiting:
                raise _busy(f"{self.requests} requests are under way")
            self.requests += 1

    def take(self, size: int) -> None:
        with self.lock:
            if self.bytes + size > _HELD * self.limits.body:
                raise _busy(f"{self.bytes >> 20} MB of requests are under way")
            self.bytes += size

    def leave(self, size: int) -> None:
        with self.lock:
            self.requests -= 1
            self.bytes -= size


def _busy(why: str) -> _Refused:
    return _Refused(503, f"busy: {why}; try again", **{"Retry-After": "1"})


class RewardService:
    """A scorer behind HTTP. ``scorer.unscorable`` must be a number: most engines need one."""

    def __init__(self, scorer: Scorer, *, limits: Limits | None = None, token: str = "") -> None:
        need("a reward service", "starlette", "uvicorn", install=_INSTALL)
        if scorer.unscorable == "exclude":
            raise RlcrError("a reward service needs a number for what is unscorable, such as 0")
        get_plain_verifier(scorer.verifier, "for a service")
        self.limits = limits or Limits()
        self.metrics = ServiceMetrics()
        self.has_token = bool(token)
        self._scorer = _Served(**vars(scorer), noted=self.metrics.scored)
        self._token = token
        self._held = _Held(self.limits)
        # Comparisons wait for their processes; the rest is short.
        self._threads = ThreadPoolExecutor(min(32, 2 * (os.cpu_count() or 1) + 2), "rlcr-serve")

    def check(self) -> None:
        """Verify something, so that what is missing is found now and the processes are there."""
        verify([Problem("check", "", ("1/2",), self._scorer.verifier)], ["0.5"])

    def app(self) -> Starlette:
        """The ASGI application."""
        from starlette.applications import Starlette
        from starlette.exceptions import HTTPException
        from starlette.routing import Route

        return Starlette(
            routes=[
                Route("/health", self._health),
                Route("/metrics", self._metrics),
                Route("/seed_session", self._seed_session, methods=["POST"]),
                Route("/{path:path}", self._nothing, methods=["GET"]),
                Route("/{path:path}", self._post, methods=["POST"]),
            ],
            exception_handlers={HTTPException: _refused},
        )

    def close(self) -> None:
        """Wait for the jobs that have begun; drop the others."""
        self._threads.shutdown(cancel_futures=True)

    async def _health(self, _: Request) -> Response:
        served = {"status": "ok", "reward": self._scorer.reward, "verifier": self._scorer.verifier}
        return _json(200, {**served, "waiting": self._held.requests})

    async def _nothing(self, request: Request) -> Response:
        """A path that cannot be read; all can be posted to. It is not repeated: it may hold a token."""
        return _json(404, {"error": "nothing to GET here: there are /health and /metrics; rows are posted"})

    async def _metrics(self, request: Request) -> Response:
        from starlette.responses import PlainTextResponse

        if refusal := self._unauthorised(request):
            return refusal
        return PlainTextResponse(self.metrics.text(waiting=self._held.requests, held=self._held.bytes))

    async def _seed_session(self, request: Request) -> Response:
        """NeMo-Gym announces each episode. There is nothing to remember."""
        return self._unauthorised(request) or _json(200, {})

    async def _post(self, request: Request) -> Response:
        from starlette.requests import ClientDisconnect

        started, seen = time.perf_counter(), _Seen()
        try:
            response = self._unauthorised(request) or await self._answered(request, seen)
        except _Refused as refused:
            response = _json(refused.status, {"error": str(refused)}, refused.headers)
        except ClientDisconnect:
            response = _json(499, {"error": "the client is gone"})  # for the count: nobody reads it
        self.metrics.replied(seen.shape, response.status_code, time.perf_counter() - started)
        return response

    def _unauthorised(self, request: Request) -> Response | None:
        if not self._token:
            return None
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        given = given if scheme.lower() == "bearer" else request.query_params.get("token", "")
        if hmac.compare_digest(given.strip().encode(), self._token.encode()):
            return None
        close = {"Connection": "close", "WWW-Authenticate": "Bearer"}
        return _json(401, {"error": "wrong or missing token: Authorization: Bearer, or ?token="}, close)

    async def _answered(self, request: Request, seen: _Seen) -> Response:
        """The reply to a request, whose place is kept until its job is over."""
        self._held.enter()
        try:
            raw = await self._body(request, seen)
            job = self._threads.submit(self._work, raw, seen)
        except BaseException:
            self._held.leave(seen.held)
            raise
        job.add_done_callback(lambda _: self._held.leave(seen.held))
        return await self._reply(job)

    async def _reply(self, job: Future[tuple[int, bytes]]) -> Response:
        try:
            async with asyncio.timeout(self.limits.seconds):
                status, content = await asyncio.wrap_future(job)
        except TimeoutError:
            late = f"no reply within {self.limits.seconds:g} s; send fewer completions at once"
            raise _Refused(504, late) from None
        return _response(status, content)

    async def _body(self, request: Request, seen: _Seen) -> bytes:
        limit, received, dropped = self.limits.body, bytearray(), 0
        stated = request.headers.get("content-length", "")
        too_large = stated.isdigit() and int(stated) > limit
        try:
            async with asyncio.timeout(self.limits.client_seconds):
                async for chunk in request.stream():
                    if too_large or len(received) + len(chunk) > limit:
                        too_large = True
                        dropped += len(chunk)
                        if dropped > _DRAINED * limit:
                            break
                        continue
                    self._held.take(len(chunk))
                    seen.held += len(chunk)
                    received += chunk
        except TimeoutError:
            late = f"the body did not arrive within {self.limits.client_seconds:g} s"
            raise _Refused(408, late, Connection="close") from None
        if too_large:
            large = f"the body is larger than {limit:,} bytes; send fewer completions at once"
            raise _Refused(413, large, Connection="close")
        return bytes(received)

    def _work(self, raw: bytes, seen: _Seen) -> tuple[int, bytes]:
        """From the bytes of a body to those of its reply, in a thread."""
        try:
            body = _read(raw)
            seen.shape = shape_of(body)
            return 200, _written(answer(body, self._scorer))
        except (BadRequest, RlcrError) as error:  # our own settings were checked before: a row's is wrong
            return 400, _written({"error": str(error)})
        except Exception as error:  # a client must hear of it, and the next request be served
            log.exception("a request failed")
            return 500, _written({"error": named(error)})


@dataclass
class _Seen:
    """What is known of a request so far."""

    shape: str = "unknown"
    held: int = 0


def _read(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except json.JSONDecodeError as error:
        raise BadRequest(f"not JSON: {error.msg} at character {error.pos}") from None
    except UnicodeDecodeError:
        raise BadRequest("not JSON: not UTF-8 text") from None
    except RecursionError:
        raise BadRequest("not JSON we can read: nested too deeply") from None
    except ValueError as error:  # a number of more digits than Python reads
        raise BadRequest(f"not JSON we can read: {error}") from None


def _written(value: object) -> bytes:
    return json.dumps(value).encode()


async def _refused(request: Request, error: Exception) -> Response:
    """What the framework refuses by itself, in the way of all our errors."""
    status, headers = getattr(error, "status_code", 500), getattr(error, "headers", None)
    return _json(status, {"error": f"{getattr(error, 'detail', error)}: {request.method}"}, headers)


def _json(status: int, value: object, headers: dict[str, str] | None = None) -> Response:
    return _response(status, _written(value), headers)


def _response(status: int, content: bytes, headers: dict[str, str] | None = None) -> Response:
    from starlette.responses import Response

    return Response(content, status, headers, "application/json")


def serve(service: RewardService, host: str, port: int, *, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C, then finish what has begun. ``ready`` is called with the address."""
    import uvicorn

    from rlcr.adapters.service_protocol import HEAD, bounded_protocol

    if not host:
        raise RlcrError("the host is empty: give an address of this machine, such as 127.0.0.1")
    if not service.has_token and not is_loopback(host):
        raise RlcrError(
            f"{host} can be reached from other machines: set {TOKEN} to a secret, or use 127.0.0.1"
        )
    service.check()
    bound = _bind(host, port)
    name = f"[{host}]" if ":" in host else host
    config = uvicorn.Config(
        service.app(),
        http=bounded_protocol(service.limits.client_seconds),
        h11_max_incomplete_event_size=HEAD,
        ws="none",
        log_config=None,  # through our own handlers, which hide secrets and show control characters
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
    # The server raises the signal that ended it again, when all is done: that must not end us half-way.
    before = {number: signal.signal(number, _ignore) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        ready(f"http://{name}:{bound.getsockname()[1]}")
        uvicorn.Server(config).run(sockets=[bound])
    finally:
        bound.close()
        service.close()
        for number, handler in before.items():
            signal.signal(number, handler)


def _ignore(*_: object) -> None:
    pass


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(_BACKLOG)
    except OSError as error:
        raise RlcrError(f"cannot listen on {host}, port {port}: {error.strerror or error}") from None
    return bound
