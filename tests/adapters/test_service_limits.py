"""The reward service and clients that send too much, too slowly, or do not read."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.adapters.reward_servers import RewardServer, limited_server

MB = 1 << 20


def memory(server: RewardServer, line: str = "VmHWM") -> int:
    """The most memory that the service has ever had, in bytes; or another line of its status."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.split(f"{line}:")[1].split()[0]) * 1024


def open_files(server: RewardServer) -> int:
    return len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))


def wait_until(happened: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < until, "nothing happened"
        time.sleep(0.05)


def _repeatedly(count: Callable[[], int]) -> list[int]:
    """Counted for half a second, in which a connection that was just used is closed."""
    return [time.sleep(0.05) or count() for _ in range(10)]


def everything(client: socket.socket) -> bytes:
    client.settimeout(60)
    return b"".join(iter(lambda: client.recv(MB), b""))


@pytest.mark.parametrize("stated", [True, False])
def test_100_megabytes(stated: bool) -> None:
    """A clear error, whether or not the length is stated, and the memory of a body of the largest size."""
    with limited_server() as server:
        assert server.post({"rows": []})[0] == 200
        before = memory(server)
        for _ in range(2):
            connection = server.connection()
            connection.putrequest("POST", "/")
            if stated:
                connection.putheader("Content-Length", str(100 * MB))
            else:
                connection.putheader("Transfer-Encoding", "chunked")
            connection.endheaders()
            chunk = b"x" * MB
            for _ in range(100):
                connection.send(chunk if stated else b"100000\r\n" + chunk + b"\r\n")
            if not stated:
                connection.send(b"0\r\n\r\n")
            reply = connection.getresponse()
            assert (reply.status, reply.headers["connection"]) == (413, "close")
            says = "the body is larger than 16,777,216 bytes; send fewer completions at once"
            assert json.loads(reply.read()) == {"error": says}
            connection.close()
        # What came before the limit was passed is dropped; with a stated length nothing is kept at all.
        assert memory(server) - before < (8 * MB if stated else 48 * MB)
        assert server.post({"rows": []})[0] == 200
        assert "\nrlcr_held_bytes 0\n" in server.call("GET", "/metrics")[1]


def test_a_head_that_never_ends() -> None:
    with limited_server(client_seconds=0.5) as server:
        with (
            socket.create_connection(server.address) as slow,
            socket.create_connection(server.address) as silent,
        ):
            slow.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
            assert server.post({"rows": []})[0] == 200  # while they are there
            said = everything(slow)
            assert said.startswith(b"HTTP/1.1 408 ")
            assert json.loads(said.split(b"\r\n\r\n")[1]) == {
                "error": "the head of the request did not arrive within 0.5 s"
            }
            assert everything(silent) == b""
        # The second head of a connection is limited in the same way.
        with socket.create_connection(server.address) as again:
            body = b'{"rows": []}'
            again.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            assert again.recv(4096).startswith(b"HTTP/1.1 200 ")
            again.sendall(b"POST / HTTP/1.1\r\nHost:")
            assert b"HTTP/1.1 408 " in everything(again)


def test_a_head_that_is_too_large() -> None:
    with limited_server() as server, socket.create_connection(server.address) as client:
        before = memory(server)
        client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nX-Large: ")
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            client.sendall(b"x" * 100 * MB)
        assert memory(server) - before < 8 * MB
        with socket.create_connection(server.address) as other:
            other.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nX-Large: " + b"x" * 17_000)
            said = everything(other)
        assert said.startswith(b"HTTP/1.1 400 ")
        assert json.loads(said.split(b"\r\n\r\n")[1])["error"].endswith("a head of more than 16,384 bytes")
        assert server.post({"rows": []})[0] == 200


def test_a_reply_that_nobody_reads() -> None:
    """A reply of 8 MB, which NeMo-Gym's shape returns with the body, is not kept for ever."""
    with limited_server(client_seconds=5.0) as server:
        assert server.post({"rows": []})[0] == 200  # it has opened what it needs by itself
        before = min(_repeatedly(lambda: open_files(server)))
        output = [{"type": "message", "content": [{"type": "output_text", "text": "x" * 8 * MB}]}]
        body = {"responses_create_params": {}, "response": {"output": output}, "expected_answer": "x"}
        content = json.dumps(body).encode()
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(server.address)
            client.sendall(
                b"POST /verify HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(content) + content
            )
            wait_until(lambda: 'shape="nemo-gym",status="200"' in server.call("GET", "/metrics")[1])
            wait_until(lambda: open_files(server) <= before)
            assert len(everything(client)) < len(content)
        assert server.post({"rows": []})[0] == 200


def test_a_client_that_reads_slowly_gets_its_reply() -> None:
    with limited_server() as server, socket.create_connection(server.address) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MB >> 4)
        rows = [{"completion": "x" * 500, "gold": "x"} for _ in range(5_000)]
        content = json.dumps({"rows": rows}).encode()
        client.sendall(
            b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(content)
            + content
        )
        time.sleep(1)
        head, _, said = everything(client).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        assert len(json.loads(said)["rewards"]) == 5_000
