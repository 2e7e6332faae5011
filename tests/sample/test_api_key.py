"""The API key: where it comes from, and that it is never shown."""

from __future__ import annotations

import logging

import pytest
from tests.sample.endpoints import GREEDY, ask, echo, patient
from tests.servers import Faults, ModelServer

from rlcr.errors import RlcrError
from rlcr.sample import Refused
from rlcr.sample.connection import Server
from rlcr.sample.endpoint import EndpointSampler

SECRET = "sk-recognise-me-0123456789"


@pytest.mark.parametrize(
    ("environment", "sent"),
    [
        ({}, None),
        ({"OPENAI_API_KEY": "general"}, "Bearer general"),
        ({"OPENAI_API_KEY": "general", "RLCR_API_KEY": "ours"}, "Bearer ours"),
    ],
)
def test_where_the_key_comes_from(
    environment: dict[str, str], sent: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ModelServer(echo) as server:
        sampler = patient(server)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        list(sampler.sample([ask(1)], GREEDY))
    assert server.calls[0].headers.get("authorization") == sent


def test_the_key_is_never_shown(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    caplog.set_level(logging.DEBUG)
    shown: list[str] = []
    faults = Faults(rate_limit=0.2, error=0.2, drop=0.2, truncate=0.2)
    with ModelServer(echo, key=SECRET, faults=faults) as server:
        sampler = patient(server)
        shown += [repr(sampler), str(vars(sampler)), str(list(sampler.sample([ask(1), ask(2)], GREEDY)))]
    for settings in ({"key": "other"}, {"refuses": {"top_p"}}, {"faults": Faults(error=1.0)}):
        with ModelServer(echo, **settings) as server, pytest.raises(RlcrError) as caught:  # type: ignore[arg-type]
            list(patient(server, attempts=2).sample([ask(1)], GREEDY))
        shown += _whole_story(caught)
    with pytest.raises(RlcrError) as caught:
        list(EndpointSampler(server.url, "tiny", backoff=0.0).sample([ask(1)], GREEDY))
    shown += _whole_story(caught)
    assert any("[API key]" in text for text in shown)  # the server that repeats the key
    assert caplog.text
    assert SECRET not in "".join([*shown, caplog.text])


def test_a_reply_with_the_key_is_paid_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    with ModelServer(lambda call: f"your key is {SECRET}") as server, pytest.raises(Refused) as caught:
        list(patient(server).sample([ask(1)], GREEDY))
    [failure] = caught.value.failures
    assert failure.reason.endswith("the reply repeats the API key")
    assert len(server.calls) == 1


def _whole_story(caught: pytest.ExceptionInfo[RlcrError]) -> list[str]:
    assert caught.value.__cause__ is None
    return [repr(caught.value), str(caught.getrepr(style="short"))]


@pytest.mark.parametrize("bad", ["sk-\u2026copied", "two\nlines"])
def test_a_key_that_cannot_be_sent_is_not_shown(bad: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLCR_API_KEY", bad)
    with ModelServer(echo) as server, pytest.raises(RlcrError, match="characters that no key has") as caught:
        list(patient(server).sample([ask(1)], GREEDY))
    assert bad not in str(caught.value)


def test_a_url_with_a_password_is_refused_and_not_repeated() -> None:
    for url in (f"http://me:{SECRET}@localhost/v1", f"http://localhost/v1?key={SECRET}"):
        with pytest.raises(RlcrError) as caught:
            Server(url)
        assert SECRET not in str(caught.value)
