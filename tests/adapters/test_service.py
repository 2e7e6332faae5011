"""The reward service as its clients meet it: a process, a socket, and bodies of every kind."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.adapters.reward_servers import RewardServer, limited_server, reward_server
from tests.command import rlcr as command

import rlcr
from rlcr.adapters.core import Row, Scorer
from rlcr.adapters.service import RewardService, serve
from rlcr.errors import RlcrError


def text(answer: str, confidence: str = "0.8") -> str:
    parts = {"think": "…", "answer": answer, "analysis": "…", "confidence": confidence}
    return rlcr.FORMATS["rlcr"].render(**parts)


RIGHT, WRONG, MALFORMED = text("0.5"), text("2/3", "0.9"), "0.5"
GOLD = "1/2"
TOTALS = [0.98, 0.095, -0.5]


@pytest.fixture(scope="module")
def server() -> Iterator[RewardServer]:
    with reward_server("--reward", "rlcr", "--verifier", "math") as running:
        yield running


def test_every_shape_gets_the_cores_numbers(server: RewardServer) -> None:
    texts = [RIGHT, WRONG, MALFORMED]
    core = [one.total for one in Scorer(verifier="math").score([Row(one, GOLD) for one in texts])]
    assert core == pytest.approx(TOTALS, abs=1e-12)

    status, ours = server.post({"rows": [{"completion": one, "gold": GOLD} for one in texts]})
    assert (status, ours["rewards"]) == (200, core)
    assert [row["correct"] for row in ours["rows"]] == [True, False, False]
    assert ours["rows"][2]["reason"] == "missing <think>"

    prompt = "<|im_start|>user\nA half?<|im_end|>\n<|im_start|>assistant\n"
    queries = [prompt + one + "<|im_end|>" for one in texts]
    body = {"query": queries, "prompts": [prompt] * 3, "labels": [GOLD] * 3}
    status, openrlhf = server.post(body, path="/get_reward")
    assert (status, openrlhf["rewards"], openrlhf["scores"]) == (200, core, [1.0, 0.0, 0.0])
    status, single = server.post({key: value[:1] for key, value in body.items()})
    assert (status, single["rewards"]) == (200, core[0])

    slime = [server.post({"prompt": prompt, "response": one, "label": GOLD}) for one in texts]
    assert slime == [(200, total) for total in core]

    for one, total in zip(texts, core, strict=True):
        thought, _, rest = one.removeprefix("<think>").partition("</think>")
        output = [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": thought}]},
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": rest or one}],
            },
        ]
        verify = {
            "responses_create_params": {"input": [{"role": "user", "content": "A half?"}]},
            "response": {"id": "r", "output": output if rest else output[1:]},
            "expected_answer": GOLD,
        }
        status, reply = server.post(verify, path="/verify")
        assert status == 200
        assert reply["reward"] == total
        assert {key: reply[key] for key in verify} == verify
        assert "mask_sample" not in reply
    assert server.post({}, path="/seed_session") == (200, {})


def test_a_thought_that_the_prompt_opened(server: RewardServer) -> None:
    body = {"prompt": "A half?\n<think>\n", "response": RIGHT.removeprefix("<think>"), "label": GOLD}
    assert server.post(body) == (200, pytest.approx(0.98))


def test_unscorable_is_not_wrong(server: RewardServer) -> None:
    """A gold that is none, and a completion that is no text: null, masked, or the constant."""
    rows = [{"completion": RIGHT, "gold": None}, {"completion": 17, "gold": GOLD}]
    status, ours = server.post({"rows": rows})
    assert (status, ours["rewards"]) == (200, [None, None])
    assert [row["scorable"] for row in ours["rows"]] == [False, False]
    assert server.post({"prompt": "", "response": RIGHT, "label": None}) == (200, 0.0)
    output = [{"type": "message", "content": [{"type": "output_text", "text": RIGHT}]}]
    body = {"responses_create_params": {}, "response": {"output": output}, "expected_answer": [None]}
    for nothing in ([None], None):
        status, reply = server.post(body | {"expected_answer": nothing}, path="/verify")
        assert (status, reply["reward"], reply["mask_sample"]) == (200, 0.0, True)


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe{}", "not JSON"),
        (b"[1]", "expected a JSON object, found list"),
        (b"{}", "no known set of keys"),
        (b'{"rows": 3}', "rows: expected a list"),
        (b'{"rows": [3]}', "row 0: expected an object"),
        (b'{"rows": [{"completion": "x"}]}', "row 0: has no gold"),
        (b'{"rows": [{"completion": "x", "golds": "y"}]}', "row 0: unknown key 'golds'; did you mean gold?"),
        (
            b'{"rows": [{"completion": "x", "gold": "y", "verifier": "mtah"}]}',
            "row 0: unknown verifier 'mtah': did you mean math?",
        ),
        (b'{"rows": [{"completion": "x", "gold": "y", "verifier": ["math"]}]}', "row 0: unknown verifier"),
        (
            b'{"rows": [{"completion": "x", "gold": "y", "verifer": "math"}]}',
            "row 0: unknown key 'verifer'; did",
        ),
        (b'{"rows": [{"completion": "x", "gold": "y", "seed": 1}]}', "row 0: unknown key 'seed'; known"),
        (b'{"rows": [], "verifier": "math"}', "the body: unknown key 'verifier'; known: rows"),
        (b'{"rows": [], "prompt": "", "response": "", "label": ""}', "unknown key 'prompt'"),
        (b'{"query": ["a"], "prompts": [], "labels": []}', "1 queries, 0 prompts and 0 labels"),
        (b'{"query": "a", "prompts": [], "labels": []}', "query: expected a list"),
        (b'{"responses_create_params": {}, "response": {}, "gold": "1"}', "list `output`"),
        (b'{"responses_create_params": {}, "response": {"output": []}}', "needs the gold"),
        (b'{"rows": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (b'{"rows": ' + b"1" * 5_000 + b"}", "digits"),
    ],
)
def test_malformed_bodies(server: RewardServer, raw: bytes, says: str) -> None:
    status, reply = server.post(None, raw=raw)
    assert status == 400
    assert says in reply["error"]
    assert "\n" not in reply["error"]


def test_keys_of_other_engines_are_their_own_business(server: RewardServer) -> None:
    slime = {"prompt": "", "response": RIGHT, "label": GOLD, "metadata": {"a": 1}}
    assert server.post(slime) == (200, pytest.approx(0.98))
    output = [{"type": "message", "content": [{"type": "output_text", "text": RIGHT}]}]
    verify = {"responses_create_params": {}, "response": {"output": output}, "expected_answer": GOLD}
    status, reply = server.post(verify | {"rows": 5, "level": "hard"}, path="/verify")
    assert (status, reply["reward"], reply["level"]) == (200, pytest.approx(0.98), "hard")


@pytest.mark.parametrize("label", ['{"a": 1}', '{"Gold": "1/2"}', "{}", {"a": 1}])
def test_a_label_without_gold_is_not_a_gold(server: RewardServer, label: object) -> None:
    """An object is never the text to compare with: nobody can judge it, and OpenRLHF's logs count it."""
    body = {"query": [RIGHT, RIGHT], "prompts": ["", ""], "labels": [label, json.dumps({"gold": GOLD})]}
    status, reply = server.post(body)
    assert (status, reply["rewards"]) == (200, [0.0, pytest.approx(0.98)])
    assert reply["extra_logs"]["unscorable"] == [1.0, 0.0]
    # A set is written with the same signs.
    sets = {"prompt": "", "response": text(r"\{1, 2\}"), "label": "{1, 2}"}
    assert server.post(sets) == (200, pytest.approx(0.98))


GYM = {"dataset": "chain_sum", "settings": {}, "seed": 1, "size": 2, "index": 0, "metadata": {}}


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({}, "not a problem of the gym task, its extras lack 'dataset'"),
        (GYM | {"seed": "x"}, "extras: seed must be a whole number"),
        (GYM | {"dataset": "no_such"}, "unknown dataset"),
        (GYM | {"settings": {"terms": 3}}, "unknown setting"),
    ],
)
def test_a_row_of_gym_without_its_data(server: RewardServer, more: dict[str, object], reason: str) -> None:
    good = {"completion": RIGHT, "gold": GOLD}
    status, reply = server.post({"rows": [good, good | {"verifier": "gym"} | more, good]})
    assert (status, reply["rewards"]) == (200, [pytest.approx(0.98), None, pytest.approx(0.98)])
    said = reply["rows"][1]["reason"]
    assert reason in said
    assert not said.startswith(":")


def test_odd_rows_do_not_harm_the_others(server: RewardServer) -> None:
    rows = [
        {"completion": RIGHT, "gold": GOLD},
        {"completion": {"role": "assistant", "content": RIGHT}, "gold": [GOLD, "7"]},
        {"completion": "x" * 1_000_000, "gold": GOLD},
        {"completion": "\ud83d", "gold": "\ud83d", "verifier": "exact", "question": 3, "id": [1]},
        {"completion": None, "gold": {"a": 1}, "choices": 7},
    ]
    status, reply = server.post({"rows": rows})
    assert status == 200
    assert reply["rewards"] == [pytest.approx(0.98), pytest.approx(0.98), -0.5, -0.5, None]


def test_health_and_metrics(server: RewardServer) -> None:
    status, health = server.call("GET", "/health")
    assert (status, health["status"], health["reward"], health["verifier"]) == (200, "ok", "rlcr", "math")
    server.post({"prompt": "", "response": RIGHT, "label": GOLD})
    server.post(None, raw=b"{")
    status, metrics = server.call("GET", "/metrics")
    assert status == 200
    assert re.search(r'^rlcr_requests_total\{shape="slime",status="200"\} [1-9]', metrics, re.M)
    assert re.search(r'^rlcr_requests_total\{shape="unknown",status="400"\} [1-9]', metrics, re.M)
    assert re.search(r'^rlcr_completions_total\{verdict="correct"\} [1-9]', metrics, re.M)
    assert "\nrlcr_waiting_requests 0\n" in metrics
    assert "\nrlcr_held_bytes 0\n" in metrics


def test_other_paths_and_methods(server: RewardServer) -> None:
    status, reply = server.call("GET", "/helth")
    assert (status, reply["error"].partition(":")[0]) == (404, "nothing to GET here")
    assert server.call("PUT", "/", b"{}") == (405, {"error": "Method Not Allowed: PUT"})


def test_killed_workers_cost_no_verdict(server: RewardServer) -> None:
    """kill -9 of the processes that compare formulas, while 40 requests need them."""
    stop = threading.Event()
    killed = []

    def kill() -> None:
        while not stop.is_set() and len(killed) < 3:
            for pid in server.workers()[:1]:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
            time.sleep(0.05)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        bodies = [
            {"prompt": "", "response": text(f"\\sqrt{{{n * n}}} + x"), "label": f"x + {n}"}
            for n in range(2, 42)
        ]
        with ThreadPoolExecutor(8) as clients:
            replies = list(clients.map(server.post, bodies))
    finally:
        stop.set()
        killer.join()
    assert killed
    assert replies == [(200, pytest.approx(0.98))] * 40


def test_a_body_that_is_too_large() -> None:
    with limited_server(body=100_000) as server:
        status, reply = server.post({"rows": [{"completion": "x" * 200_000, "gold": "x"}]})
        assert (status, reply["error"].startswith("the body is larger than 100,000 bytes")) == (413, True)
        # Without a stated length, and more than is drained: the reply comes all the same, or the connection ends.
        connection = server.connection()
        connection.putrequest("POST", "/")
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            connection.send(itertools.repeat(chunk, 2_000))
        connection.close()
        assert server.post({"rows": []}) == (200, {"rewards": [], "rows": []})
        assert "\nrlcr_held_bytes 0\n" in server.call("GET", "/metrics")[1]


def test_a_slow_client_and_one_that_leaves() -> None:
    with limited_server(client_seconds=0.5) as server:
        head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"
        with (
            socket.create_connection(server.address) as slow,
            socket.create_connection(server.address) as gone,
        ):
            slow.sendall(head)
            gone.sendall(head)
            gone.close()
            assert server.post({"rows": []})[0] == 200  # while they are there
            slow.settimeout(60)
            said = b"".join(iter(lambda: slow.recv(4096), b""))
        assert said.startswith(b"HTTP/1.1 408 ")
        assert b"did not arrive within 0.5 s" in said
        assert "\nrlcr_waiting_requests 0\n" in server.call("GET", "/metrics")[1]


def test_back_pressure() -> None:
    """Two requests may be under way: while both hang in their bodies a third is told to come back."""
    with limited_server(waiting=2) as server:
        head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 14\r\n\r\n"
        first, second = (socket.create_connection(server.address) for _ in range(2))
        with first, second:
            for one in (first, second):
                one.sendall(head)
            while server.call("GET", "/health")[1]["waiting"] < 2:
                time.sleep(0.01)
            connection = server.connection()
            connection.request("POST", "/", b'{"rows": []}')
            reply = connection.getresponse()
            assert (reply.status, reply.headers["Retry-After"]) == (503, "1")
            assert json.loads(reply.read())["error"].startswith("busy: 2 requests are under way")
            for one in (first, second):
                one.sendall(b'{"rows": []}  ')
                one.settimeout(60)
                assert one.recv(4096).startswith(b"HTTP/1.1 200 ")
        assert server.post({"rows": []})[0] == 200


def test_bodies_that_are_too_much_together() -> None:
    with limited_server(body=1000) as server:
        head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n" + b" " * 999
        holding = [socket.create_connection(server.address) for _ in range(8)]
        try:
            for one in holding:
                one.sendall(head)
            while "\nrlcr_held_bytes 7992\n" not in server.call("GET", "/metrics")[1]:
                time.sleep(0.01)
            assert server.post({"rows": []})[0] == 503
        finally:
            for one in holding:
                one.close()


def test_a_reply_that_takes_too_long() -> None:
    with limited_server(seconds=0.0) as server:
        status, reply = server.post({"rows": []})
        assert (status, reply["error"]) == (504, "no reply within 0 s; send fewer completions at once")


def test_a_token() -> None:
    with reward_server(RLCR_SERVE_TOKEN="s3cret") as server:
        body = {"rows": []}
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic s3cret"}):
            status, reply = server.post(body, headers=headers)
            assert status == 401
            assert "s3cret" not in json.dumps(reply)
        assert server.post(body, headers={"Authorization": "Bearer s3cret"})[0] == 200
        assert server.post(body, path="/get_reward?token=s3cret")[0] == 200
        assert server.call("GET", "/metrics")[0] == 401
        assert server.call("GET", "/health")[0] == 200


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--verifier", "gym"), "the verifier gym is not for a service: its problems carry the data"),
        (("--verifier", "mth"), "did you mean math? Known: exact, math, choice\n"),
        (("--unscorable", "nan"), "--unscorable takes a finite number, got nan"),
        (("--host", ""), "the host is empty"),
    ],
)
def test_options_that_it_does_not_take(options: tuple[str, str], says: str) -> None:
    refused = command("serve-reward", *options)
    assert (refused.returncode, says in refused.stderr) == (2, True), refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1


def test_other_machines_need_a_token() -> None:
    refused = command("serve-reward", "--host", "0.0.0.0", env={**os.environ, "RLCR_SERVE_TOKEN": ""})
    assert refused.returncode == 2
    assert "set RLCR_SERVE_TOKEN" in refused.stderr


def test_mistakes_in_its_settings() -> None:
    with pytest.raises(RlcrError, match="needs a number for what is unscorable"):
        RewardService(Scorer())
    service = RewardService(Scorer(unscorable=0.0))
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(RlcrError, match="cannot listen on 127.0.0.1, port"),
    ):
        serve(service, "127.0.0.1", taken.getsockname()[1], ready=print)


@pytest.mark.parametrize(("number", "verifier"), [(signal.SIGTERM, "math"), (signal.SIGINT, "exact")])
def test_it_finishes_what_has_begun(number: signal.Signals, verifier: str) -> None:
    with limited_server(verifier) as server:
        head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 14\r\n\r\n"
        with socket.create_connection(server.address) as client:
            client.sendall(head)
            while server.call("GET", "/health")[1]["waiting"] < 1:
                time.sleep(0.01)
            workers = server.workers()
            assert bool(workers) == (verifier == "math")
            server.process.send_signal(number)
            time.sleep(0.3)
            client.sendall(b'{"rows": []}  ')
            client.settimeout(60)
            assert client.recv(4096).startswith(b"HTTP/1.1 200 ")
        assert server.process.wait(60) == 0
        assert not any(os.path.exists(f"/proc/{pid}") for pid in workers)
