"""What a server calls a log-probability and is none: rounding is forgiven, the rest is missing and counted."""

import math
from pathlib import Path

import pytest
from tests.evaluate.capitals import capitals, country_of, good_reply, records_of
from tests.servers import Call, ModelServer, Token

from rlcr.cli.show.results import print_results
from rlcr.confidence.sources import add_column
from rlcr.evaluate import Settings, evaluate, rescore
from rlcr.evaluate.results import load_results
from rlcr.runs.columns import read_column
from rlcr.runs.lines import json_line, write_whole
from rlcr.runs.store import open_run
from rlcr.sample import Completion, Request, Sampling
from rlcr.sample.endpoint import EndpointSampler

UNSOUND = [math.nan, math.inf, -math.inf, 0.002, 3.5, 1e308]


def with_logprob(text: str, logprob: float) -> list[Token]:
    """The text in tokens of one character, of which the middle of its answer is that probable."""
    odd = (text.index("<answer>") + text.index("</answer>") + len("<answer>")) // 2
    return [(letter.encode(), logprob if at == odd else -0.25) for at, letter in enumerate(text)]


def sampled(logprob: float, mode: str) -> Completion:
    with ModelServer(lambda call: with_logprob("<answer>42</answer>", logprob)) as server:
        sampler = EndpointSampler(server.url, mode=mode)  # pyright: ignore[reportArgumentType]
        (one,) = sampler.sample([Request("q", ({"role": "user", "content": "?"},))], Sampling(64))
    assert one.text == "<answer>42</answer>"
    return one


@pytest.mark.parametrize("mode", ["chat", "completion"])
@pytest.mark.parametrize("logprob", [0.0, 1e-9, 0.001, -9999.0])
def test_rounding_above_zero_is_zero(logprob: float, mode: str) -> None:
    one = sampled(logprob, mode)
    assert sorted(set(one.logprobs)) == sorted({-0.25, min(0.0, logprob)})
    assert len(one.token_spans) == len(one.logprobs) == len(one.text)


@pytest.mark.parametrize("mode", ["chat", "completion"])
@pytest.mark.parametrize("logprob", UNSOUND)
def test_what_is_no_log_probability_is_missing(logprob: float, mode: str) -> None:
    one = sampled(logprob, mode)
    assert one.logprobs == one.token_spans == ()
    assert one.completion_tokens == len(one.text)  # the server's own count stands


@pytest.mark.parametrize("logprob", UNSOUND)
def test_a_run_counts_what_is_missing(
    logprob: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def reply(call: Call) -> list[Token]:
        poisoned = "[3]" in call.prompt and country_of(call.prompt) == "France"
        text = good_reply(call).replace("…", ".")
        return with_logprob(text, logprob if poisoned else -0.5)

    run = tmp_path / "run"
    with ModelServer(reply) as server:
        results = evaluate(Settings(server.url, (capitals(tmp_path),), "rlcr"), run)
    (task,) = results.tasks.values()
    assert (task.completions, task.summary.n, task.without_logprobs) == (20, 20, 1)
    assert task.confidences["answer-probability"].overall.metrics["coverage"].value == 0.95
    assert [entry["without_logprobs"] for entry in load_results(run)["tasks"].values()] == [1]
    print_results(results)
    assert ": 1 of 20 without log-probabilities" in capsys.readouterr().out
    for name in ("response-likelihood", "answer-probability-min", "answer-probability-product"):
        add_column(run, name)
        column = read_column(open_run(run), name)
        assert [key for key, value in column.items() if value is None] == [("capitals/France-3", 0)]
        assert all(value < 1 for value in column.values() if value is not None)


@pytest.mark.parametrize("logprob", [math.nan, 3.5])
def test_a_damaged_record_can_be_rescored(logprob: float, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with ModelServer(lambda call: with_logprob(good_reply(call).replace("…", "."), -0.5)) as server:
        evaluate(Settings(server.url, (capitals(tmp_path),), "rlcr"), run)
    records = records_of(run)
    records[5] |= {"logprob": logprob * 100, "answer_logprobs": {"strict": [-0.25, logprob], "paper": []}}
    write_whole(run / "records.jsonl", map(json_line, records))
    (task,) = rescore(run).tasks.values()
    assert task.without_logprobs == 1
    assert task.confidences["answer-probability"].overall.metrics["coverage"].value == 0.95
