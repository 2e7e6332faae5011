"""A server as cheap as one in Python can be: every request gets the same reply, over connections kept.

    python benchmarks/fast_server.py [--logprobs]     prints its base URL, and serves until it is ended

It reads no JSON: what is measured against it is the client.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import Any

TEXT = (
    "<think>France is a country in Europe; its seat of government has long been in one city.</think>"
    "<answer>Paris</answer><analysis>This is well known.</analysis><confidence>0.97</confidence>"
)


def reply(logprobs: bool) -> bytes:
    """A chat completion, as HTTP."""
    words = [piece + " " for piece in TEXT.split(" ")]
    words[-1] = words[-1].rstrip()
    tokens = [{"token": word, "logprob": -0.25, "bytes": list(word.encode())} for word in words]
    choice: dict[str, Any] = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": TEXT},
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

    def __init__(self, answer: bytes) -> None:
        self.answer, self.buffer = answer, b""

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
            self.transport.write(self.answer)


async def serve(logprobs: bool) -> None:
    answer = reply(logprobs)
    server = await asyncio.get_running_loop().create_server(lambda: Connection(answer), "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--logprobs", action="store_true")
    try:
        asyncio.run(serve(parser.parse_args().logprobs))
    except KeyboardInterrupt:
        sys.exit(0)
