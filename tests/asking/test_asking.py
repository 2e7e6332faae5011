"""Asking: real clients on a real server, one vote, one rule of stopping, one reading."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import numpy as np
import openai
import pytest
from tests.asking.replayed import METHOD, Replay, simulated_texts, text
from tests.command import rlcr as command
from tests.many.pools import ragged
from tests.servers import Call, ModelServer

import rlcr
from rlcr.errors import RlcrError
from rlcr.many.standings import standings
from rlcr.many.stopping import Rule, final_votes
from rlcr.problem import Problem


def in_turn(texts: Sequence[str]) -> tuple[list[str], ModelServer]:
    """A server that says these texts one after the other, and the prompts that it saw."""
    prompts: list[str] = []
    turn, lock = itertools.cycle(texts), threading.Lock()

    def reply(call: Call) -> str:
        with lock:
            prompts.append(call.prompt)
            return next(turn)

    return prompts, ModelServer(reply)


def client_of(server: ModelServer) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.url, api_key="none", max_retries=0)


FULL = "<think>…</think><answer>Paris</answer><analysis>Well known.</analysis><confidence>0.9</confidence>"


def test_one_sample() -> None:
    prompts, server = in_turn([FULL])
    with server:
        answer = rlcr.ask(client_of(server), "Capital of France?")
        assert (answer.text, answer.confidence, answer.analysis) == ("Paris", 0.9, "Well known.")
        assert (answer.abstained, answer.samples, answer.votes[0].votes) == (False, 1, 1)
        assert answer.tokens > 0
        assert rlcr.ask(client_of(server), "Capital of France?", threshold=0.95).abstained
        assert not rlcr.ask(client_of(server), "Capital of France?", threshold=0.9).abstained
        (body,) = {str(sorted(call.body)) for call in server.calls}
        assert body == "['max_tokens', 'messages', 'model', 'temperature', 'top_p']"
    assert "Capital of France?" in prompts[0]
    assert "<confidence>" in prompts[0]  # the system prompt of the method


VOTED = [text("Rome", "0.9"), text("Paris", "0.6"), text("paris", "0.5"), text("Lyon", "0.1")]


def check_voted(answer: rlcr.Answer) -> None:
    """Two hesitant samples outweigh a sure one; the surest of them speaks for both."""
    assert (answer.text, answer.confidence, answer.samples) == ("Paris", pytest.approx(0.55), 4)
    assert [(vote.answer, vote.votes) for vote in answer.votes] == [("Paris", 2), ("Rome", 1), ("Lyon", 1)]


@pytest.mark.parametrize("refuses", [(), ("n",), ("n", "seed")])
def test_votes_now_and_in_an_event_loop(refuses: tuple[str, ...]) -> None:
    _, server = in_turn(VOTED)
    server.refuses = set(refuses)
    settings = {"method": METHOD, "samples": 4}
    with server:
        check_voted(rlcr.ask(client_of(server), "Capital?", **settings))

        async def twice() -> list[rlcr.Answer]:
            async with openai.AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0) as client:
                return [await rlcr.ask_async(client, "Capital?", **settings) for _ in range(2)]

        for answer in asyncio.run(twice()):
            check_voted(answer)


def test_a_server_that_returns_fewer_than_asked_for() -> None:
    _, server = in_turn(VOTED)
    server.ignores = {"n"}
    with server:
        check_voted(rlcr.ask(client_of(server), "Capital?", method=METHOD, samples=4))


def test_the_wrong_kind_of_client() -> None:
    with ModelServer(lambda call: FULL) as server:
        client = openai.AsyncOpenAI(base_url=server.url, api_key="none")
        with pytest.raises(RlcrError, match="await rlcr.ask_async"):
            rlcr.ask(client, "Capital?")
    with pytest.raises(RlcrError, match="chat.completions.create"):
        rlcr.ask("http://127.0.0.1", "Capital?")  # pyright: ignore[reportArgumentType]


def test_errors_of_the_client_are_its_own() -> None:
    with ModelServer(lambda call: FULL, key="secret") as server, pytest.raises(openai.AuthenticationError):
        rlcr.ask(client_of(server), "Capital?", model="tiny")
    with ModelServer(lambda call: FULL, models=("a", "b")) as server:
        with pytest.raises(RlcrError, match="the server has a, b: name one"):
            rlcr.ask(client_of(server), "Capital?")
        assert rlcr.ask(client_of(server), "Capital?", model="b").text == "Paris"


def repairing(call: Call) -> str:
    if call.prompt.endswith("is equal to"):
        return " 85."
    return " Paris." if call.prompt.endswith("final answer is") else "<think>Hmm"


def test_what_is_missing_is_asked_for() -> None:
    """As in an evaluation, where the server continues a response; else the sample has no vote, or no weight."""
    with ModelServer(repairing) as server:
        answer = rlcr.ask(client_of(server), "Capital?", samples=2)
        assert (answer.text, answer.confidence, answer.votes[0].votes) == ("Paris", 0.85, 2)
    with ModelServer(repairing, refuses=["continue_final_message"]) as server:
        answer = rlcr.ask(client_of(server), "Capital?", samples=2)
        assert (answer.text, answer.confidence, answer.votes, answer.abstained) == (None, None, (), True)


def test_no_stated_confidence_is_never_enough() -> None:
    with ModelServer(
        lambda call: "<think>…</think><answer>Paris</answer>", refuses=["continue_final_message"]
    ) as server:
        answer = rlcr.ask(client_of(server), "Capital?", method="rlvr", threshold=0.0)
        assert (answer.text, answer.confidence, answer.abstained) == ("Paris", None, True)
        assert not rlcr.ask(client_of(server), "Capital?", method="rlvr").abstained


def test_choices_and_formulas_are_compared_by_their_own_rules() -> None:
    texts = {"Half?": [text("1/2", "0.5"), text("0.5", "0.5"), text("0.7", "0.8")]}
    assert rlcr.ask(Replay(texts), "Half?", method=METHOD, samples=3).text == "0.7"
    assert rlcr.ask(Replay(texts), "Half?", method=METHOD, samples=3, verifier="math").text == "1/2"
    problem = rlcr.Problem("1", "Where?", (), "choice", extras={"choices": {"A": "bank", "B": "library"}})
    texts = {"Where?": [text("B", "0.5"), text("library", "0.5"), text("A", "0.8")]}
    assert rlcr.ask(Replay(texts), problem, method=METHOD, samples=3).votes[0].votes == 2


def test_one_vote_is_that_of_the_pools() -> None:
    for seed in range(20):
        pool = ragged(seed)
        _, _, leader, second = final_votes(pool)
        for q, size in enumerate(pool.size_Q):
            found = standings(pool.group_QM[q, :size], pool.confidence_QM[q, :size])
            weights = [one.weight for one in found] + [0.0, 0.0]
            np.testing.assert_allclose(weights[:2], [leader[q], second[q]], atol=1e-9)


def test_it_stops_as_an_adaptive_run_does() -> None:
    """A question is left alone at the first round after which the rule is content."""
    texts, rule = simulated_texts(40, 16, seed=1), Rule(budget=16, safety=0.9)
    sampler, used = Replay(texts), []
    for question, stored in texts.items():
        answer = rlcr.ask(sampler, question, method=METHOD, samples=16, safety=0.9)
        used.append(answer.samples)
        for n in rule.rounds:
            said = [rlcr.parse(one, "confidence") for one in stored[:n]]
            weights = {one.answer: 0.0 for one in said}
            for one in said:
                weights[one.answer] += one.confidence or 0.0
            first, second = sorted([*weights.values(), 0.0])[::-1][:2]
            if rule.stops(np.array(first), np.array(second), n):
                assert answer.samples == n
                break
    assert min(used) == 4
    assert max(used) > 6
    assert sampler.drawn == sum(used)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"samples": 0}, "samples is 0: expected a whole number, at least one"),
        ({"samples": 2.5}, "samples is 2.5: expected a whole number"),
        ({"samples": True}, "samples is True: expected a whole number"),
        ({"sample": 2}, "^ask: unknown setting 'sample': did you mean samples?"),
        ({"verifier": "gym"}, "the verifier gym is not for a question by itself"),
        ({"samples": 2, "temperature": 0.0}, "above 0"),
        ({"safety": 0.9}, "several samples"),
        ({"threshold": 1.5}, "from 0 to 1"),
        ({"verifier": "exat"}, "did you mean exact?"),
        ({"method": "rlrc"}, "unknown method"),
        ({"threshold": "no/such.json"}, "the threshold is neither a number nor a file: no/such.json"),
        ({"recalibration": "no/such.json"}, "cannot be read"),
        ({"model": "x"}, "leave out model"),
    ],
)
def test_mistakes(settings: dict[str, object], says: str) -> None:
    with pytest.raises(RlcrError, match=says):
        rlcr.ask(Replay({}), "Capital?", **settings)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("question", ["", " \n", None, 5, Problem("1", "", (), "exact")])
def test_nothing_is_asked_without_a_question(question: Any) -> None:
    with pytest.raises(RlcrError, match="a question is a text or a Problem with one; got "):
        rlcr.ask(Replay({}), question)


class WrongPlace(BaseHTTPRequestHandler):
    """What may be found at an address where no model is, asked for by its path."""

    replies: ClassVar[dict[str, tuple[int, bytes]]] = {
        "/html": (200, b"<html>Welcome!</html>"),
        "/broken": (500, b"oh dear"),
        "/other": (200, b'{"foo": 1}'),
    }
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, content = self.replies[f"/{self.path.split('/')[1]}"]
        self.send_response(status)
        self.send_header("Retry-After", "200")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.mark.parametrize("place", ["html", "broken", "other", "other#named"])
def test_a_wrong_address_is_soon_said(place: str) -> None:
    WrongPlace.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), WrongPlace) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            said = command("ask", "Capital?", "--model", f"http://127.0.0.1:{server.server_port}/{place}")
        finally:
            server.shutdown()
    assert said.returncode == 2
    assert "failed 3 times" in said.stderr
    assert "is the URL right? It usually ends in /v1" in said.stderr
    assert len(WrongPlace.asked) == 3


def test_the_command_prints_a_bar() -> None:
    _, server = in_turn(VOTED)
    with server:
        said = command(
            "ask", "Capital?", "--model", server.url, "--method", METHOD, "--samples", 4, "--threshold", 0.9
        )
    assert said.returncode == 0, said.stderr
    assert said.stdout.splitlines() == [
        "Paris",
        "███████████░░░░░░░░░ confidence 0.55",
        "abstains: below the threshold",
        "4 samples: Paris (2), Rome (1), Lyon (1)",
    ]


def test_a_terminal_gets_the_votes_short_and_without_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    _, server = in_turn([text("Athens", "0.9"), text("in the year 1896 " * 9, "0.5")])
    with server:
        said = command("ask", "Where?", "--model", server.url, "--method", METHOD, "--samples", 2)
    last = said.stdout.splitlines()[-1]
    assert last.startswith("2 samples: Athens (1), in the year 1896 in")
    assert len(last) <= 80
