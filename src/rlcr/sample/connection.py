"""The connection to a server: its address, the key, calls, what failures mean, and the one retry layer."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from rlcr.errors import RlcrError

log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal
    from openai import APIStatusError

T = TypeVar("T")
MOST_DOUBLINGS = 6  # a minute, where the first wait is up to a second
LONGEST_WAIT = 300.0  # even where the server's Retry-After says more
TRANSIENT = {408, 409, 425, 429, *range(500, 600)} - {501}  # 501 means that it will never do that
NO_KEY = "none"  # sent to a server that needs no key: the client insists on one


class RefusedError(Exception):
    """The server understood and said no: asking the same again is of no use."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(f"HTTP {status}: {said}" if said else f"HTTP {status}")
        self.status = status
        self.said = said


class PassingError(Exception):
    """A failure that may pass. One that does not may be the fault of the request, if it is ``own``."""

    def __init__(
        self, reason: str, *, wait: float = 0.0, unreachable: bool = False, own: bool = False
    ) -> None:
        super().__init__(reason)
        self.wait = wait  # seconds, as the server asked
        self.unreachable = unreachable
        self.own = own


class GaveUpError(RlcrError):
    """A call that failed as often as it may, perhaps for what is asked: ``reason`` does not name it."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Server:
    """Where to connect, and how patiently."""

    url: str
    timeout: float = 600.0
    attempts: int = 8
    backoff: float = 1.0

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.timeout <= 0 or self.backoff < 0:
            raise RlcrError("attempts must be at least 1, timeout positive and backoff not negative")
        try:
            parts = urlsplit(self.url)
            good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # a port that is no number
            parts, good = urlsplit(""), False
        if "@" in parts.netloc or parts.query:  # not repeated here: it may hold a secret
            raise RlcrError("the base URL must hold no password and no query: a key goes into RLCR_API_KEY")
        if not good:
            raise RlcrError(f"{self.url!r} is no base URL: it should look like http://localhost:8000/v1")


class Connection:
    """Calls to a server, in the event loop of :func:`connect`."""

    def __init__(self, server: Server) -> None:
        import_openai()
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient, Timeout

        # A proxy named in the environment cannot know what "localhost" is for us.
        local = urlsplit(server.url).hostname in ("localhost", "127.0.0.1", "::1")
        timeout = Timeout(server.timeout, connect=min(10.0, server.timeout))
        self._client = AsyncOpenAI(
            base_url=server.url,
            api_key=_api_key(),
            max_retries=0,
            timeout=timeout,
            http_client=DefaultAsyncHttpxClient(trust_env=not local, timeout=timeout),
        )
        self._server = server
        self._heard = False  # whether the server has ever answered

    async def post(self, path: str, body: dict[str, Any]) -> object:
        """The JSON of the reply. Raises `RefusedError` or `PassingError`."""
        return await self._call(lambda: self._client.post(path, body=body, cast_to=object))

    async def get(self, path: str) -> object:
        """The JSON of the reply, as for :meth:`post`."""
        return await self._call(lambda: self._client.get(path, cast_to=object))

    async def close(self) -> None:
        """Close the connection."""
        await self._client.close()

    async def retrying(self, what: str, call: Callable[[], Awaitable[T]]) -> T:
        """Call until it succeeds, waiting longer each time: exponential backoff with full jitter."""
        server, failures = self._server, 0
        while True:
            try:
                return await call()
            except PassingError as error:
                problem = error
            failures += 1
            if problem.unreachable and not self._heard and failures >= min(3, server.attempts):
                # An address that has never answered is probably wrong.
                raise RlcrError(
                    f"cannot reach {server.url} ({problem}): is it running, and is the URL right?"
                )
            if failures >= server.attempts:
                reason = f"failed {failures} times, the last time with: {problem}"
                message = f"{what}: {server.url} {reason}"
                raise GaveUpError(message, reason) if problem.own else RlcrError(message)
            if failures > 1:  # once is nothing; more, and people wonder why nothing moves
                log.warning(
                    "%s: %s; trying again (%d of %d)", server.url, problem, failures + 1, server.attempts
                )
            longest = server.backoff * 2 ** min(failures - 1, MOST_DOUBLINGS)
            await asyncio.sleep(min(problem.wait + random.uniform(0, longest), LONGEST_WAIT))

    async def _call(self, send: Callable[[], Awaitable[object]]) -> object:
        import openai

        try:
            # The client's own timeout is for each read: a server that trickles would never meet it.
            async with asyncio.timeout(self._server.timeout):
                reply = await send()
            self._heard = True
            return json.loads(reply) if isinstance(reply, str) else reply
        except (TimeoutError, openai.APITimeoutError):
            raise PassingError(f"no answer within {self._server.timeout:g} s", own=True) from None
        except openai.APIConnectionError as error:
            cause = error.__cause__ or error
            reason = self._without_key(str(cause)) or type(cause).__name__
            # By name: the client has changed its HTTP library before.
            raise PassingError(reason, unreachable=type(cause).__name__ == "ConnectError") from None
        except openai.APIStatusError as error:
            self._heard = True
            refusal = RefusedError(error.status_code, self._without_key(_said(error)))
            if error.status_code in TRANSIENT:
                # Too many requests, or a gateway: that is the server. A 500 may be this prompt.
                own = error.status_code == 500
                raise PassingError(str(refusal), wait=_retry_after(error), own=own) from None
            raise refusal from None
        except ValueError:  # what decoding of JSON and of UTF-8 raise
            raise PassingError("the reply is not whole JSON", own=True) from None

    def _without_key(self, text: str) -> str:
        """Some servers repeat the key that they refuse."""
        key = self._client.api_key
        return text if key == NO_KEY else text.replace(key, "[API key]")


@contextmanager
def connect(server: Server) -> Iterator[tuple[BlockingPortal, Connection]]:
    """A connection, and the event loop for its calls, which runs in a thread of its own.

    In a thread, because the caller may have an event loop already (a notebook), or be slow to come back.
    """
    connection = Connection(server)
    from anyio.from_thread import start_blocking_portal

    with start_blocking_portal(name="rlcr-endpoint") as loop:
        try:
            yield loop, connection
        finally:
            loop.call(connection.close)


def import_openai() -> None:
    """Fail early and clearly where the client is not installed."""
    try:
        import openai  # noqa: F401
    except ImportError:
        raise RlcrError('sampling from a server needs openai: pip install "rlcr[endpoint]"') from None


def _api_key() -> str:
    key = (os.environ.get("RLCR_API_KEY") or os.environ.get("OPENAI_API_KEY") or "").strip()
    if not (key.isascii() and key.isprintable()):
        # Found here, because the HTTP library would print the key.
        raise RlcrError("the API key in RLCR_API_KEY or OPENAI_API_KEY holds characters that no key has")
    return key or NO_KEY


def _said(error: APIStatusError) -> str:
    """What the server said, on one line. Servers wrap it in different ways."""
    said: Any = error.body
    for name in ("error", "message", "detail"):
        if isinstance(said, dict) and said.get(name):
            said = said[name]
    if not isinstance(said, str):
        said = json.dumps(said, ensure_ascii=False) if said else error.response.text
    line = " ".join(said.split())
    return line if len(line) <= 300 else line[:299] + "…"


def _retry_after(error: APIStatusError) -> float:
    """The seconds that the Retry-After header asks for, which may be a number or a date. 0 without one."""
    value = error.response.headers.get("retry-after", "")
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
        except (TypeError, ValueError):
            return 0.0
    return seconds if 0 < seconds < float("inf") else 0.0
