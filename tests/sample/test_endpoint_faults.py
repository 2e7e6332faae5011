"""The endpoint sampler in bad times: every kind of fault, and what is asked, drawn and cancelled when."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator

import pytest
from tests.sample.endpoints import GREEDY, HOT, ask, echo, expected, names, patient
from tests.servers import Call, Faults, ModelServer

from rlcr.errors import RlcrError
from rlcr.sample import Completion, Request

# Bad times -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["rate_limit", "error", "drop", "hang", "truncate", "cut"])
def test_each_fault_for_a_fifth_of_the_calls(fault: str) -> None:
    requests = [ask(i, n=1 + i % 3) for i in range(60)]
    with ModelServer(echo, faults=Faults(**{fault: 0.2})) as server:  # type: ignore[arg-type]
        found = list(patient(server, timeout=1.0 if fault == "hang" else 30.0).sample(requests, HOT))
    assert names(found) == expected(requests)
    assert server.faults_served[fault] >= 5
    if fault != "hang":  # a busy machine may take longer than the short timeout
        assert len(server.calls) == 60 + server.faults_served[fault]


def test_all_faults_together() -> None:
    requests = [ask(i, n=1 + i % 3) for i in range(60)]
    faults = Faults(rate_limit=0.1, error=0.1, drop=0.1, hang=0.05, truncate=0.1, cut=0.1)
    with ModelServer(echo, faults=faults, ignores={"n"}) as server:
        found = list(patient(server, timeout=1.0).sample(requests, HOT))
    assert names(found) == expected(requests)
    assert len(server.faults_served) == 6
    # What a retry returns is what the first attempt would have.
    with ModelServer(echo, ignores={"n"}) as server:
        calm = list(patient(server).sample(requests, HOT))
    assert {(c.key, c.sample, c.text) for c in found} == {(c.key, c.sample, c.text) for c in calm}


def test_attempts_are_bounded_and_the_key_of_the_request_is_named() -> None:
    server = ModelServer(echo, faults=Faults(error=1.0))
    with server, pytest.raises(RlcrError, match=r"request 'q7': .* failed 3 times.*HTTP 500: out of luck"):
        list(patient(server, attempts=3).sample([ask(7)], GREEDY))
    assert len(server.calls) == 3


def test_what_has_finished_is_yielded_before_the_failure() -> None:
    def fails_late(call: Call) -> str:
        if "question 9" in call.prompt:
            time.sleep(0.3)
            raise ZeroDivisionError  # the connection drops
        return echo(call)

    found: list[Completion] = []
    with ModelServer(fails_late) as server:
        stream = patient(server, attempts=1).sample([ask(i) for i in range(10)], GREEDY)
        found.append(next(stream))
        time.sleep(0.6)  # the others finish, and the last one fails, while we are away
        with pytest.raises(RlcrError, match="request 'q9'"):
            found.extend(stream)
    assert names(found) == expected([ask(i) for i in range(9)])


def test_retry_after_is_honoured() -> None:
    with ModelServer(echo, faults=Faults(rate_limit=0.5, retry_after="0.4", seed=3)) as server:
        start = time.monotonic()
        list(patient(server).sample([ask(i) for i in range(4)], GREEDY))
        took = time.monotonic() - start
    most = max(Counter(str(call.body) for call in server.calls).values()) - 1
    assert most >= 1
    assert took >= 0.4 * most


# Flow ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", [1, 5])
def test_no_more_calls_in_flight_than_asked_for(bound: int) -> None:
    def wait(call: Call) -> str:
        deadline = time.monotonic() + 5
        while server.most_in_flight < bound and time.monotonic() < deadline:
            time.sleep(0.002)
        return echo(call)

    with ModelServer(wait, delay=0.01) as server:
        list(patient(server, concurrency=bound).sample([ask(i) for i in range(30)], GREEDY))
    assert server.most_in_flight == bound


def test_requests_are_drawn_as_places_become_free() -> None:
    drawn = 0

    def many() -> Iterator[Request]:
        nonlocal drawn
        for number in range(100_000):
            drawn += 1
            yield ask(number)

    with ModelServer(echo) as server:
        stream = patient(server, concurrency=4).sample(many(), GREEDY)
        assert drawn == 0
        for yielded in range(1, 50):
            next(stream)
            assert drawn <= yielded + 2 * 4
        stream.close()  # type: ignore[attr-defined]
        calls = len(server.calls)
        time.sleep(0.1)
        assert len(server.calls) == calls <= 60


def test_closing_cancels_what_is_under_way() -> None:
    with ModelServer(echo, faults=Faults(hang=0.5)) as server:
        stream = patient(server, timeout=60.0).sample([ask(i) for i in range(100)], GREEDY)
        next(stream)
        stream.close()  # type: ignore[attr-defined]
        deadline = time.monotonic() + 30
        while server.in_flight and time.monotonic() < deadline:
            time.sleep(0.01)
        assert server.in_flight == 0
    assert not [thread for thread in threading.enumerate() if thread.name == "rlcr-endpoint"]


def test_an_error_of_the_callers_iterator_passes_through() -> None:
    def broken() -> Iterator[Request]:
        yield ask(1)
        raise KeyError("mine")

    with ModelServer(echo) as server, pytest.raises(KeyError, match="mine"):
        list(patient(server).sample(broken(), GREEDY))


def test_it_works_inside_a_running_event_loop() -> None:
    import asyncio

    async def notebook() -> list[Completion]:
        return list(patient(server).sample([ask(1)], GREEDY))

    with ModelServer(echo) as server:
        assert len(asyncio.run(notebook())) == 1


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs POSIX signals")
def test_ctrl_c_ends_at_once() -> None:
    main = threading.main_thread()
    if threading.current_thread() is not main:
        pytest.skip("Python delivers signals to the main thread only")
    with ModelServer(echo, faults=Faults(hang=1.0)) as server:
        timer = threading.Timer(0.5, signal.pthread_kill, (main.ident, signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            list(patient(server, timeout=600.0).sample([ask(i) for i in range(50)], GREEDY))
        assert len({str(call.body) for call in server.calls}) == len(server.calls)  # none was asked again
    assert not [thread for thread in threading.enumerate() if thread.name == "rlcr-endpoint"]
