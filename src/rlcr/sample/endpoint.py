"""Sampling from any OpenAI-compatible server: vLLM, SGLang, llama.cpp, transformers serve, a hosted API.

What may pass (429, 5xx, a lost connection, no answer in time, a broken reply) is tried again with exponential
backoff and full jitter, after the server's Retry-After where it gives one. What may be the fault of a single
request (its content or length is refused, or it still gets a 500 or no answer after all attempts) is reported
by `Refused` once the others are answered. Any other refusal ends the run at once with a line that says what
to do. What a server does not know (logprobs, seeds, several samples in one call, …) is left out from then on,
and samples that it did not return are asked for again.

The API key comes from the environment only: ``RLCR_API_KEY``, else ``OPENAI_API_KEY``. It is read when
sampling begins and written nowhere. A server of your own needs none. It is sent to whichever server is named:
`opening` makes sure that the user named it, not a file.

Continuing a response (``Request.prefix``) is exact in completion mode, where we send text and the server
continues it; that needs the model's ``tokenizer`` for its chat template. In chat mode the response is sent
as the beginning of the assistant's message: vLLM, SGLang and llama.cpp continue it, others refuse, and a
server that neither refuses nor continues cannot be told from one that does. ``Request.prefix_ids`` is not
used: the server tokenises the text again.

`wire` holds what is sent and how replies are read, `connection` the calls and the one retry layer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from queue import SimpleQueue
from typing import Any, Literal

from rlcr.errors import RlcrError
from rlcr.prompts import ChatTokenizer, opens_think
from rlcr.sample import CannotContinue, Completion, Failure, Refused, Request, Sampling, wire
from rlcr.sample.connection import (
    CHAT,
    LONGEST_WAIT,
    MODELS,
    TEXT,
    Connection,
    GaveUpError,
    PassingError,
    RefusedError,
    Server,
    connect,
    import_http,
)
from rlcr.terminal import one_line

MODES = ("auto", "chat", "completion")
#: What servers say no with to the content or the length of one request: content filters, long prompts.
_OWN_STATUS = (400, 413, 422)
#: After this many failures with no reply in between nothing more is asked: it may be the server.
_IN_A_ROW = 16


class _OwnError(Exception):
    """A request failed, perhaps for what it is; ``line`` names it, ``reason`` does not."""

    def __init__(self, line: str, reason: str, status: int | None = None) -> None:
        super().__init__(line)
        self.line, self.reason, self.status = line, reason, status


@dataclass(frozen=True, slots=True)
class _Failed:
    failure: Failure
    line: str


@dataclass(frozen=True, slots=True)
class _News:
    """What has become of a request: ``ended`` says that no more comes of it."""

    completions: list[Completion] = field(default_factory=list)
    ended: bool = False
    failed: _Failed | None = None
    error: Exception | None = None


class _Crew:
    """Coroutines that answer requests, as many at a time as there are of them.

    ``waiting`` and ``news`` may be used from any thread; the methods are called in the event loop. A place is
    kept while waiting to try again. News of one turn of the loop go to the other thread together: waking it
    costs as much as half a request.
    """

    def __init__(
        self, answer: Callable[[Request, Callable[[_News], None]], Awaitable[None]], size: int
    ) -> None:
        self.waiting: deque[Request] = deque()
        self.news: SimpleQueue[list[_News]] = SimpleQueue()
        self._answer, self._size = answer, size
        self._gathered: list[_News] = []
        self._woken = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin; whoever closes the event loop ends it."""
        self._tasks = [asyncio.get_running_loop().create_task(self._work()) for _ in range(self._size)]

    def wake(self) -> None:
        """Look at what is waiting."""
        self._woken.set()

    async def _work(self) -> None:
        while True:
            while not self.waiting:
                self._woken.clear()
                await self._woken.wait()
            try:
                await self._answer(self.waiting.popleft(), self._deliver)
            except Exception as error:  # raised where the samples are yielded
                self._deliver(_News(ended=True, error=error))

    def _deliver(self, news: _News) -> None:
        if not self._gathered:
            asyncio.get_running_loop().call_soon(self._hand_over)
        self._gathered.append(news)

    def _hand_over(self) -> None:
        gathered, self._gathered = self._gathered, []
        self.news.put(gathered)


class EndpointSampler:
    """Samples from the server at ``base_url``, such as ``http://localhost:8000/v1``.

    ``model`` may be left out where the server has one only. ``mode`` ``chat`` lets the server apply its chat
    template; ``completion`` sends text rendered with ``tokenizer``'s (plain text where it has none); ``auto``
    is ``completion`` where a tokenizer is given, else ``chat`` unless the server says it has no template.

    At most ``concurrency`` requests are under way. ``timeout``, in seconds, is for one call with all its
    samples. A request is tried at most ``attempts`` times.
    ``backoff`` is the longest wait in seconds after a first failure; it doubles with each. No wait is longer
    than ``longest_wait``, whatever the server asks for.

    ``chat_template`` are arguments for the server's template, in chat mode: vLLM, SGLang and llama.cpp take
    them.

    Temperature 0 asks once for any number of samples and repeats the answer: servers refuse anything else.
    """

    def __init__(
        self,
        base_url: str,
        model: str | None = None,
        *,
        mode: Literal["auto", "chat", "completion"] = "auto",
        tokenizer: ChatTokenizer | None = None,
        concurrency: int = 16,
        timeout: float = 600.0,
        attempts: int = 8,
        backoff: float = 1.0,
        longest_wait: float = LONGEST_WAIT,
        chat_template: Mapping[str, Any] | None = None,
    ) -> None:
        if mode not in MODES:
            raise RlcrError(f"unknown mode {mode!r}: known are {', '.join(MODES)}")
        if concurrency < 1:
            raise RlcrError("concurrency must be at least 1")
        import_http()
        self._server = Server(base_url.rstrip("/"), timeout, attempts, backoff, longest_wait)
        self._tokenizer = tokenizer
        self._concurrency = concurrency
        self._chat = mode == "chat" or (mode == "auto" and tokenizer is None)
        self._may_switch = mode == "auto"
        self._refused: set[str] = set()
        self._template = dict(chat_template or {})
        self.name = model or _only_model(self._server)
        self.fingerprint = self._server.url  # a server says nothing about its weights

    def __repr__(self) -> str:
        return f"EndpointSampler({self._server.url!r}, {self.name!r})"

    def sample(self, requests: Iterable[Request], sampling: Sampling) -> Generator[Completion, None, None]:
        """Yield each of the n completions of each request once, as it finishes.

        Requests are drawn from the iterator as places become free, at most twice ``concurrency`` ahead of
        what has been yielded. Closing the iterator cancels what is under way.
        """
        sampling.check()
        source = iter(requests)
        failed: list[_Failed] = []
        in_a_row = under_way = 0
        with connect(self._server) as (loop, connection):
            crew = _Crew(partial(self._answer, connection, sampling), self._concurrency)
            loop.soon(crew.start)
            while True:
                # Twice the concurrency, so that the server has work while the caller has the floor; several
                # at once, since each word to the other thread costs as much as half a request.
                if under_way <= 1.5 * self._concurrency and in_a_row < _IN_A_ROW:
                    some = list(islice(source, 2 * self._concurrency - under_way))
                    under_way += len(some)
                    if some:
                        crew.waiting.extend(some)
                        loop.soon(crew.wake)
                if not under_way:
                    break
                gathered = crew.news.get()
                for news in gathered:
                    under_way -= news.ended
                    if news.completions:
                        in_a_row = 0
                        yield from news.completions
                    if news.failed:
                        in_a_row += 1
                        failed.append(news.failed)
                if error := next((news.error for news in gathered if news.error), None):
                    while not crew.news.empty():
                        for news in crew.news.get():
                            yield from news.completions
                    raise error
        if failed:
            raise Refused(failed[0].line, [one.failure for one in failed])

    async def _answer(
        self, connection: Connection, sampling: Sampling, request: Request, deliver: Callable[[_News], None]
    ) -> None:
        """Ask until all samples of a request are there."""
        if request.n < 1:
            raise RlcrError(f"{request.key}: asks for {request.n} samples; ask for at least one")
        first, end = request.first_sample, request.first_sample + request.n
        try:
            if sampling.temperature == 0:
                [one] = await self._ask(connection, request, sampling, first, 1)
                copies = [replace(one, sample=sample) for sample in range(first + 1, end)]
                deliver(_News([one, *copies], ended=True))
                return
            at, together = request.together or (first, request.n)
            last = at + together
            while first < end:
                completions = await self._ask(connection, request, sampling, at, last - at)
                at += len(completions)
                wanted = [one for one in completions if first <= one.sample < end]
                first += len(wanted)
                deliver(_News(wanted, ended=first == end))
        except _OwnError as error:
            failure = Failure(request.key, tuple(range(first, end)), error.reason, error.status)
            deliver(_News(ended=True, failed=_Failed(failure, error.line)))

    async def _ask(
        self, connection: Connection, request: Request, sampling: Sampling, first: int, n: int
    ) -> list[Completion]:
        """Up to n samples, in one call that is repeated until it succeeds."""

        async def call() -> list[Completion]:
            prompt = None if self._chat else wire.prompt_text(request, self._tokenizer)
            wanted = 1 if "n" in self._refused else n
            body = wire.body(
                self.name, request, sampling, prompt=prompt, first=first, n=wanted, refused=self._refused
            )
            if prompt is None and self._template:
                body["chat_template_kwargs"] = self._template
            try:
                limit = wire.reply_limit(sampling.max_tokens, wanted)
                reply = await connection.post(CHAT if prompt is None else TEXT, body, limit)
            except RefusedError as refusal:
                if self._adapt(refusal, body):
                    return await call()
                reason = f"{refusal}{await self._hint(refusal, connection, body)}"
                line = f"{_named(request)}: {self._server.url} says {reason}"
                if _refuses_prefill(refusal, body):
                    raise CannotContinue(line) from None
                if refusal.status in _OWN_STATUS:
                    raise _OwnError(line, reason, refusal.status) from None
                raise RlcrError(line) from None
            think_open = None if prompt is None else opens_think(prompt)
            try:
                return wire.completions(
                    reply, request, sampling, first=first, n=wanted, think_open=think_open
                )
            except wire.BrokenReplyError as error:
                raise PassingError(str(error), own=True) from None

        try:
            return await connection.retrying(_named(request), call)
        except GaveUpError as error:
            raise _OwnError(str(error), error.reason) from None

    def _adapt(self, refusal: RefusedError, body: wire.Json) -> bool:
        """Do without what the server refuses, from now on. False where there is nothing more to leave out."""
        if refusal.status not in (400, 403, 422, 501):
            return False
        for name, refused in wire.REFUSALS.items():
            if refused.field in body and refused.pattern.search(refusal.said):
                self._refused.add(name)
                return True
        if self._may_switch and "messages" in body and wire.NO_CHAT_TEMPLATE.search(refusal.said):
            self._chat = False
            return True
        return False

    async def _hint(self, refusal: RefusedError, connection: Connection, body: wire.Json) -> str:
        """What to do about a refusal."""
        if refusal.status in (401, 403):
            return "; set RLCR_API_KEY or OPENAI_API_KEY to a key that this server accepts"
        if refusal.status == 404:
            return await _hint_for_404(connection, self.name)
        if _refuses_prefill(refusal, body):
            return (
                "; it does not continue a response begun in chat mode: use completion mode with the model's"
                " tokenizer, or a server that does (vLLM, SGLang, llama.cpp)"
            )
        if wire.NO_CHAT_TEMPLATE.search(refusal.said):
            return "; use completion mode, or start the server with a chat template"
        if wire.TOO_LONG.search(refusal.said):
            return "; ask for fewer tokens, or start the server with a longer context"
        return ""


def _named(request: Request) -> str:
    name = request.key.partition("\0")[0]  # what follows tells the samples of a problem apart
    return f"request {name!r}"


def _refuses_prefill(refusal: RefusedError, body: wire.Json) -> bool:
    return "continue_final_message" in body and bool(wire.PREFILL_REFUSED.search(refusal.said))


def _only_model(server: Server) -> str:
    """The model of a server that serves no other."""
    with connect(server) as (loop, connection):

        async def call() -> list[str]:
            try:
                return wire.model_names(await connection.get(MODELS))
            except wire.BrokenReplyError as error:
                raise PassingError(str(error), own=True) from None

        try:
            names = loop.run(connection.retrying("the list of models", call))
        except RefusedError as refusal:
            raise RlcrError(
                f"{server.url} does not list its models ({refusal}): check the URL, which usually ends in"
                " /v1, and the API key, or name the model"
            ) from None
    if len(names) != 1:
        raise RlcrError(f"{server.url} serves {_listed(names)}: name one model")
    return names[0]


def _listed(names: Sequence[str]) -> str:
    """The names that a server gives its models, as many as fit on a line."""
    more = f" and {len(names) - 10:,} more" if len(names) > 10 else ""
    return one_line(", ".join(name[:100] for name in names[:10])) + more or "no model"


async def _hint_for_404(connection: Connection, model: str) -> str:
    try:
        names = wire.model_names(await connection.get(MODELS))
    except (wire.BrokenReplyError, RefusedError, PassingError):
        return "; check the URL, which usually ends in /v1"
    if model in names:
        return "; it has the model but not this way of asking: try the other mode, chat or completion"
    return f"; there is no model {model!r}, but {_listed(names)}"
