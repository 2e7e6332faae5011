"""What a server can do wrong, by families: functions from what is asked to the bytes that are sent."""

from __future__ import annotations

import gzip
import json
import time
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import cache, partial
from itertools import repeat
from typing import Any

from faults.hostile_server import CLOSE, Asked, Behaviour, answer, choice, honest, http

_BLOCK = b"x" * 65536
_CHUNK = b"10000\r\n" + _BLOCK + b"\r\n"
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def _json(asked: Asked, **changed: Any) -> bytes:
    return json.dumps(answer(asked) | changed).encode()


def _sent(make: Callable[[Asked], bytes]) -> Behaviour:
    """A reply in one piece."""

    def behave(asked: Asked) -> Iterator[bytes]:
        yield make(asked)

    return behave


def _closing(make: Callable[[Asked], bytes]) -> Behaviour:
    def behave(asked: Asked) -> Iterator[bytes]:
        yield make(asked)
        yield CLOSE

    return behave


def _field(**changed: Any) -> Behaviour:
    return _sent(lambda asked: http(_json(asked, **changed)))


def _in_choice(**changed: Any) -> Behaviour:
    return _sent(lambda asked: http(_json(asked, choices=[choice(asked) | changed])))


def _logprob(value: str) -> Behaviour:
    """A log-probability as it stands in the text of the JSON."""
    return _replaced(b'"logprob": -0.5', b'"logprob": ' + value.encode())


def _replaced(part: bytes, other: bytes) -> Behaviour:
    return _sent(lambda asked: http(_json(asked).replace(part, other)))


def _usage(value: str) -> Behaviour:
    return _replaced(b'"completion_tokens": ', f'"completion_tokens": {value}, "x": '.encode())


def _without(name: str) -> Behaviour:
    return _in_choice(**{name: None})


#: Replies that are none, or hold what does not belong there.
JUNK: dict[str, Behaviour] = {
    "half the JSON": _sent(lambda asked: http(_json(asked)[:-40])),
    "half the body": _closing(lambda asked: http(_json(asked))[:-40]),
    "half the head": _closing(lambda _: b"HTTP/1.1 200 OK\r\nContent-Ty"),
    "bytes that are no HTTP": _closing(lambda _: bytes(range(256)) * 8),
    "bytes that are no UTF-8": _sent(lambda _: http(b"\xff\xfe\xfa" * 100)),
    "HTML": _sent(lambda _: http(b"<html><script>alert(1)</script></html>")),
    "nothing": _sent(lambda _: http(b"")),
    "a list": _sent(lambda _: http(b"[]")),
    "200,000 brackets": _sent(lambda _: http(b"[" * 200_000 + b"]" * 200_000)),
    "a number of 5,000 digits": _sent(lambda _: http(b"1" * 5000)),
    "no choices": _field(choices=[]),
    "choices that are none": _field(choices=[1, None, "x"]),
    "no message": _without("message"),
    "no finish_reason": _without("finish_reason"),
    "content that is a list": _in_choice(message={"role": "assistant", "content": ["x"]}),
    "reasoning that is a list": _in_choice(message={"content": "x", "reasoning_content": ["x"]}),
    "usage as text": _field(usage="x"),
    "a count as text": _usage('"x"'),
    "a count below 0": _usage("-5"),
    "a count of 400 digits": _usage("1" + "0" * 400),
    "log-probabilities as text": _logprob('"-0.5"'),
    "log-probabilities as lists": _logprob("[-0.5]"),
    "a log-probability of 10^400": _logprob("1" + "0" * 400),
    "bytes of a token as a number": _replaced(b'"bytes": [', b'"bytes": 4000000000, "x": ['),
    "gzip that is none": _sent(lambda _: http(b"not gzip", Content_Encoding="gzip")),
    "gzip that breaks off": _sent(
        lambda asked: http(gzip.compress(_json(asked))[:-30], Content_Encoding="gzip")
    ),
}

#: Good replies with something odd in them: the completion is taken, without what is odd.
ODD: dict[str, Behaviour] = {
    "NaN": _logprob("NaN"),
    "-Infinity": _logprob("-Infinity"),
    "1e308": _logprob("1e308"),
    "-1e308": _logprob("-1e308"),
    "null": _logprob("null"),
    "no usage": _field(usage=None),
    "no logprobs": _in_choice(logprobs=None),
    "gzip": _sent(lambda asked: http(gzip.compress(_json(asked)), Content_Encoding="gzip")),
    "deflate": _sent(lambda asked: http(zlib.compress(_json(asked)), Content_Encoding="deflate")),
    "a cookie": _sent(lambda asked: http(_json(asked), Set_Cookie=f"a{asked.times}={'x' * 3000}")),
    "more choices than asked for": _sent(
        lambda asked: http(_json(asked, choices=[choice(asked, index) for index in range(40)]))
    ),
}


def _endless(head: bytes, piece: bytes) -> Behaviour:
    def behave(_: Asked) -> Iterator[bytes]:
        yield head
        yield from repeat(piece)

    return behave


@cache
def _packed(bits: int) -> bytes:
    """256 MB of JSON in one."""
    packing = zlib.compressobj(1, wbits=bits)
    zeros = b"0," * (1 << 20)
    return packing.compress(b'{"choices": [') + b"".join(packing.compress(zeros) for _ in range(128))


def _bomb(bits: int, encoding: str, *, again: bool = False) -> Behaviour:
    def make(_: Asked) -> bytes:
        packed = _packed(bits)
        return http(gzip.compress(packed) if again else packed, Content_Encoding=encoding)

    return _sent(make)


_GZIP, _DEFLATE = 31, 15


def _long_text(asked: Asked) -> Iterator[bytes]:
    """Whole and honest but for its length."""
    head, tail = _json(asked).split(b"<think>", 1)
    yield http(b"", Content_Length=str(len(head) + len(tail) + 800 * len(_BLOCK))) + head
    yield from repeat(_BLOCK, 800)
    yield tail


#: More than anyone asked for.
ENDLESS: dict[str, Behaviour] = {
    "an endless body in chunks": _endless(_HEAD + b"Transfer-Encoding: chunked\r\n\r\n", _CHUNK),
    "an endless body": _endless(_HEAD + b"\r\n", _BLOCK),
    "2 GB announced": _endless(_HEAD + b"Content-Length: 2147483648\r\n\r\n", _BLOCK),
    "endless headers": _endless(b"HTTP/1.1 200 OK\r\n", b"X: " + _BLOCK + b"\r\n"),
    "an endless status line": _endless(b"HTTP/1.1 200 ", _BLOCK),
    "endless provisional replies": _endless(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100),
    "256 MB packed as gzip": _bomb(_GZIP, "gzip"),
    "256 MB packed as deflate": _bomb(_DEFLATE, "deflate"),
    "256 MB packed twice": _bomb(_GZIP, "gzip, gzip", again=True),
    "a text of 50 MB": _long_text,
    "an endless error": _endless(b"HTTP/1.1 500 No\r\n\r\n", _BLOCK),
}


def _delayed(asked: Asked) -> Iterator[bytes]:
    time.sleep(0.3)
    yield from honest(asked)


def _hang(_: Asked) -> Iterator[bytes]:
    time.sleep(12)
    yield CLOSE


def _trickle(asked: Asked) -> Iterator[bytes]:
    for byte in http(_json(asked)):
        yield bytes([byte])
        time.sleep(0.2)


def _stall(asked: Asked) -> Iterator[bytes]:
    yield http(_json(asked))[:-20]
    time.sleep(12)
    yield CLOSE


#: Late, slow, or gone. Those that never end are met by the timeout.
TIMING: dict[str, Behaviour] = {
    "delayed": _delayed,
    "no answer": _hang,
    "a byte now and then": _trickle,
    "stuck before the end": _stall,
    "hangs up": _closing(lambda _: CLOSE),
}


def _twice(asked: Asked) -> Iterator[bytes]:
    yield from (piece * 2 for piece in honest(asked))


def _choices(order: Callable[[list[Any]], list[Any]]) -> Behaviour:
    return _sent(lambda asked: http(_json(asked, choices=order(answer(asked)["choices"]))))


#: Twice, too few, or in another order.
ORDER: dict[str, Behaviour] = {
    "every reply twice": _twice,
    "choices in reverse": _choices(lambda some: some[::-1]),
    "every choice twice": _choices(lambda some: some + some),
    "one choice only": _choices(lambda some: some[:1]),
    "the first choice for all": _choices(lambda some: [some[0]] * len(some)),
}


def _date(seconds: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


_RETRY_AFTER: dict[str, Callable[[], str]] = {
    **{text: partial(str, text) for text in ("", "0", "0.2", "-5", "nan", "inf", "1e999", "soon", "1, 2")},
    "a date to come": lambda: _date(1),
    "a date long past": lambda: _date(-1e9),
    "no date": lambda: "Mon, 99 Foo 99999 99:99:99 GMT",
    "a date without a zone": lambda: "Mon, 01 Jan 2001 00:00:00",
}


def _status(status: str, retry_after: Callable[[], str]) -> Behaviour:
    return _sent(lambda _: http(b'{"error": {"message": "later\x1b[2J"}}', status, Retry_After=retry_after()))


#: Come again later.
STATUS: dict[str, Behaviour] = {
    f"{status}, Retry-After {name or 'empty'}": _status(status, value)
    for status in ("429 Slow", "500 No", "503 Busy")
    for name, value in _RETRY_AFTER.items()
}
