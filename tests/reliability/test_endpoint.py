"""Servers that misbehave: a few trials of each family of `make faults`, and what is said of long waits."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from faults.endpoint import FAULTS, redirect_trial, trial_of
from faults.hostile_server import Asked, Behaviour, HostileServer, honest, http
from faults.misbehaviour import ENDLESS, JUNK, ODD, ORDER, TIMING

from rlcr.errors import RlcrError
from rlcr.sample import Request, Sampling
from rlcr.sample.connection import Connection, Server
from rlcr.sample.endpoint import EndpointSampler

GREEDY = Sampling(max_tokens=64)


def ask(number: int) -> Request:
    return Request(f"q{number}", ({"role": "user", "content": f"Question number {number}"},))


def answers(url: str, *, attempts: int = 3, timeout: float = 60.0) -> list[str]:
    sampler = EndpointSampler(url, "tiny", mode="chat", attempts=attempts, backoff=0.0, timeout=timeout)
    return [one.text for one in sampler.sample([ask(1)], GREEDY)]


def first_then_honest(behave: Behaviour) -> HostileServer:
    return HostileServer(lambda asked: behave(asked) if asked.times == 0 else honest(asked))


@pytest.mark.parametrize("name", JUNK)
def test_junk_is_asked_for_again(name: str) -> None:
    with first_then_honest(JUNK[name]) as server:
        (text,) = answers(server.url)
        assert len(server.asked) == 2
    assert "<answer>Question number 1</answer>" in text


@pytest.mark.parametrize("name", JUNK)
def test_junk_for_ever_is_a_failure_with_its_reason(name: str) -> None:
    with HostileServer(JUNK[name]) as server, pytest.raises(RlcrError, match="failed 2 times") as caught:
        answers(server.url, attempts=2)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ODD)
def test_what_is_odd_is_left_out_and_the_text_is_taken(name: str) -> None:
    with HostileServer(ODD[name]) as server:
        (text,) = answers(server.url)
        assert len(server.asked) == 1
    assert "<answer>Question number 1</answer>" in text


@pytest.mark.parametrize("name", ["an endless body in chunks", "256 MB packed as gzip", "an endless error"])
def test_an_endless_reply_takes_neither_memory_nor_time(name: str, tmp_path: Path) -> None:
    outcome = trial_of(ENDLESS, tmp_path, list(ENDLESS).index(name), timeout=60.0)
    assert (outcome.lost, outcome.doubled, outcome.wrong, outcome.notes) == (0, 0, 0, [])


def test_a_bound_on_the_reply_is_said() -> None:
    behave = ENDLESS["a text of 50 MB"]
    with (
        HostileServer(behave) as server,
        pytest.raises(RlcrError, match="longer than 4.06 MB, more than was"),
    ):
        answers(server.url, attempts=1)


@pytest.mark.parametrize("name", ORDER)
def test_replies_twice_and_in_another_order(name: str, tmp_path: Path) -> None:
    outcome = trial_of(ORDER, tmp_path, list(ORDER).index(name), passes=False)
    assert (outcome.lost, outcome.doubled, outcome.wrong, outcome.notes) == (0, 0, 0, [])


def test_a_server_that_stops_in_the_middle(tmp_path: Path) -> None:
    outcome = trial_of(TIMING, tmp_path, list(TIMING).index("stuck before the end"), timeout=3.0)
    assert (outcome.lost, outcome.doubled, outcome.wrong, outcome.notes) == (0, 0, 0, [])


def test_a_redirect_is_refused(tmp_path: Path) -> None:
    outcome = redirect_trial(tmp_path, 1)
    assert (outcome.lost, outcome.doubled, outcome.wrong, outcome.notes) == (0, 0, 0, [])


def test_every_family_is_in_the_list_of_faults() -> None:
    assert len(FAULTS) == 7


def test_a_long_wait_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """Eight requests wait for an hour, of which we wait five minutes: one line says so."""
    caplog.set_level(logging.WARNING)

    def later(_: Asked) -> Iterator[bytes]:
        yield http(b'{"error": {"message": "quota\\u001b[2J"}}', "429 Slow", Retry_After="3600")

    with HostileServer(later) as server:
        sampler = EndpointSampler(server.url, "tiny", mode="chat", concurrency=8, backoff=0.0)
        stream = sampler.sample([ask(number) for number in range(8)], GREEDY)
        waiting = threading.Thread(target=lambda: next(stream, None), daemon=True)
        waiting.start()
        deadline = time.monotonic() + 60
        while len(server.asked) < 8 and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.3)
    (line,) = [record.getMessage() for record in caplog.records]
    assert "it asks to wait 3,600 s; trying again in 300 s" in line
    assert "\x1b" not in line


def test_what_the_http_library_keeps_of_a_connection_is_where_we_look_for_it() -> None:
    """A reply that was sent twice must not answer the next request: seen in the library's own buffer."""

    def twice(asked: Asked) -> Iterator[bytes]:
        yield b"".join(honest(asked)) * 2

    async def both() -> list[object]:
        connection = Connection(Server(server.url))
        bodies = [{"messages": [{"role": "user", "content": f"Question number {n}"}]} for n in range(3)]
        try:
            return [await connection.post("/chat/completions", body, 1 << 20) for body in bodies]
        finally:
            await connection.close()

    import asyncio

    with HostileServer(twice) as server:
        replies = asyncio.run(both())
    assert ["Question number 0" in str(replies[0]), "Question number 1" in str(replies[1])] == [True, True]
    assert "Question number 2" in str(replies[2])
