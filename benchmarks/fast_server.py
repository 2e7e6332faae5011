"""A server as cheap as one in Python can be: replies are made beforehand, and connections are kept.

    python benchmarks/fast_server.py [--logprobs]     prints its base URL, and serves until it is ended

It reads no JSON: what is measured against it is the client. No two texts are the same, so that a client gains
nothing by remembering one; three answers of four are Paris, and ten confidences take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys
from typing import Any

NUMBER = "0000000"  # stands for that of the reply
TEXT = (
    "<think>No. 0000000 is about France, a country in Europe; its seat of government has long been in one"
    " city.</think><answer>{}</answer><analysis>This is well known.</analysis><confidence>0.9{}</confidence>"
)


def replies(logprobs: bool) -> list[bytes]:
    """Those that take turns, but for their numbers."""
    return [_reply(TEXT.format("Paris" if turn % 4 else "Lyon", turn % 10), logprobs) for turn in range(20)]


def _reply(text: str, logprobs: bool) -> bytes:
    """A chat completion, as HTTP."""
    words = [piece + " " for piece in text.split(" ")]
    words[-1] = words[-1].rstrip()
    tokens: list[dict[str, Any]] = [{"token": word, "logprob": -0.25} for word in words]
    for token in tokens:
        if NUMBER not in token["token"]:
            token["bytes"] = list(token["token"].encode())
    choice: dict[str, Any] = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": text},
        "logprobs": {"content": tokens} if logprobs else None,
    }
    usage = {"prompt_tokens": 80, "completion_tokens": len(tokens)}
    body = json.dumps({"id": "x", "model": "fast", "choices": [choice], "usage": usage}).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )


class Connection(asyncio.Protocol):
    """Answers each whole request that arrives, whatever it says."""

    transport: asyncio.Transport
    numbers = itertools.count()

    def __init__(self, answers: list[bytes]) -> None:
        self.answers, self.buffer = answers, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (head := self.buffer.find(b"\r\n\r\n")) >= 0:
            fields = self.buffer[:head].lower()
            _, _, length = fields.partition(b"content-length:")
            end = head + 4 + int(length.split(b"\r\n", 1)[0] or 0)
            if len(self.buffer) < end:
                return
            self.buffer = self.buffer[end:]
            number = next(self.numbers)
            answer = self.answers[number % len(self.answers)]
            self.transport.write(answer.replace(NUMBER.encode(), b"%07d" % (number % 10**7)))


async def serve(logprobs: bool) -> None:
    answers = replies(logprobs)
    server = await asyncio.get_running_loop().create_server(lambda: Connection(answers), "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--logprobs", action="store_true")
    try:
        asyncio.run(serve(parser.parse_args().logprobs))
    except KeyboardInterrupt:
        sys.exit(0)
