"""The endpoint sampler against a real HTTP server in this process, in good times and bad."""

from __future__ import annotations

import hashlib
import logging
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from tests.servers import Call, Faults, ModelServer, model_reply

from rlcr.errors import RlcrError
from rlcr.sample import Completion, Request, Sampling, wire
from rlcr.sample.connection import Server
from rlcr.sample.endpoint import EndpointSampler

GREEDY = Sampling(max_tokens=64)
HOT = Sampling(max_tokens=64, temperature=1.0)
SECRET = "sk-recognise-me-0123456789"


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("RLCR_API_KEY", raising=False)


def echo(call: Call) -> str:
    """The last words of the prompt, and which sample it is."""
    return f"{call.prompt.rsplit('User: ', 1)[-1].removesuffix('Assistant:').strip()} #{call.number}"


def ask(number: int, **settings: Any) -> Request:
    return Request(f"q{number}", ({"role": "user", "content": f"question {number}"},), **settings)


def patient(server: ModelServer, **settings: Any) -> EndpointSampler:
    """A sampler that does not wait long between attempts."""
    return EndpointSampler(server.url, "tiny", **({"backoff": 0.002, "attempts": 40} | settings))


def names(completions: Sequence[Completion]) -> Counter[tuple[str, int]]:
    return Counter((completion.key, completion.sample) for completion in completions)


def expected(requests: Sequence[Request]) -> Counter[tuple[str, int]]:
    return Counter(
        (request.key, request.first_sample + number) for request in requests for number in range(request.n)
    )


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


# Tokens --------------------------------------------------------------------------------------------------

EMOJI = "plain é 🙂🙃 naïve 日本"


@pytest.mark.parametrize("mode", ["chat", "completion"])
@pytest.mark.parametrize("style", ["bytes", "vllm", "replaced"])
def test_spans_where_characters_are_split_across_tokens(style: Any, mode: Any) -> None:
    with ModelServer(lambda _: EMOJI, tokens=style) as server:
        [one] = patient(server, mode=mode).sample([ask(1)], GREEDY)
    assert one.text == EMOJI
    assert len(one.logprobs) == len(one.token_spans) > 0
    covered = [set(range(a, b)) for a, b in one.token_spans]
    assert set().union(*covered) == set(range(len(EMOJI)))
    assert all(a[0] <= b[0] for a, b in pairwise(one.token_spans))
    for at, character in enumerate(EMOJI):
        holders = [one.token_spans[i] for i, span in enumerate(covered) if at in span]
        if character in "🙂🙃日本":  # each in two halves
            assert len(holders) >= 2
            if style == "bytes":
                assert len(holders) == 2
                assert holders[1] == (at, at + 1)
        elif style == "bytes" and character.isascii() and EMOJI[at + 1 : at + 2].isascii():
            assert len(holders) == 1


def test_spans_against_a_slow_oracle() -> None:
    """Cut random text, also invalid UTF-8, into random bytes: a token covers its bytes' characters."""
    import random

    draw = random.Random(0)
    for _ in range(1000):
        characters = [draw.choice("ab é🙂日�\n").encode() for _ in range(draw.randint(0, 12))]
        # A character cut short before one that does not go on with it decodes to one U+FFFD.
        characters = [
            c[: draw.randint(2, 3)] if len(c) == 4 and draw.random() < 0.3 else c for c in characters
        ]
        data = b"".join(characters)
        text = data.decode("utf-8", "replace")
        owner = [at for at, character in enumerate(characters) for _ in character]
        cuts = sorted(draw.randint(0, len(data)) for _ in range(draw.randint(0, 6)))
        bounds = [(a, b) for a, b in pairwise([0, *cuts, len(data)]) if a < b]
        tokens = [data[a:b] for a, b in bounds]
        spans = tuple((owner[a], owner[b - 1] + 1) for a, b in bounds)
        assert wire.token_spans(text, tokens) == spans, (text, tokens)
        end = (len(text), len(text))
        assert wire.token_spans(text, [*tokens, b"<|im_end|>"]) == (*spans, end)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("abc", [b"ab"]), ("abc", [b"x", b"y"]), ("héllo", [b"h", "�".encode(), b"xx"]), ("a", [])],
)
def test_tokens_of_another_text_have_no_spans(text: str, tokens: list[bytes]) -> None:
    assert wire.token_spans(text, tokens) is None


def test_a_text_cut_inside_a_character() -> None:
    assert wire.token_spans("a�", [b"a", b"\xf0\x9f"]) == ((0, 1), (1, 2))


def test_a_special_token_in_the_middle_covers_nothing() -> None:
    assert wire.token_spans("ab", [b"a", b"<|x|>", b"b"]) == ((0, 1), (1, 1), (1, 2))


def test_a_real_model_behind_the_server() -> None:
    """Text, spans and logprobs are those of the model, which writes invalid UTF-8 too."""
    pytest.importorskip("transformers")
    import torch
    from tests.tiny import tiny_model, tiny_tokenizer

    from rlcr.sample.tokens import token_spans

    tokenizer, model = tiny_tokenizer(), tiny_model()
    conversation = list(ask(1).messages)
    prompt = tokenizer.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True)
    ids = tokenizer(prompt, return_tensors="pt").input_ids
    wrote = model.generate(ids, max_new_tokens=24, do_sample=False)[0]
    new = wrote[ids.shape[1] :]
    with torch.no_grad():
        logprobs = model(wrote[None]).logits[0, ids.shape[1] - 1 : -1].log_softmax(-1)
    text, spans = token_spans(tokenizer, new.tolist())
    with ModelServer(model_reply(model, tokenizer)) as server:
        [one] = patient(server, tokenizer=tokenizer).sample([ask(1)], Sampling(24))
    assert one.text == text
    assert list(one.token_spans) == spans
    assert one.logprobs == pytest.approx(logprobs.gather(1, new[:, None])[:, 0].tolist(), abs=1e-4)


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
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(RlcrError, match=r'pip install "rlcr\[endpoint\]"'):
        EndpointSampler("http://localhost:1/v1", "tiny")


def test_bad_settings() -> None:
    for settings in ({"mode": "talk"}, {"concurrency": 0}, {"attempts": 0}, {"timeout": 0.0}):
        with pytest.raises(RlcrError):
            EndpointSampler("http://localhost:1/v1", "tiny", **settings)  # type: ignore[arg-type]
    with pytest.raises(RlcrError, match="q1: asks for 0 samples"):
        list(EndpointSampler("http://localhost:1/v1", "tiny").sample([ask(1, n=0)], GREEDY))


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


def test_a_broken_reply_is_asked_for_again_and_then_named() -> None:
    request = ask(1)
    good = {"choices": [{"finish_reason": "stop", "message": {"content": None}}], "usage": None}
    [one] = wire.completions(good, request, GREEDY, first=0, n=1, think_open=None)
    assert (one.text, one.completion_tokens) == ("", 0)
    for broken, missing in [
        ([], "choices"),
        ({"choices": []}, "no choices"),
        ({"choices": [{"message": {}}]}, "finish_reason"),
        ({"choices": [{"finish_reason": "stop"}]}, "text"),
        ({"choices": [{"finish_reason": "stop", "message": {"content": ["x"]}}]}, "no text"),
        ({"choices": [{"finish_reason": "abort", "text": "x"}]}, "gave up"),
        ({"choices": [{"finish_reason": "stop", "text": "x", "logprobs": {"tokens": ["x"]}}]}, "logprobs"),
    ]:
        with pytest.raises(wire.BrokenReplyError, match=missing):
            wire.completions(broken, request, GREEDY, first=0, n=1, think_open=None)


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


# The key -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "sent"),
    [
        ({}, "none"),
        ({"OPENAI_API_KEY": "general"}, "general"),
        ({"OPENAI_API_KEY": "general", "RLCR_API_KEY": "ours"}, "ours"),
    ],
)
def test_where_the_key_comes_from(
    environment: dict[str, str], sent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ModelServer(echo) as server:
        sampler = patient(server)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        list(sampler.sample([ask(1)], GREEDY))
    assert server.calls[0].headers["authorization"] == f"Bearer {sent}"


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


def test_seeds_do_not_repeat() -> None:
    seeds = {wire.derived_seed(s, f"q{k}", n) for s in range(3) for k in range(30) for n in range(30)}
    assert len(seeds) == 2700
    assert max(seeds) < 2**31
    assert wire.derived_seed(0, "a", 1) == int(hashlib.sha256(b"0\0a\x001").hexdigest()[:8], 16) >> 1
