"""Runs of which a server refuses a part: what failed is recorded and counted, and blocks nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.command import rlcr
from tests.evaluate.capitals import CAPITALS, capitals, comparable, good_reply, needy_reply, records_of
from tests.servers import Call, ModelServer, Refusal, Reply
from tests.tiny import tiny_model, tiny_tokenizer

from rlcr.errors import RlcrError
from rlcr.evaluate import Settings, evaluate, rescore
from rlcr.many.analyses import Ask, sample_analyses
from rlcr.problem import Problem
from rlcr.sample.endpoint import EndpointSampler
from rlcr.sample.local import LocalSampler
from rlcr.tasks import write_problems

FILTER = "The prompt was filtered by our content policy."
REASON = f"HTTP 400: {FILTER}"


def refusing(wanted: Callable[[Call], bool], reply: Reply = good_reply, status: int = 400) -> Reply:
    """A model behind a filter."""

    def answer(call: Call) -> str:
        if wanted(call):
            raise Refusal(status, FILTER)
        said = reply(call)
        assert isinstance(said, str)
        return said

    return answer


def spain_3(call: Call) -> bool:
    return "[3] Capital of Spain?" in call.prompt


def failed(run: Path) -> list[dict]:
    path = run / "failed.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def impatient(server: ModelServer) -> EndpointSampler:
    return EndpointSampler(server.url, "tiny", attempts=2, backoff=0.0)


@pytest.fixture
def judge_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLCR_CACHE", str(tmp_path / "cache"))


def test_one_refused_problem_fails_alone_and_can_be_asked_again(tmp_path: Path) -> None:
    run, task = tmp_path / "run", capitals(tmp_path, 10)
    with ModelServer(refusing(spain_3)) as server:
        command = ("eval", "--model", server.url, "--task", task, "--method", "rlcr", "--out", run)
        first = rlcr(*command)
        assert first.returncode == 0, first.stderr
        printed = " ".join(first.stdout.split())
        assert "39 of 40 completions; 1 failed" in printed
        assert REASON in printed
        results = json.loads((run / "results.json").read_text())
        assert results["coverage"] == {"capitals": {"asked": 40, "answered": 39, "failed": {REASON: 1}}}
        assert "1 failed" in (run / "results.md").read_text()
        (line,) = failed(run)
        assert line.pop("crc")
        assert line == {
            "id": "capitals/Spain-3", "sample": 0, "task": "capitals", "reason": REASON, "status": 400,
        }  # fmt: skip
        # It is finished: resuming asks nothing, and says the same.
        asked = len(server.calls)
        assert rlcr(*command, "--resume").returncode == 0
        assert len(server.calls) == asked
        assert json.loads((run / "results.json").read_text()) == results
        # Asked again, it fails again.
        again = rlcr(*command, "--resume", "--retry-failed")
        assert again.returncode == 0, again.stderr
        assert sum("[3] Capital of Spain?" in str(call.body) for call in server.calls[asked:]) == 1
        assert json.loads((run / "results.json").read_text()) == results
        # Once the server has thought better of it, the run is whole.
        server.reply = good_reply
        healed = rlcr(*command, "--resume", "--retry-failed")
        assert healed.returncode == 0
        assert "failed" not in healed.stdout
        coverage = json.loads((run / "results.json").read_text())["coverage"]
        assert coverage == {"capitals": {"asked": 40, "answered": 40, "failed": {}}}
        evaluate(Settings(server.url, (task,), "rlcr"), tmp_path / "whole")
    assert comparable(run) == comparable(tmp_path / "whole")
    assert rlcr(*command, "--retry-failed").returncode == 2


@pytest.mark.parametrize("status", [400, 500])
def test_a_server_that_refuses_everything_stops_the_run(tmp_path: Path, status: int) -> None:
    run = tmp_path / "run"
    with ModelServer(refusing(lambda _: True, status=status)) as server:
        settings = Settings(server.url, (capitals(tmp_path, 50),), "rlcr")
        with pytest.raises(
            RlcrError, match=f"HTTP {status}: {FILTER}.* .and .* more like it.; it does not answer"
        ):
            evaluate(settings, run, sampler=impatient(server))
        assert len(server.calls) <= 2 * (16 + 32)
    assert failed(run) == []


@pytest.mark.parametrize(("status", "says"), [(400, "either"), (500, "either"), (401, "API_KEY")])
def test_a_server_that_breaks_down_fails_no_problem(tmp_path: Path, status: int, says: str) -> None:
    """Half of the replies, and then the same refusal for everything: that is not about the problems."""
    run, task = tmp_path / "run", capitals(tmp_path, 10)
    answered, lock = set[str](), threading.Lock()

    def runs_dry(call: Call) -> bool:
        with lock:
            if len(answered) < 20:
                answered.add(call.prompt)
                return False
            return True

    with ModelServer(refusing(runs_dry, status=status)) as server:
        settings = Settings(server.url, (task,), "rlcr")
        with pytest.raises(RlcrError, match=says):
            evaluate(settings, run, sampler=impatient(server))
        assert failed(run) == []
        with pytest.raises(RlcrError, match=r"unfinished"):
            rescore(run)
        server.reply = good_reply
        (coverage,) = evaluate(settings, run, resume=True, sampler=impatient(server)).coverage.values()
    assert (coverage.answered, coverage.asked) == (40, 40)


def test_many_refusals_in_a_row_are_still_about_the_problems(tmp_path: Path) -> None:
    """They come back at once, and the answers after them take their time."""
    task = capitals(tmp_path, 15)

    def early(call: Call) -> bool:
        return any(f"[{number}] " in call.prompt for number in range(10))

    with ModelServer(refusing(early)) as server:
        settings = Settings(server.url, (task,), "rlcr")
        sampler = EndpointSampler(server.url, "tiny", concurrency=4)
        (coverage,) = evaluate(settings, tmp_path / "run", sampler=sampler).coverage.values()
    assert (coverage.answered, coverage.failed) == (20, {REASON: 40})


def test_a_refused_repair_costs_itself_alone(tmp_path: Path) -> None:
    def forced_spain(call: Call) -> bool:
        return "Spain" in call.prompt and "Thinking time ended" in call.prompt

    with ModelServer(refusing(forced_spain, needy_reply)) as server:
        results = evaluate(Settings(server.url, (capitals(tmp_path, 2),), "base"), tmp_path / "run")
    (task,) = results.tasks.values()
    assert task.unrepaired == {"answer": 2, "confidence": 2}
    assert task.completions == 8
    assert failed(tmp_path / "run") == []


def test_every_command_takes_a_run_with_failures(tmp_path: Path) -> None:
    """Of one problem every sample failed, of another all but the first."""
    run, whole = tmp_path / "run", tmp_path / "whole"
    counted, lock = [0], threading.Lock()

    def some(call: Call) -> bool:
        if "[1] Capital of Italy?" in call.prompt:
            with lock:
                counted[0] += 1
                return counted[0] > 1
        return spain_3(call)

    with ModelServer(refusing(some), ignores={"n"}) as server:
        settings = Settings(server.url, (capitals(tmp_path, 10),), "rlcr", samples=4)
        results = evaluate(settings, run)
        server.reply = good_reply
        evaluate(settings, whole)
        (coverage,) = results.coverage.values()
        assert (coverage.answered, coverage.asked) == (153, 160)
        rescore(run)
        found = sample_analyses(run, Ask(samples=2), model=server.url)
        assert found["analyses refused"] == 0
    measured = json.loads(rlcr("metrics", run, "--json").stdout)
    assert (measured["n"], measured["failed"]) == (153, 7)
    assert "7 samples were asked for and failed" in rlcr("metrics", run).stdout
    compared = rlcr("compare", whole, run)
    assert "completions that failed, and are in no pair: 0 against 7" in compared.stdout
    commands = [
        ("rescore", run),
        ("vote", run, "--subsets", 20),
        ("coherence", run),
        ("select", run, "--precision", 0.5),
        ("confidence", "add", "agreement", run),
        ("export", run, "--out", tmp_path / "exported"),
        ("report", run, "--out", tmp_path / "page.html"),
    ]
    for command in commands:
        done = rlcr(*command)
        assert done.returncode == 0, (command, done.stderr)
    assert "7 of 160 completions failed" in (tmp_path / "page.html").read_text()
    assert "unfinished" not in (tmp_path / "page.html").read_text()
    (sizes,) = json.loads((tmp_path / "exported" / "results.json").read_text())["n-samples"].values()
    assert sizes == {"original": 160, "effective": 153}


def test_an_adaptive_run_with_failures(tmp_path: Path) -> None:
    run = tmp_path / "run"
    refused = {"[0] Capital of Spain?": 0, "[1] Capital of Spain?": 2}
    lock = threading.Lock()

    def some(call: Call) -> bool:
        for question, after in refused.items():
            if question in call.prompt:
                with lock:
                    refused[question] -= 1
                    return after <= 0
        return False

    with ModelServer(refusing(some), ignores={"n"}) as server:
        settings = Settings(
            server.url, (capitals(tmp_path, 2),), "rlcr", samples=6, temperature=0.7, adaptive=0.95
        )
        evaluate(settings, run)
        lost = len(failed(run))
        assert lost
        asked = len(server.calls)
        evaluate(settings, run, resume=True)
        assert len(server.calls) == asked
        server.reply = good_reply
        (coverage,) = evaluate(settings, run, resume=True, retry_failed=True).coverage.values()
    assert coverage.failed == {}
    assert {r["id"] for r in records_of(run)} == {f"capitals/{c}-{n}" for c in CAPITALS for n in (0, 1)}


def test_refused_analyses_are_counted_and_asked_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with ModelServer(good_reply) as server:
        evaluate(Settings(server.url, (capitals(tmp_path, 4),), "rlcr"), run)
        server.reply = refusing(spain_3)
        ask = Ask(samples=3)
        assert sample_analyses(run, ask, model=server.url)["analyses refused"] == 3
        assert len((run / "analyses.jsonl").read_text().splitlines()) == 45
        server.reply = good_reply
        assert sample_analyses(run, ask, model=server.url)["analyses refused"] == 0
        server.reply = refusing(lambda _: True)
        with pytest.raises(RlcrError, match="either"):
            sample_analyses(run, Ask(samples=4), model=server.url)


@pytest.mark.usefixtures("judge_cache")
def test_answers_that_the_judge_refuses_are_unscorable(tmp_path: Path) -> None:
    task = tmp_path / "judged.jsonl"
    write_problems(
        task, [Problem(f"j/{i}", f"[{i}] Capital of France?", ("Paris",), "judge") for i in range(6)]
    )
    judge = refusing(lambda call: "[3] Capital" in call.prompt, lambda _: "YES")
    with ModelServer(good_reply) as server, ModelServer(judge, models=("judge",)) as judging:
        settings = Settings(server.url, (str(task),), "rlcr", judge=judging.url)
        (found,) = evaluate(settings, tmp_path / "run").tasks.values()
        assert found.unscorable == {"the judge refused to answer": 1}
        judging.reply = refusing(lambda _: True)
        with pytest.raises(RlcrError, match="either"):
            rescore(tmp_path / "run", judge=judging.url)
        judging.reply = lambda _: "YES"
        (healed,) = rescore(tmp_path / "run", judge=judging.url).tasks.values()
    assert healed.unscorable == {}


def test_a_prompt_too_long_for_a_local_model_fails_alone(tmp_path: Path) -> None:
    task = tmp_path / "sizes.jsonl"
    words = {"short": "sum", "long": "sum " * 3000}
    write_problems(task, [Problem(name, text, ("1",), "exact") for name, text in words.items()])
    sampler = LocalSampler(tiny_model(max_position_embeddings=2048), tiny_tokenizer(), name="tiny")
    settings = Settings("tiny", (str(task),), "base", max_tokens=4)
    (coverage,) = evaluate(settings, tmp_path / "run", sampler=sampler).coverage.values()
    assert coverage.failed == {"the prompt is longer than the model's 2048 positions": 1}
    assert coverage.answered == 1
    write_problems(task, [Problem("long", words["long"], ("1",), "exact")])
    with pytest.raises(RlcrError, match="long: the prompt has .* positions$"):
        evaluate(settings, tmp_path / "nothing", sampler=sampler)
