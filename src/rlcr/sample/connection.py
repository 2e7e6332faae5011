"""The connection to a server: its address, the key, calls, what failures mean, and the one retry layer.

Nothing that a server sends can take more than its share: a reply is read up to a limit, counted after
decompression, and within the time for a call. A redirect is refused, since it would carry prompts and the key
to an address that the user did not name.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from rlcr.errors import RlcrError
from rlcr.terminal import one_line

log = logging.getLogger(__name__)

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")
MOST_DOUBLINGS = 6  # a minute, where the first wait is up to a second
LONGEST_WAIT = 300.0  # even where the server's Retry-After says more
LONG_WAIT = 15.0  # people wonder why nothing moves: such a wait is said
TRANSIENT = {408, 409, 425, 429, *range(500, 600)} - {501}  # 501 means that it will never do that
_LONG_KEY = 12  # such a one is in a reply only if it was copied there; "EMPTY" may be the answer
#: What is asked of a server.
PATHS = CHAT, TEXT, MODELS = "/chat/completions", "/completions", "/models"
#: Bytes of a list of models, and of what comes with an error: more of the latter is not read.
_LIST_LIMIT, _ERROR_LIMIT = 1 << 23, 1 << 16


class RefusedError(Exception):
    """The server understood and said no: asking the same again is of no use."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(f"HTTP {status}: {said}" if said else f"HTTP {status}")
        self.status = status
        self.said = said


class PassingError(Exception):
    """A failure that may pass. One that does not may be the fault of the request, if it is ``own``.

    Where it is ``final``, the same would come again, and be paid for again.
    """

    def __init__(
        self,
        reason: str,
        *,
        wait: float = 0.0,
        unreachable: bool = False,
        own: bool = False,
        final: bool = False,
    ) -> None:
        super().__init__(reason)
        self.wait = wait  # seconds, as the server asked
        self.unreachable = unreachable
        self.own = own
        self.final = final


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
    longest_wait: float = LONGEST_WAIT

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
            raise _no_base_url(self.url)


def _no_base_url(url: str) -> RlcrError:
    return RlcrError(f"{url!r} is no base URL: it should look like http://localhost:8000/v1")


class Connection:
    """Calls to a server, in the event loop of :func:`connect`."""

    def __init__(self, server: Server) -> None:
        import_http()
        import httpx2

        # A proxy named in the environment cannot know what "localhost" is for us.
        address = urlsplit(server.url)
        local = address.hostname in ("localhost", "127.0.0.1", "::1")
        self._key = _api_key()
        self._client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(server.timeout, connect=min(10.0, server.timeout)),
            # How many there are is for the caller to bound.
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None),
            follow_redirects=False,
            trust_env=not local,
            # Where nothing will be encrypted, reading all certificates of the system is wasted.
            verify=not local or address.scheme == "https",
            # None are kept: there could be ever more of them.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        )
        self._headers = {
            "Accept": "application/json",
            "Accept-Encoding": "gzip, deflate",
            "User-Agent": f"rlcr/{version('rlcr')}",
            **({"Authorization": f"Bearer {self._key}"} if self._key else {}),
        }
        self._server = server
        try:
            self._urls = {path: httpx2.URL(server.url + path) for path in PATHS}
        except (httpx2.InvalidURL, ValueError):
            raise _no_base_url(server.url) from None
        self._heard = False  # whether the server has ever answered
        self._useful = False  # and whether an answer was what was asked for
        self._quiet_until = 0.0  # a long wait that was announced is not announced by every request

    async def post(self, path: str, body: dict[str, Any], limit: int) -> object:
        """The JSON of the reply, of at most ``limit`` bytes. Raises `RefusedError` or `PassingError`."""
        content = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        return await self._call("POST", path, content, limit)

    async def get(self, path: str) -> object:
        """The JSON of the reply, as for :meth:`post`."""
        return await self._call("GET", path, None, _LIST_LIMIT)

    async def close(self) -> None:
        """Close the connection."""
        await self._client.aclose()

    async def retrying(self, what: str, call: Callable[[], Awaitable[T]]) -> T:
        """Call until it succeeds, waiting longer each time: exponential backoff with full jitter."""
        server, failures = self._server, 0
        while True:
            try:
                found = await call()
                self._useful = True
                return found
            except PassingError as error:
                problem = error
            failures += 1
            if problem.unreachable and not self._heard and failures >= min(3, server.attempts):
                # An address that has never answered is probably wrong.
                raise RlcrError(
                    f"cannot reach {server.url} ({problem}): is it running, and is the URL right?"
                )
            if problem.final or failures >= server.attempts:
                often = f"failed {failures} times, the last time with: {problem}"
                reason = f"failed: {problem}" if problem.final else often
                doubt = problem.own and not problem.final and not self._useful
                hint = "; is the URL right? It usually ends in /v1" if doubt else ""
                message = f"{what}: {server.url} {reason}{hint}"
                raise GaveUpError(message, reason) if problem.own else RlcrError(message)
            longest = server.backoff * 2 ** min(failures - 1, MOST_DOUBLINGS)
            wait = min(problem.wait + random.uniform(0, longest), server.longest_wait)
            self._announce(problem, failures, wait)
            await asyncio.sleep(wait)

    def _announce(self, problem: PassingError, failures: int, wait: float) -> None:
        """Say why nothing moves: what fails repeatedly, and what makes us wait long."""
        server, now = self._server, time.monotonic()
        if problem.wait >= LONG_WAIT:
            if now >= self._quiet_until:
                self._quiet_until = now + wait
                asked = f"{server.url}: {problem}; it asks to wait {problem.wait:,.0f} s"
                log.warning("%s; trying again in %.0f s", asked, wait)
        elif failures > 1:  # once is nothing
            log.warning("%s: %s; trying again (%d of %d)", server.url, problem, failures + 1, server.attempts)

    async def _call(self, method: str, path: str, content: bytes | None, limit: int) -> object:
        import httpx2

        try:
            # The client's own timeout is for each read: a server that trickles would never meet it.
            async with asyncio.timeout(self._server.timeout):
                status, headers, data = await self._exchange(method, path, content, limit)
        except (TimeoutError, httpx2.TimeoutException):
            raise PassingError(f"no answer within {self._server.timeout:g} s", own=True) from None
        except httpx2.DecodingError:
            raise PassingError("the reply cannot be decompressed", own=True) from None
        except httpx2.HTTPError as error:
            reason = self._shown(str(error)) or type(error).__name__
            raise PassingError(reason, unreachable=isinstance(error, httpx2.ConnectError)) from None
        self._heard = True
        if 200 <= status < 300:
            if len(self._key) >= _LONG_KEY and self._key.encode() in data:
                raise PassingError("the reply repeats the API key", own=True, final=True)
            return _json(data)
        if 300 <= status < 400:
            raise RefusedError(status, self._redirected(headers.get("location", "")))
        refusal = RefusedError(status, self._shown(_said(data)))
        if status in TRANSIENT:
            # Too many requests, or a gateway: that is the server. A 500 may be this prompt.
            raise PassingError(
                str(refusal), wait=_retry_after(headers.get("retry-after", "")), own=status == 500
            )
        raise refusal

    async def _exchange(
        self, method: str, path: str, content: bytes | None, limit: int
    ) -> tuple[int, httpx2.Headers, bytes]:
        """The status, the headers and the decompressed body of a reply; `PassingError` if it is too long."""
        import httpx2

        headers = self._headers if content is None else {**self._headers, "Content-Type": "application/json"}
        request = httpx2.Request(method, self._urls[path], headers=headers, content=content)
        response = await self._client.send(request, stream=True)
        try:
            good = 200 <= response.status_code < 300
            most = limit if good else _ERROR_LIMIT
            parts: list[bytes] = []
            size = 0
            async for part in response.aiter_bytes():
                parts.append(part)
                size += len(part)
                if size > most and good:
                    bound = f"{most / 2**20:.3g} MB, more than was asked for"
                    raise PassingError(f"the reply is longer than {bound}", own=True)
                if size > most:
                    break
            _drop_if_more_came(response)
        finally:
            await response.aclose()
        return response.status_code, response.headers, b"".join(parts)

    def _redirected(self, location: str) -> str:
        """Where a redirect leads to, without what may be a secret in it."""
        try:
            parts = urlsplit(location)
            port = f":{parts.port}" if parts.port else ""
            place = f"{parts.scheme}://{parts.hostname}{port}{parts.path}" if parts.hostname else ""
        except ValueError:
            place = ""
        place = self._shown((place or location.partition("?")[0])[:200])
        where = f" to {place}" if place else ""
        return f"it redirects{where}, and no redirect is followed: give the address that answers itself"

    def _shown(self, text: str) -> str:
        """On one line, and without the key: some servers repeat the one that they refuse."""
        return one_line(text.replace(self._key, "[API key]") if self._key else text)


def _drop_if_more_came(response: httpx2.Response) -> None:
    """Give up a connection on which more came than the reply: the next request would take it for its own.

    Nothing may be awaited before this once the reply is read: the connection is free for others by then.
    """
    with suppress(AttributeError):  # how the HTTP library keeps what it has read is its own business
        stream: Any = response.stream
        while not hasattr(stream, "_connection"):
            stream = getattr(stream, "_httpcore_stream", None) or getattr(stream, "_stream")  # noqa: B009
        if stream._connection._h11_state.trailing_data[0]:
            stream._connection._expire_at = 0.0


def _json(data: bytes) -> object:
    try:
        return json.loads(data)
    except ValueError:  # what decoding of JSON and of UTF-8 raise
        raise PassingError("the reply is not whole JSON", own=True) from None
    except RecursionError:
        raise PassingError("the reply is nested too deeply", own=True) from None


class Loop:
    """An event loop in a thread of its own: the caller may have one already, or be slow to come back."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rlcr-endpoint", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The value of a coroutine that runs in the loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def soon(self, call: Callable[[], object]) -> None:
        """Call a function in the loop."""
        self._loop.call_soon_threadsafe(call)

    def close(self, last: Coroutine[Any, Any, None]) -> None:
        """Cancel what is under way, run one more coroutine, and end the thread."""

        async def finish() -> None:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await last
            await self._loop.shutdown_asyncgens()

        try:
            self.run(finish())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


@contextmanager
def connect(server: Server) -> Iterator[tuple[Loop, Connection]]:
    """A connection, and the event loop for its calls."""
    connection = Connection(server)
    loop = Loop()
    try:
        yield loop, connection
    finally:
        loop.close(connection.close())


def import_http() -> None:
    """Fail early and clearly where the HTTP library is not installed."""
    try:
        import httpx2  # noqa: F401
    except ImportError:
        raise RlcrError('sampling from a server needs httpx2: pip install "rlcr[endpoint]"') from None


def _api_key() -> str:
    key = (os.environ.get("RLCR_API_KEY") or os.environ.get("OPENAI_API_KEY") or "").strip()
    if not (key.isascii() and key.isprintable()):
        # Found here, because the HTTP library would print the key.
        raise RlcrError("the API key in RLCR_API_KEY or OPENAI_API_KEY holds characters that no key has")
    return key


def _said(data: bytes) -> str:
    """What the server said, on one line. Servers wrap it in different ways."""
    text = data.decode("utf-8", "replace")
    said: Any = text
    with suppress(ValueError, RecursionError):
        said = json.loads(text)
    for name in ("error", "message", "detail"):
        if isinstance(said, dict) and said.get(name):
            said = said[name]
    line = " ".join((said if isinstance(said, str) else text).split())
    return line if len(line) <= 300 else line[:299] + "…"


def _retry_after(value: str) -> float:
    """The seconds that the Retry-After header asks for, which may be a number or a date. 0 without one."""
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
        except (TypeError, ValueError, OverflowError):
            return 0.0
    return seconds if 0 < seconds < float("inf") else 0.0
