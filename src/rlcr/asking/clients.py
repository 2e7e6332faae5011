"""From a client to completions, now or in an event loop.

All of it is one set of coroutines. With a client that answers at once none of them ever waits, so that
:func:`run_now` can run them to their end without an event loop, in a notebook too.

What a server refuses of a request (several samples in one call, a seed, …) is left out from then on, as in
:mod:`rlcr.sample.endpoint`. Retries are the client's own.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from rlcr.errors import RlcrError
from rlcr.sample import CannotContinue, Completion, Request, Sampler, Sampling, wire

T = TypeVar("T")

# Not asked of a server: we do not need the first, and the second is for its owner to decide.
_LEFT_OUT = ("logprobs", "plain")
# What every client knows; the rest goes into ``extra_body``.
_KNOWN = frozenset(
    ("model", "messages", "max_tokens", "max_completion_tokens", "temperature", "top_p", "n", "seed", "stop")
)
_REFUSING = (400, 403, 422, 501)


class Client(Protocol):
    """What we need of an OpenAI-compatible client, synchronous or not."""

    @property
    def chat(self) -> Any:
        """Has ``completions.create``."""
        ...


class Asker(Protocol):
    """Anything that continues requests."""

    async def complete(self, requests: Sequence[Request], sampling: Sampling) -> list[Completion] | None:
        """All completions of all requests; None where responses that were begun cannot be continued."""
        ...


def open_asker(client: Client | Sampler, model: str | None, *, waits: bool) -> Asker:
    """An asker for a client or a sampler; ``waits`` says that there is an event loop to wait in."""
    if hasattr(client, "chat"):
        return _ClientAsker(client, model, waits)
    if not hasattr(client, "sample"):
        raise RlcrError("expected a client with chat.completions.create (openai.OpenAI()), or a sampler")
    if model is not None:
        raise RlcrError("a sampler has its model already: leave out model")
    return _SamplerAsker(client, waits)  # pyright: ignore[reportArgumentType] (it has what a sampler has)


def run_now(coroutine: Coroutine[Any, Any, T]) -> T:
    """The value of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    finally:
        coroutine.close()
    raise AssertionError("it waited, although nothing in it may")


class _SamplerAsker:
    def __init__(self, sampler: Sampler, waits: bool) -> None:
        self._sampler, self._waits = sampler, waits

    async def complete(self, requests: Sequence[Request], sampling: Sampling) -> list[Completion] | None:
        def all_of_them() -> list[Completion]:
            return list(self._sampler.sample(requests, sampling))

        try:
            found = await asyncio.to_thread(all_of_them) if self._waits else all_of_them()
        except CannotContinue:
            return None
        return sorted(found, key=lambda one: (one.key, one.sample))


class _ClientAsker:
    def __init__(self, client: Any, model: str | None, waits: bool) -> None:
        self._client, self._model, self._waits = client, model, waits
        self._refused: set[str] = set(_LEFT_OUT)

    async def complete(self, requests: Sequence[Request], sampling: Sampling) -> list[Completion] | None:
        if self._model is None:
            self._model = await self._only_model()
        try:
            found = await self._together([self._request(request, sampling) for request in requests])
        except CannotContinue:
            return None
        return [completion for some in found for completion in some]

    async def _request(self, request: Request, sampling: Sampling) -> list[Completion]:
        """The n completions of a request, in as many calls as it takes."""
        first, end = request.first_sample, request.first_sample + request.n
        found = await self._call(request, sampling, first, request.n)
        while (left := end - first - len(found)) > 0:
            at = first + len(found)
            if "n" in self._refused:
                calls = [self._call(request, sampling, sample, 1) for sample in range(at, end)]
                found += [one for some in await self._together(calls) for one in some]
            else:
                found += await self._call(request, sampling, at, left)
        return found

    async def _call(self, request: Request, sampling: Sampling, first: int, n: int) -> list[Completion]:
        assert self._model is not None
        while True:
            wanted = 1 if "n" in self._refused else n
            fields = wire.body(
                self._model, request, sampling, prompt=None, first=first, n=wanted, refused=self._refused
            )
            try:
                reply = await self._value(self._client.chat.completions.create(**_arguments(fields)))
            except Exception as error:
                if getattr(error, "status_code", None) not in _REFUSING or not self._adapt(
                    str(error), fields
                ):
                    raise
                continue
            content = reply.model_dump() if hasattr(reply, "model_dump") else reply
            try:
                return wire.completions(content, request, sampling, first=first, n=wanted, think_open=None)
            except wire.BrokenReplyError as error:
                raise RlcrError(f"the client's reply is no chat completion: {error}") from None

    def _adapt(self, said: str, fields: Mapping[str, Any]) -> bool:
        """Do without what the server refuses. False where there is nothing more to leave out."""
        for name, refusal in wire.REFUSALS.items():
            if refusal.field in fields and refusal.pattern.search(said):
                self._refused.add(name)
                return True
        if "continue_final_message" in fields:
            raise CannotContinue(said)
        return False

    async def _only_model(self) -> str:
        page = await self._value(self._client.models.list())
        names = [str(one.id) for one in page.data]
        if len(names) != 1:
            raise RlcrError(f"the server has {', '.join(names[:10]) or 'no model'}: name one with model=")
        return names[0]

    async def _value(self, reply: Any) -> Any:
        if not inspect.isawaitable(reply):
            return reply
        if not self._waits:
            if inspect.iscoroutine(reply):
                reply.close()
            raise RlcrError("this client is asynchronous: `await rlcr.ask_async(…)`")
        return await reply

    async def _together(self, calls: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
        if self._waits:
            return list(await asyncio.gather(*calls))
        done: list[T] = []
        try:
            for call in calls:
                done.append(await call)
        finally:
            for call in calls:
                call.close()
        return done


def _arguments(fields: Mapping[str, Any]) -> dict[str, Any]:
    known = {name: value for name, value in fields.items() if name in _KNOWN}
    more = {name: value for name, value in fields.items() if name not in _KNOWN}
    return known | ({"extra_body": more} if more else {})
