"""`rlcr eval` against a real server: stages, repairs, records, resuming after faults and kills, rescoring."""

import hashlib
import json
import random
import subprocess
import time
from pathlib import Path

import pytest
from tests import forks
from tests.evaluate.capitals import (
    CAPITALS,
    capitals,
    comparable,
    country_of,
    good_reply,
    needy_reply,
    records_of,
)
from tests.servers import Call, Faults, ModelServer

from rlcr.cli.show.results import print_results
from rlcr.errors import RlcrError
from rlcr.evaluate import Settings, evaluate, rescore
from rlcr.evaluate.methods import FORCED_CONFIDENCE, METHOD_FILE
from rlcr.evaluate.results import measure_records
from rlcr.problem import Problem
from rlcr.runs.record import from_cells
from rlcr.runs.store import create_run
from rlcr.tasks import write_problems


def test_a_run_from_problems_to_results(tmp_path: Path) -> None:
    with ModelServer(good_reply) as server:
        settings = Settings(server.url, (capitals(tmp_path),), "rlcr", samples=3)
        results = evaluate(settings, tmp_path / "run")
    (task,) = results.tasks.values()
    assert (task.completions, task.summary.n, task.summary.questions) == (60, 60, 20)
    assert task.summary.metrics["accuracy"].value == pytest.approx(0.5)
    assert task.summary.metrics["auroc"].value == 1.0
    assert task.repair_rate == {"answer": 0, "confidence": 0}
    # Answer probability is a further column, from the tokens of the answer.
    assert task.confidences["answer-probability"].overall.n == 60
    record = records_of(tmp_path / "run")[0]
    assert record["answer_logprobs"]
    assert 0 < record["answer_probability"] < 1
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert run["settings"]["temperature"] == 0.7
    assert len(run["settings"]["tasks"]["capitals"]["sha256"]) == 64
    for name in ("results.json", "results.md", "results.tex", "problems.jsonl"):
        assert (tmp_path / "run" / name).exists()
    assert not (tmp_path / "run" / "unfinished.jsonl").exists()


def test_forced_continuations_only_where_needed(tmp_path: Path) -> None:
    with ModelServer(needy_reply) as server:
        results = evaluate(Settings(server.url, (capitals(tmp_path, 1),), "base"), tmp_path / "run")
        posts = [call for call in server.calls if "completions" in call.path]
    assert len(posts) == 4 + 2 + 2
    found = {r["id"].split("/")[1].split("-")[0]: r for r in records_of(tmp_path / "run")}
    read = {
        name: (
            r["answer"],
            r["confidence"],
            r["verdict"],
            [part for part in ("answer", "confidence") if r[f"forced_{part}"] is not None],
        )
        for name, r in found.items()
    }
    assert read == {
        "France": ("Paris", 0.6, "correct", ["answer"]),
        "Italy": ("Rome", 0.7, "correct", ["confidence"]),
        "Spain": ("Madrid", 0.7, "correct", ["answer", "confidence"]),
        "Japan": ("Kyoto", 0.1, "wrong", []),
    }
    (task,) = results.tasks.values()
    assert task.repair_rate == {"answer": 0.5, "confidence": 0.5}


def test_faults_of_the_server_cost_nothing(tmp_path: Path) -> None:
    task = capitals(tmp_path, 10)
    with ModelServer(needy_reply) as server:
        evaluate(Settings(server.url, (task,), "base"), tmp_path / "calm")
    faults = Faults(rate_limit=0.05, error=0.05, drop=0.05, truncate=0.05)
    with ModelServer(needy_reply, faults=faults) as server:
        from rlcr.sample.endpoint import EndpointSampler

        sampler = EndpointSampler(server.url, backoff=0.01)
        evaluate(Settings(server.url, (task,), "base"), tmp_path / "stormy", sampler=sampler)
        assert sum(server.faults_served.values()) > 0
    assert comparable(tmp_path / "stormy") == comparable(tmp_path / "calm")


@pytest.mark.parametrize("seed", range(4))
def test_kill_and_resume_equals_an_uninterrupted_run(tmp_path: Path, seed: int) -> None:
    task = capitals(tmp_path, 25)
    with ModelServer(needy_reply, delay=0.01) as server:
        evaluate(Settings(server.url, (task,), "base"), tmp_path / "whole")
        command = [
            *forks.python(), "-m", "rlcr", "eval", "--model", server.url, "--task", task, "--method", "base",
            "--out", str(tmp_path / "killed"),
        ]  # fmt: skip
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        unfinished = tmp_path / "killed" / "unfinished.jsonl"
        while not unfinished.exists() and process.poll() is None:
            time.sleep(0.005)
        time.sleep(random.Random(seed).uniform(0, 0.6))
        process.kill()
        process.communicate()  # whose end comes with that of the program
        resumed = subprocess.run([*command, "--resume"], capture_output=True, text=True, check=False)
        assert resumed.returncode == 0, resumed.stderr
    assert comparable(tmp_path / "killed") == comparable(tmp_path / "whole")


def test_a_torn_line_is_sampled_again(tmp_path: Path) -> None:
    task, run = capitals(tmp_path, 3), tmp_path / "run"
    with ModelServer(good_reply) as server:
        settings = Settings(server.url, (task,), "rlcr")
        evaluate(settings, run)
        whole = comparable(run)
        text = (run / "records.jsonl").read_bytes()
        (run / "records.jsonl").write_bytes(text[:-40])
        evaluate(settings, run, resume=True)
    assert comparable(run) == whole


def test_a_finished_run_resumes_to_itself_without_asking(tmp_path: Path) -> None:
    with ModelServer(good_reply) as server:
        settings = Settings(server.url, (capitals(tmp_path),), "rlcr")
        first = evaluate(settings, tmp_path / "run")
        asked = len(server.calls)
        again = evaluate(settings, tmp_path / "run", resume=True)
        assert len(server.calls) == asked
    assert again.to_dict() == first.to_dict()


def test_resume_refuses_other_settings_and_lists_them(tmp_path: Path) -> None:
    task, run = capitals(tmp_path), tmp_path / "run"
    with ModelServer(good_reply) as server:
        evaluate(Settings(server.url, (task,), "rlcr"), run)
        with pytest.raises(RlcrError, match=r"max_tokens was 4096, is 7; .*seed was 0, is 3"):
            evaluate(Settings(server.url, (task,), "rlcr", max_tokens=7, seed=3), run, resume=True)
        with pytest.raises(RlcrError, match="not empty; --resume continues it"):
            evaluate(Settings(server.url, (task,), "rlcr"), run)
        with pytest.raises(RlcrError, match="not a run"):
            evaluate(Settings(server.url, (task,), "rlcr"), tmp_path / "nothing", resume=True)


def test_rescoring_never_samples_and_reads_forced_confidences_both_ways(tmp_path: Path) -> None:
    def sure(call: Call) -> str:
        return " 1" if call.prompt.endswith(FORCED_CONFIDENCE) else "<think>…</think><answer>Paris</answer>"

    with ModelServer(sure) as server:
        evaluate(Settings(server.url, (capitals(tmp_path),), "rlvr"), tmp_path / "run")
    assert {r["confidence"] for r in records_of(tmp_path / "run")} == {0.01}
    before = comparable(tmp_path / "run")
    results = rescore(tmp_path / "run", grading="paper")
    assert {r["confidence"] for r in records_of(tmp_path / "run")} == {1.0}
    assert results.settings["grading"] == "paper"
    rescore(tmp_path / "run", grading="strict")
    assert comparable(tmp_path / "run") == before


def test_a_server_that_cannot_continue_costs_the_repairs_and_nothing_else(tmp_path: Path) -> None:
    with ModelServer(needy_reply, refuses=("continue_final_message", "add_generation_prompt")) as server:
        results = evaluate(Settings(server.url, (capitals(tmp_path, 2),), "base"), tmp_path / "run")
    (task,) = results.tasks.values()
    assert task.completions == 8
    assert task.unrepaired == {"answer": 4, "confidence": 4}
    assert task.repair_rate == {"answer": 0, "confidence": 0}
    assert task.summary.metrics["coverage"].value == 0.5


def test_results_do_not_depend_on_the_order_of_records(tmp_path: Path) -> None:
    with ModelServer(good_reply) as server:
        first = evaluate(Settings(server.url, (capitals(tmp_path),), "rlcr", samples=3), tmp_path / "run")
    shuffled = records_of(tmp_path / "run")
    random.Random(0).shuffle(shuffled)
    assert measure_records(map(from_cells, shuffled), first.settings).to_dict() == first.to_dict()


def test_a_repair_that_does_not_fit_costs_itself_alone(tmp_path: Path) -> None:
    """The context holds every response, but not every response with the question after it."""

    def long_winded(call: Call) -> str:
        if call.prompt.endswith(FORCED_CONFIDENCE):
            return " 70."
        padding = "so " * (300 if country_of(call.prompt) == "France" else 1)
        return f"<think>{padding}</think><answer>{CAPITALS[country_of(call.prompt)]}</answer>"

    with ModelServer(long_winded, context=446) as server:
        settings = Settings(server.url, (capitals(tmp_path, 2),), "rlvr", max_tokens=350)
        results = evaluate(settings, tmp_path / "run")
    (task,) = results.tasks.values()
    assert task.completions == 8
    assert task.unrepaired == {"confidence": 2}
    assert task.summary.metrics["coverage"].value == 0.75


def test_two_tasks_may_not_share_ids(tmp_path: Path) -> None:
    task = capitals(tmp_path, 1)
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(Path(task).read_bytes())
    with ModelServer(good_reply) as server, pytest.raises(RlcrError, match="stands for several problems"):
        evaluate(Settings(server.url, (task, str(copy)), "rlcr"), tmp_path / "run")


def test_a_failed_start_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(RlcrError, match="cannot reach"):
        evaluate(Settings("http://127.0.0.1:9/v1", (capitals(tmp_path),), "base"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_many_unscorable_answers_are_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = [Problem(f"p/{n}", f"[{n}] Capital of France?", ("Paris",), "exact") for n in range(19)]
    unknown = Problem("p/19", "[19] Capital of France?", (" ",), "exact")
    write_problems(tmp_path / "p.jsonl", [*known, unknown])
    with ModelServer(good_reply) as server:
        results = evaluate(Settings(server.url, (str(tmp_path / "p.jsonl"),), "rlcr"), tmp_path / "run")
    (task,) = results.tasks
    warning = (
        "1 of 20 answers (5.0%) are unscorable and count for nothing, most often: the problem has no gold"
    )
    assert results.warnings == [f"{task}: {warning}"]
    assert rescore(tmp_path / "run").warnings == results.warnings
    assert json.loads((tmp_path / "run" / "results.json").read_text())["warnings"] == results.warnings
    assert warning in (tmp_path / "run" / "results.md").read_text()
    print_results(results)
    assert f"warning: {task}: {warning}" in capsys.readouterr().out


def test_what_was_never_graded_is_not_rescored(tmp_path: Path) -> None:
    create_run(tmp_path / "sft", {"model": "tiny"}, {}, {})
    with pytest.raises(RlcrError, match="nothing in it was ever graded"):
        rescore(tmp_path / "sft")


def test_an_unfinished_run_is_not_rescored(tmp_path: Path) -> None:
    with ModelServer(good_reply) as server:
        evaluate(Settings(server.url, (capitals(tmp_path),), "rlcr"), tmp_path / "run")
    records = tmp_path / "run" / "records.jsonl"
    records.write_text("".join(records.read_text().splitlines(keepends=True)[:5]))
    with pytest.raises(RlcrError, match="unfinished .5 of 20."):
        rescore(tmp_path / "run")


def test_a_judge_is_asked_once_for_each_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLCR_CACHE", str(tmp_path / "cache"))
    problems = [Problem(f"j/{i}", f"Capital of France? {i}", ("Paris",), "judge") for i in range(6)]
    task = tmp_path / "judged.jsonl"
    write_problems(task, problems)

    def answer(call: Call) -> str:
        number = int(hashlib.sha256(call.prompt.encode()).hexdigest(), 16) % 2
        return f"<think>…</think><answer>{['Paris, France', 'Rome'][number]}</answer><confidence>0.5</confidence>"

    def judge(call: Call) -> str:
        return "YES" if '"answer": "Paris' in call.prompt else "NO"

    with ModelServer(answer) as server, ModelServer(judge, models=("judge",)) as judging:
        settings = Settings(server.url, (str(task),), "base", judge=judging.url)
        results = evaluate(settings, tmp_path / "run")
        asked = len([c for c in judging.calls if "completions" in c.path])
        assert asked == 6
        rescore(tmp_path / "run", judge=judging.url)
        assert len([c for c in judging.calls if "completions" in c.path]) == asked
        with pytest.raises(RlcrError, match="give --judge"):
            evaluate(Settings(server.url, (str(task),), "base"), tmp_path / "other")
    (found,) = results.tasks.values()
    right = sum(r["verdict"] == "correct" for r in records_of(tmp_path / "run"))
    assert found.unscorable == {}
    assert 0 < right < 6


def test_the_method_stored_with_a_checkpoint_is_the_default(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    task = capitals(tmp_path, 1)
    with ModelServer(good_reply) as server:
        from rlcr.sample.endpoint import EndpointSampler

        sampler = EndpointSampler(server.url)
        with pytest.raises(RlcrError, match="give --method"):
            evaluate(Settings(str(model), (task,)), tmp_path / "run", sampler=sampler)
        (model / METHOD_FILE).write_text('{"method": "rlcr-long"}')
        results = evaluate(Settings(str(model), (task,)), tmp_path / "run", sampler=sampler)
        assert results.settings["method"] == "rlcr-long"
