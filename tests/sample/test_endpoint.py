"""The endpoint sampler against a real HTTP server in this process: what it asks, and what servers refuse."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from tests.sample.endpoints import GREEDY, HOT, ask, echo, expected, names, patient
from tests.servers import Call, ModelServer

from rlcr.errors import RlcrError
from rlcr.sample import Request, Sampling, wire
from rlcr.sample.endpoint import EndpointSampler

# Good times ----------------------------------------------------------------------------------------------


def test_a_chat_completion_with_everything() -> None:
    with ModelServer(echo) as server:
        [one] = patient(server).sample([ask(1)], GREEDY)
    assert (one.key, one.sample, one.text, one.finish_reason) == ("q1", 0, "question 1 #0", "stop")
    assert [one.text[a:b] for a, b in one.token_spans] == ["question", " ", "1", " ", "#", "0"]
    assert len(one.logprobs) == one.completion_tokens == 6
    assert one.prompt_tokens > 0
    assert one.token_ids == ()


@pytest.mark.parametrize("mode", ["chat", "completion"])
def test_the_prompt_is_the_same_in_both_modes(mode: Any) -> None:
    prompts: list[str] = []

    def listen(call: Call) -> str:
        prompts.append(call.prompt)
        return "yes"

    messages = ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 2?"})
    with ModelServer(listen) as server:
        sampler = patient(server, mode=mode)
        list(sampler.sample([Request("a", messages), Request("b", messages, prefix="Well,")], GREEDY))
    assert sorted(prompts) == [
        "Be brief.\n\nUser: 2 + 2?\n\nAssistant:",
        "Be brief.\n\nUser: 2 + 2?\n\nAssistant:Well,",
    ]


class Template:
    """A tokenizer as far as we need one: its template opens <think>, and it puts a start token in front."""

    chat_template = "…"
    bos_token, bos_token_id = "<s>", 1

    def apply_chat_template(self, conversation: Any, **_: Any) -> str:
        return f"<s>[{conversation[0]['content']}]<think>\n"

    def encode(self, text: str) -> list[int]:
        return [1]


def test_a_tokenizer_means_completion_mode_and_its_template() -> None:
    with ModelServer(lambda call: f"{call.prompt}</think>") as server:
        [one] = patient(server, tokenizer=Template()).sample([ask(1, prefix="Hm,")], GREEDY)
    assert server.calls[0].path == "/v1/completions"
    assert one.text == "[question 1]<think>\nHm,</think>"  # the server adds the start token itself
    assert one.think_open


def test_sampling_settings_arrive() -> None:
    sampling = Sampling(max_tokens=7, temperature=0.7, top_p=0.9, stop=("END",), seed=5)
    with ModelServer(echo) as server:
        list(patient(server).sample([ask(1, n=3, first_sample=2)], sampling))
    body = server.calls[0].body
    assert body["max_tokens"] == 7
    assert (body["temperature"], body["top_p"], body["stop"], body["n"]) == (0.7, 0.9, ["END"], 3)
    assert body["seed"] == wire.derived_seed(5, "q1", 2)
    # A model's own generation_config.json must not decide how we sample.
    assert (body["top_k"], body["repetition_penalty"]) == (-1, 1.0)


def test_samples_are_numbered_and_differ() -> None:
    with ModelServer(echo) as server:
        found = list(patient(server).sample([ask(1, n=8, first_sample=4)], HOT))
    assert sorted(one.sample for one in found) == list(range(4, 12))
    assert len({one.text for one in found}) == 8
    assert len(server.calls) == 1


def test_greedy_asks_once_for_any_number() -> None:
    with ModelServer(echo, refuses={"n", "seed"}) as server:
        found = list(patient(server).sample([ask(1, n=3)], GREEDY))
    assert len(server.calls) == 1
    assert [(one.sample, one.text) for one in found] == [(n, "question 1 #0") for n in range(3)]


@pytest.mark.parametrize("how", ["ignores", "refuses"])
def test_a_server_that_gives_one_sample_at_a_time(how: str) -> None:
    requests = [ask(i, n=5) for i in range(4)]
    with ModelServer(echo, **{how: {"n"}}) as server:  # type: ignore[arg-type]
        found = list(patient(server).sample(requests, HOT))
    assert names(found) == expected(requests)
    assert len({one.text for one in found}) == 20


def test_stop_strings_and_length() -> None:
    with ModelServer(lambda _: "one two three four") as server:
        sampler = patient(server)
        [stopped] = sampler.sample([ask(1)], Sampling(64, stop=("three",)))
        [cut] = sampler.sample([ask(1)], Sampling(2))
    assert (stopped.text, stopped.finish_reason) == ("one two ", "stop")
    assert stopped.token_spans[-1] == (8, 8)  # after the stop string
    assert (cut.text, cut.finish_reason) == ("one two", "length")


def test_usage_is_shared_where_there_are_no_logprobs() -> None:
    with ModelServer(lambda call: "a b" if call.number % 2 else "a b c d", ignores={"logprobs"}) as server:
        found = list(patient(server).sample([ask(1, n=3)], HOT))
    total = sum(one.completion_tokens for one in found)
    assert total == sum(len(one.text.split()) for one in found)
    assert max(one.completion_tokens for one in found) - min(one.completion_tokens for one in found) <= 1
    assert all(one.logprobs == one.token_spans == () for one in found)


def test_reasoning_is_put_back_in_front() -> None:
    said = "<think>é 🙂</think><answer>4</answer>"
    with ModelServer(lambda _: said, reasoning=True) as server:
        [one] = patient(server).sample([ask(1)], GREEDY)
    assert one.text == said
    assert not one.think_open
    assert sum(a <= said.index("🙂") < b for a, b in one.token_spans) == 2


def test_a_response_that_begins_inside_think() -> None:
    with ModelServer(lambda _: "hm</think><think>") as server:
        [one] = patient(server).sample([ask(1)], GREEDY)
        assert one.think_open
        [one] = patient(server).sample([ask(1, prefix="<think>")], GREEDY)
        assert not one.think_open


def test_models_and_the_default_one() -> None:
    with ModelServer(echo) as server:
        assert EndpointSampler(server.url + "/").name == "tiny"
    with ModelServer(echo, models=("a", "b")) as server, pytest.raises(RlcrError, match="serves a, b: name"):
        EndpointSampler(server.url)


# What servers refuse -------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["logprobs", "top_k", "seed", "n"])
def test_what_a_server_refuses_is_left_out_and_remembered(field: str) -> None:
    requests = [ask(i, n=2) for i in range(6)]
    with ModelServer(echo, refuses={field}) as server:
        found = list(patient(server, concurrency=1).sample(requests, HOT))
    assert names(found) == expected(requests)
    assert sum(field in call.body for call in server.calls) == 1
    assert all(bool(one.logprobs) == (field != "logprobs") for one in found)


def test_a_server_that_refuses_several_things() -> None:
    requests = [ask(i, n=2) for i in range(20)]
    with ModelServer(echo, refuses={"logprobs", "top_k", "repetition_penalty", "seed"}) as server:
        found = list(patient(server).sample(requests, HOT))
    assert names(found) == expected(requests)


def test_no_chat_template_means_plain_completion() -> None:
    with ModelServer(echo, chat_template=False) as server:
        [one] = patient(server).sample([ask(1)], GREEDY)
        assert one.text == "question 1 #0"
        with pytest.raises(RlcrError, match="use completion mode"):
            list(patient(server, mode="chat").sample([ask(1)], GREEDY))


def test_refused_prefill_names_the_alternatives() -> None:
    server = ModelServer(echo, refuses={"continue_final_message"})
    with server, pytest.raises(RlcrError, match="request 'q1'.*completion mode with the model's tokenizer"):
        list(patient(server).sample([ask(1, prefix="So")], GREEDY))
    assert len(server.calls) == 1


@pytest.mark.parametrize(
    ("settings", "model", "message"),
    [
        ({"key": "right"}, "tiny", r"HTTP 401: Incorrect API key.*set RLCR_API_KEY"),
        ({}, "huge", r"HTTP 404: The model `huge` does not exist.; there is no model 'huge', but tiny"),
        ({"context": 50}, "tiny", r"HTTP 400: .*context length is 50.*fewer tokens"),
        (
            {"refuses": {"top_p"}},
            "tiny",
            r"request 'q1': http://127.* says HTTP 400: Unknown parameter: 'top_p'",
        ),
    ],
)
def test_fatal_refusals_are_one_line_and_not_repeated(settings: Any, model: str, message: str) -> None:
    server = ModelServer(echo, **settings)
    with server, pytest.raises(RlcrError, match=message) as caught:
        list(EndpointSampler(server.url, model).sample([ask(1)], GREEDY))
    assert len(server.calls) == 1
    assert "\n" not in str(caught.value)


def test_a_url_without_v1() -> None:
    with ModelServer(echo) as server:
        url = server.url.removesuffix("/v1")
        with pytest.raises(RlcrError, match="HTTP 404.*usually ends in /v1"):
            list(EndpointSampler(url, "tiny").sample([ask(1)], GREEDY))
        with pytest.raises(RlcrError, match="does not list its models.*/v1"):
            EndpointSampler(url)


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://x/v1", "http://", "http://x:port/v1", ""])
def test_bad_urls(url: str) -> None:
    with pytest.raises(RlcrError, match="is no base URL"):
        EndpointSampler(url, "tiny")


def test_an_address_where_nobody_ever_answers(caplog: pytest.LogCaptureFixture) -> None:
    with ModelServer(echo) as server:
        pass
    with pytest.raises(RlcrError, match="cannot reach http://127.* is it running"):
        list(EndpointSampler(server.url, "tiny", attempts=100, backoff=0.01).sample([ask(1)], GREEDY))
    assert len(caplog.records) < 10  # of 100 attempts: a server that was never there is not waited for


def test_without_the_client_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(RlcrError, match=r'pip install "rlcr\[endpoint\]"'):
        EndpointSampler("http://localhost:1/v1", "tiny")


def test_bad_settings() -> None:
    for settings in ({"mode": "talk"}, {"concurrency": 0}, {"attempts": 0}, {"timeout": 0.0}):
        with pytest.raises(RlcrError):
            EndpointSampler("http://localhost:1/v1", "tiny", **settings)  # type: ignore[arg-type]
    with pytest.raises(RlcrError, match="q1: asks for 0 samples"):
        list(EndpointSampler("http://localhost:1/v1", "tiny").sample([ask(1, n=0)], GREEDY))
