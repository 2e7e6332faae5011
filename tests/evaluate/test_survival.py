"""One completion on which the parser or a verifier fails is unscorable, with the reason; no run ends at it."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.evaluate.capitals import capitals, country_of, good_reply, records_of
from tests.servers import Call, ModelServer

from rlcr import response as response_module
from rlcr import verify as verify_module
from rlcr.errors import RlcrError
from rlcr.evaluate import Settings, evaluate, rescore
from rlcr.evaluate.grade import read_response
from rlcr.evaluate.importing import TableColumns, import_run
from rlcr.evaluate.results import Results, TaskResult
from rlcr.evaluate.score import score
from rlcr.problem import Problem
from rlcr.reward import get_reward
from rlcr.training.early_verdicts import EarlyVerdicts
from rlcr.verify import Verdict

POISON = "poison"
PARSER_FAILED = "the parser failed: IndexError: list index out of range"
VERIFIER_FAILED = "the verifier failed: ZeroDivisionError: poison"

strict_reading = response_module._parse_strict
exact = verify_module.VERIFIERS["exact"]


def failing_reading(text: str, *others: Any) -> response_module.Response:
    if POISON in text:
        raise IndexError("list index out of range")
    return strict_reading(text, *others)


def failing_verifier(problems: Sequence[Problem], answers: Sequence[str | None]) -> list[Verdict]:
    if any(POISON in (answer or "") for answer in answers):
        raise ZeroDivisionError(POISON)
    return exact(problems, answers)


@pytest.fixture(autouse=True)
def fresh_readings() -> Iterator[None]:
    """The grader remembers how it read a text; another parser must not meet what this one read."""
    read_response.cache_clear()
    yield
    read_response.cache_clear()


@pytest.fixture(params=["parser", "verifier"])
def reason(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The parser, or the verifier, fails on one text: with this reason."""
    if request.param == "parser":
        monkeypatch.setattr(response_module, "_parse_strict", failing_reading)
        return PARSER_FAILED
    monkeypatch.setitem(verify_module.VERIFIERS, "exact", failing_verifier)
    return VERIFIER_FAILED


def poisoned_reply(call: Call) -> str:
    """Good, but for one of the twenty questions."""
    text = good_reply(call)
    poisoned = "[3]" in call.prompt and country_of(call.prompt) == "France"
    return text.replace("Paris", POISON) if poisoned else text


def only(results: Results) -> TaskResult:
    (task,) = results.tasks.values()
    return task


def completion(answer: str) -> str:
    return f"<think>…</think><answer>{answer}</answer><analysis>…</analysis><confidence>0.8</confidence>"


def test_a_think_after_a_whole_response_from_a_server_that_opens_the_first(tmp_path: Path) -> None:
    def reply(call: Call) -> str:
        text = good_reply(call)
        if "[3]" in call.prompt and country_of(call.prompt) == "France":
            return text.removeprefix("<think>") + "<think>"
        return text

    with ModelServer(reply) as server:
        results = evaluate(Settings(server.url, (capitals(tmp_path),), "rlcr"), tmp_path / "run")
    records = {record["id"]: record for record in records_of(tmp_path / "run")}
    assert len(records) == only(results).completions == 20
    record = records["capitals/France-3"]
    assert (record["think_open"], record["fault"]) == (True, "<think> more than once")
    assert (record["answer"], record["confidence"], record["verdict"]) == ("Paris", 0.9, "correct")


def test_an_evaluation_its_resumption_and_rescoring(tmp_path: Path, reason: str) -> None:
    run = tmp_path / "run"
    with ModelServer(poisoned_reply) as server:
        settings = Settings(server.url, (capitals(tmp_path),), "rlcr")
        results = evaluate(settings, run)
        whole = records_of(run)
        # As if it had ended half-way, with the poisoned reply among those still to be made.
        kept = [json.dumps(r, ensure_ascii=False) + "\n" for r in whole if "-3" not in r["id"]]
        (run / "records.jsonl").write_text("".join(kept))
        resumed = evaluate(settings, run, resume=True)
    rescored = rescore(run)
    for result in (results, resumed, rescored):
        task = only(result)
        assert (task.completions, task.summary.n, dict(task.unscorable)) == (20, 19, {reason: 1})
        assert task.repair_rate == {"answer": 0, "confidence": 0}
    records = records_of(run)
    assert len(records) == 20
    (lost,) = [record for record in records if record["verdict"] == "unscorable"]
    assert (lost["id"], lost["reason"], lost["forced_answer"]) == ("capitals/France-3", reason, None)
    assert sum(record["verdict"] == "correct" for record in records) == 9


def test_a_run_is_graded_whole_once_the_failure_is_mended(tmp_path: Path, reason: str) -> None:
    with ModelServer(poisoned_reply) as server:
        evaluate(Settings(server.url, (capitals(tmp_path),), "rlcr"), tmp_path / "run")
    with pytest.MonkeyPatch.context() as mended:
        mended.setattr(response_module, "_parse_strict", strict_reading)
        mended.setitem(verify_module.VERIFIERS, "exact", exact)
        read_response.cache_clear()  # mended in another version, so in another process
        task = only(rescore(tmp_path / "run"))
    assert (task.summary.n, dict(task.unscorable)) == (20, {})


def test_completions_made_elsewhere(tmp_path: Path, reason: str) -> None:
    answers = ["Paris", POISON, "Rome", "Paris"]
    scores = score(map(completion, answers), ["Paris"] * 4)
    assert [record.verdict for record in scores.records] == ["correct", "unscorable", "wrong", "correct"]
    assert scores.records[1].reason == reason
    assert scores.tally.unscorable == {reason: 1}

    table = tmp_path / "table.jsonl"
    rows = [{"q": f"{i}?", "text": completion(answer), "gold": "Paris"} for i, answer in enumerate(answers)]
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    results = import_run(table, tmp_path / "run", TableColumns("text", "gold", "q"))
    assert only(results).unscorable == {reason: 1}
    assert [r["verdict"] for r in records_of(tmp_path / "run")] == [
        "correct",
        "unscorable",
        "wrong",
        "correct",
    ]


@pytest.mark.parametrize("early", [False, True])
def test_rewards(reason: str, early: bool) -> None:
    problem = Problem("1", "Capital of France?", ("Paris",), "exact")
    texts = [*map(completion, ["Paris", POISON, "Rome"]), "malformed"]
    with EarlyVerdicts("strict") as verdicts:
        verifying = verdicts.verify if early else verify_module.verify
        scored = get_reward("rlcr").score(texts, [problem] * 4, verifying=verifying)
    assert [verdict.outcome for verdict in scored.verdicts] == ["correct", "unscorable", "wrong", "wrong"]
    assert scored.verdicts[1].reason == reason
    right, lost, wrong, malformed = scored.rewards.totals()
    assert lost is None
    assert (right, wrong, malformed) == pytest.approx((0.98, 0.18, -0.5))


def test_what_the_caller_got_wrong_is_still_raised(tmp_path: Path, reason: str) -> None:
    with pytest.raises(RlcrError, match="unknown verifier"):
        score([completion(POISON)], ["Paris"], verifier="exat")
    with pytest.raises(RlcrError, match="unknown format"):
        score([completion(POISON)], ["Paris"], format="rlxr")
    with pytest.raises(RlcrError, match="is graded by a judge"):
        get_reward("rlcr").score([completion(POISON)], [Problem("1", "", ("Paris",), "judge")])
