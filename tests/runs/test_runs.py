"""What a run must survive and refuse: other weights, other gradings, full disks, two writers, broken files."""

import json
import os
import resource
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.evaluate.test_evaluate import capitals, comparable, country_of, good_reply, needy_reply, records_of
from tests.servers import Call, ModelServer

from rlcr.errors import RlcrError
from rlcr.evaluate import Settings, evaluate, rescore
from rlcr.evaluate.compare import compare_runs
from rlcr.evaluate.export import export
from rlcr.evaluate.judge import RememberingJudge
from rlcr.evaluate.methods import FORCED_ANSWER, FORCED_CONFIDENCE
from rlcr.evaluate.progress import RunProgress
from rlcr.evaluate.results import load_results
from rlcr.problem import Problem
from rlcr.runs.store import Appender, Run, locked
from rlcr.sample import Completion, Request, Sampling
from rlcr.sample.endpoint import EndpointSampler
from rlcr.sample.opening import Access, Typed, open_sampler
from rlcr.tasks import write_problems
from rlcr.verify import Message


def cli(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rlcr", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def posts(server: ModelServer) -> list[str]:
    return [call.path for call in server.calls if "completions" in call.path]


# --- which model it was -----------------------------------------------------------------------------


def test_resume_refuses_another_model_behind_the_same_address(tmp_path: Path) -> None:
    with ModelServer(good_reply) as server:
        settings = Settings(server.url, (capitals(tmp_path, 1),), "rlcr")
        evaluate(settings, tmp_path / "run")
        server.models = ("other",)
        with pytest.raises(RlcrError, match='other settings: model_name was "tiny", is "other"'):
            evaluate(settings, tmp_path / "run", resume=True)


def test_resume_refuses_other_weights_of_the_same_name(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from tests.tiny import tiny_model, tiny_tokenizer

    model = tmp_path / "model"
    tiny_model().save_pretrained(model)
    tiny_tokenizer(chat_template=None).save_pretrained(model)
    task = tmp_path / "task.jsonl"
    write_problems(task, [Problem("sum", "2 + 2?", ("4",), "exact")])
    settings = Settings(str(model), (str(task),), "base", max_tokens=4)
    first = evaluate(settings, tmp_path / "run", access=Access(device="cpu"))
    assert first.settings["model_weights"].startswith("float32 ")
    evaluate(settings, tmp_path / "run", resume=True, access=Access(device="cpu"))
    with pytest.raises(RlcrError, match='model_weights was "float32 .*", is "bfloat16 '):
        evaluate(settings, tmp_path / "run", resume=True, access=Access(device="cpu", dtype="bfloat16"))
    tiny_model(seed=1).save_pretrained(model)
    with pytest.raises(RlcrError, match="other settings: model_weights was"):
        evaluate(settings, tmp_path / "run", resume=True, access=Access(device="cpu"))


class FakeSampler:
    """Answers from a list, and counts."""

    def __init__(self, replies: list[str], name: str = "judge", fingerprint: str = "1") -> None:
        self.replies, self.name, self.fingerprint = replies, name, fingerprint
        self.asked = 0
        self.closed = False

    def sample(self, requests: Any, sampling: Sampling) -> Generator[Completion, None, None]:
        try:
            for request in requests:
                self.asked += 1
                yield Completion(request.key, 0, self.replies.pop(0), "stop")
        finally:
            self.closed = True


QUESTIONS = [[Message(role="user", content=text)] for text in ("one", "two \ud800", "three")]


def test_two_judges_of_one_name_do_not_share_their_memory(tmp_path: Path) -> None:
    yes, no = FakeSampler(["YES"] * 3), FakeSampler(["NO"] * 3, fingerprint="2")
    assert RememberingJudge(yes, tmp_path).complete(QUESTIONS) == ["YES"] * 3
    assert RememberingJudge(no, tmp_path).complete(QUESTIONS) == ["NO"] * 3
    assert RememberingJudge(yes, tmp_path).complete(QUESTIONS) == ["YES"] * 3
    assert yes.asked == no.asked == 3


def test_a_judge_forgets_what_it_could_not_say_and_survives_a_torn_line(tmp_path: Path) -> None:
    judge = FakeSampler(["YES", "well", "NO", "NO"])
    assert RememberingJudge(judge, tmp_path).complete(QUESTIONS) == ["YES", "well", "NO"]
    assert RememberingJudge(judge, tmp_path).complete(QUESTIONS) == ["YES", "NO", "NO"]
    assert judge.asked == 4
    (memory,) = tmp_path.iterdir()
    memory.write_bytes(memory.read_bytes()[:-9])
    judge.replies = ["YES"]
    assert RememberingJudge(judge, tmp_path).complete(QUESTIONS) == ["YES", "YES", "NO"]


# --- grading ----------------------------------------------------------------------------------------


def test_resuming_a_rescored_run_keeps_the_name_of_its_grading(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with ModelServer(needy_reply) as server:
        settings = Settings(server.url, (capitals(tmp_path, 1),), "base")
        evaluate(settings, run)
        rescore(run, grading="paper")
        again = evaluate(settings, run, resume=True)
    assert again.settings["grading"] == load_results(run)["settings"]["grading"] == "paper"
    assert rescore(run).settings["grading"] == "paper"
    assert rescore(run, grading="strict").settings["grading"] == "strict"


def test_answer_probability_is_that_of_the_answer_that_is_graded(tmp_path: Path) -> None:
    def reply(call: Call) -> str:
        if call.prompt.endswith(FORCED_CONFIDENCE):
            return " 70"
        if call.prompt.endswith(FORCED_ANSWER):
            return " Madrid.\n\nThat"
        # The paper reads the last block anywhere, we the last one outside other blocks.
        return {
            "Spain": "no tags",
            "Italy": "<answer>Rome</answer><think>or <answer>New York</answer>?</think><confidence>1</confidence>",
        }.get(country_of(call.prompt), "<answer>Paris</answer><confidence>1</confidence>")

    with ModelServer(reply) as server:
        evaluate(Settings(server.url, (capitals(tmp_path, 1),), "base"), tmp_path / "run")

    def probabilities() -> dict[str, tuple[str, float]]:
        found = {r["id"].split("/")[1][:5]: r for r in records_of(tmp_path / "run")}
        return {name: (r["answer"], r["answer_probability"]) for name, r in found.items()}

    strict = probabilities()
    assert strict["Spain"] == ("Madrid", pytest.approx(0.904837, abs=1e-5))  # its first token: e^-0.1
    assert strict["Italy"][0] == "Rome"
    rescore(tmp_path / "run", grading="paper")
    paper = probabilities()
    assert paper["Spain"] == strict["Spain"]
    assert paper["Franc"] == strict["Franc"]
    assert paper["Italy"][0] == "New York"
    assert paper["Italy"][1] not in (None, strict["Italy"][1])


# --- files ------------------------------------------------------------------------------------------


def test_a_full_disk_is_one_line_and_the_run_goes_on_later(tmp_path: Path) -> None:
    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (15_000, 15_000))

    task = capitals(tmp_path, 20)
    with ModelServer(needy_reply) as server:
        evaluate(Settings(server.url, (task,), "base"), tmp_path / "whole")
        command = ["eval", "--model", server.url, "--task", task, "--method", "base", "--out", tmp_path / "r"]
        result = cli(*command, preexec_fn=small_files)
        assert result.returncode == 2
        last = result.stderr.splitlines()[-1]
        assert last.startswith("rlcr: ")
        assert "cannot be written: File too large. What is done is kept" in last
        assert "Traceback" not in result.stderr
        resumed = cli(*command, "--resume")
        assert resumed.returncode == 0, resumed.stderr
    assert comparable(tmp_path / "r") == comparable(tmp_path / "whole")


def test_two_writers_of_one_run(tmp_path: Path) -> None:
    with ModelServer(good_reply) as server:
        settings = Settings(server.url, (capitals(tmp_path, 1),), "rlcr")
        evaluate(settings, tmp_path / "run")
        with locked(tmp_path / "run"):
            for attempt in (
                lambda: evaluate(settings, tmp_path / "run", resume=True),
                lambda: rescore(tmp_path / "run"),
            ):
                with pytest.raises(RlcrError, match="another rlcr is writing to this run"):
                    attempt()
        evaluate(settings, tmp_path / "run", resume=True)


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    script = (
        "import pathlib, sys, time; from rlcr.runs.store import locked\n"
        "with locked(pathlib.Path(sys.argv[1])): print('locked', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    with pytest.raises(RlcrError, match="another rlcr"), locked(tmp_path):
        pass
    process.kill()
    process.communicate()
    with locked(tmp_path):
        pass


def test_replies_that_became_records_are_not_parsed(tmp_path: Path) -> None:
    run = Run(tmp_path, {}, {})
    with open(run.records_path, "w") as file:
        file.writelines(f'{{"id": "p{i}", "sample": 0, "text": ""}}\n' for i in range(1000))
    with open(tmp_path / "unfinished.jsonl", "w") as file:
        # Not even JSON behind the key: parsing any of it would fail.
        file.writelines(f'{{"id": "p{i}", "sample": 0, "text": }}\n' for i in range(1000))
        file.write('{"id": "new", "sample": 1, "stage": "response"}\n')
    assert [reply["id"] for reply in run.unfinished()] == ["new"]


def test_broken_results_say_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text('{"tasks": ')
    with pytest.raises(RlcrError, match="not whole JSON; `rlcr rescore .*` writes it again"):
        load_results(tmp_path)


def test_tasks_whose_names_differ_in_a_slash_are_exported_apart(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    tasks = []
    for name, folder in (("x", tmp_path / "a"), ("a_x", tmp_path)):
        problems = [
            Problem(f"{name}/{c}", f"Capital of {c}?", ("Paris",), "exact") for c in ("France", "Italy")
        ]
        write_problems(folder / f"{name}.jsonl", problems)
        tasks.append(str(folder / f"{name}.jsonl"))
    with ModelServer(good_reply) as server:
        evaluate(Settings(server.url, tuple(tasks), "rlcr"), tmp_path / "run")
    paths = export(tmp_path / "run", tmp_path / "out")
    assert len(set(paths)) == 3
    found = {json.loads(line)["doc"]["id"] for path in paths[1:] for line in path.read_text().splitlines()}
    assert found == {"x/France", "x/Italy", "a_x/France", "a_x/Italy"}


def test_latex_escapes_everything(tmp_path: Path) -> None:
    task = tmp_path / "a\\b~c^d_e.jsonl"
    write_problems(task, [Problem("p", "Capital of France?", ("Paris",), "exact")])
    with ModelServer(good_reply) as server:
        evaluate(Settings(server.url, (str(task),), "rlcr"), tmp_path / "run")
    text = (tmp_path / "run" / "results.tex").read_text()
    assert r"a\textbackslash{}b\textasciitilde{}c\textasciicircum{}d\_e" in text


# --- reaching a model -------------------------------------------------------------------------------


def test_completion_mode_continues_where_chat_cannot(tmp_path: Path) -> None:
    task = capitals(tmp_path, 1)
    with ModelServer(needy_reply, refuses=("continue_final_message", "add_generation_prompt")) as server:
        command = ["eval", "--model", server.url, "--task", task, "--method", "base", "--json"]
        result = cli(*command, "--out", tmp_path / "run", "--mode", "completion", "--concurrency", 2)
        assert result.returncode == 0, result.stderr
        assert set(posts(server)) == {"/v1/completions"}
        assert server.most_in_flight <= 2
        changed = cli(*command, "--out", tmp_path / "run", "--mode", "chat", "--resume")
    (found,) = json.loads(result.stdout)["tasks"].values()
    assert found["repair_rate"] == {"answer": 0.5, "confidence": 0.5}
    assert changed.returncode == 2
    assert 'mode was "completion", is "chat"' in changed.stderr


def test_top_p_and_stop_are_passed_on_and_kept(tmp_path: Path) -> None:
    task, out = capitals(tmp_path, 1), tmp_path / "run"
    with ModelServer(needy_reply) as server:
        command = ["eval", "--model", server.url, "--task", task, "--method", "base", "--out", out]
        asked = [*command, "--top-p", "0.9", "--stop", "END", "--stop", "\n\n"]
        result = cli(*asked)
        assert result.returncode == 0, result.stderr
        bodies = [call.body for call in server.calls if call.body]
        assert (bodies[0]["top_p"], bodies[0]["stop"]) == (0.9, ["END", "\n\n"])
        assert "stop" not in bodies[-1]  # a forced continuation
        assert cli(*asked, "--resume").returncode == 0
        changed = cli(*command, "--stop", "END", "--resume")
        for wrong in (["--top-p", "0"], ["--stop", ""]):
            refused = cli(*command[:-1], tmp_path / "other", *wrong)
            assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    settings = json.loads((out / "run.json").read_text())["settings"]
    assert (settings["top_p"], settings["stop"]) == (0.9, ["END", "\n\n"])
    assert changed.returncode == 2
    assert 'stop was ["END", "\\n\\n"], is ["END"]; top_p was 0.9, is 1.0' in changed.stderr
    assert not (tmp_path / "other").exists()


def test_a_tokenizer_brings_its_template(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from tests.tiny import tiny_tokenizer

    tiny_tokenizer().save_pretrained(tmp_path)
    with ModelServer(lambda call: call.prompt) as server:
        sampler = open_sampler(Typed(server.url), Access(tokenizer=str(tmp_path)))
        (found,) = sampler.sample([Request("q", ({"role": "user", "content": "Hi"},))], Sampling(50))
    assert found.text.startswith("<|im_start|>user\nHi<|im_end|>")


@pytest.mark.parametrize(
    ("model", "access", "message"),
    [
        ("http://127.0.0.1:9/v1", Access(device="cpu"), "device: is for local models; .* is a server"),
        ("somewhere", Access("chat", timeout=3.0), "mode, timeout: are for servers; somewhere is a local"),
        ("http://127.0.0.1:9/v1", Access("chat", tokenizer="x"), "tokenizer is for completion mode"),
        ("http://127.0.0.1:9/v1", Access(tokenizer="./nowhere"), "nowhere: no such file or folder"),
    ],
)
def test_wrong_combinations(model: str, access: Access, message: str) -> None:
    with pytest.raises(RlcrError, match=message):
        open_sampler(Typed(model), access)


def test_a_wrong_option_is_one_line(tmp_path: Path) -> None:
    task = capitals(tmp_path, 1)
    command = ["eval", "--model", "http://127.0.0.1:9/v1", "--task", task, "--method", "base", "--out"]
    for options in (["--device", "cpu"], ["--mode", "telepathy"], ["--concurrency", "0"]):
        result = cli(*command, tmp_path / "run", *options)
        assert result.returncode == 2
        assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_half_a_character_is_no_reason_to_stop(tmp_path: Path) -> None:
    """JSON may hold half a surrogate pair; UTF-8 cannot."""
    with ModelServer(lambda call: "ok") as server:
        sampler = EndpointSampler(server.url)
        message = {"role": "user", "content": "what is \ud83d?"}
        request = Request("key \udc00", (message,), prefix="it \ud83d")
        (found,) = sampler.sample([request], Sampling(5, temperature=1.0))
        assert server.calls[-1].body["messages"][0]["content"] == "what is �?"
        assert server.calls[-1].body["messages"][1]["content"] == "it �"
    assert found.key == request.key


# --- comparing --------------------------------------------------------------------------------------


def test_unfinished_runs_are_not_compared(tmp_path: Path) -> None:
    with ModelServer(good_reply) as server:
        for name in ("a", "b"):
            evaluate(Settings(server.url, (capitals(tmp_path),), "rlcr"), tmp_path / name)
    records = tmp_path / "b" / "records.jsonl"
    records.write_text("".join(records.read_text().splitlines(keepends=True)[:7]))
    with pytest.raises(RlcrError, match=r"b: unfinished .7 of 20.; `rlcr eval"):
        compare_runs(tmp_path / "a", tmp_path / "b")


def test_what_differs_between_compared_runs_is_said(tmp_path: Path) -> None:
    task = capitals(tmp_path)
    with ModelServer(good_reply) as server:
        evaluate(Settings(server.url, (task,), "rlcr"), tmp_path / "a")
        evaluate(Settings(server.url, (task,), "rlcr-long", temperature=0.5), tmp_path / "b")
        capitals(tmp_path, 8)  # the same file, with more in it
        evaluate(Settings(server.url, (task,), "rlcr"), tmp_path / "c")
        problem = Problem("capitals/France-0", "Capital of France?", ("Paris",), "exact")
        write_problems(Path(task), [problem])
        evaluate(Settings(server.url, (task,), "rlcr"), tmp_path / "d")
    found = compare_runs(tmp_path / "a", tmp_path / "b")
    assert found.notes == (
        "method: rlcr against rlcr-long",
        "temperature: 0.0 against 0.5",
        "prompt: rlcr against rlcr-long",
    )
    larger = compare_runs(tmp_path / "a", tmp_path / "c")
    assert larger.tasks[task].questions == 20
    assert "20 against 32 problems" in larger.notes[0]
    result = cli("compare", tmp_path / "a", tmp_path / "c", "--json")
    assert json.loads(result.stdout)["notes"] == list(larger.notes)
    # The same id, but another question.
    with pytest.raises(RlcrError, match="no scored problem in common"):
        compare_runs(tmp_path / "a", tmp_path / "d")


# --- following a run --------------------------------------------------------------------------------


def test_progress_counts_what_an_earlier_go_left(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with ModelServer(needy_reply) as server:
        settings = Settings(server.url, (capitals(tmp_path, 5),), "base")

        class Stop(Exception):
            pass

        class Impatient:
            def replied(self, stage: str) -> None:
                if stage == "answer":
                    raise Stop

            def graded(self, records: object) -> None: ...

        with pytest.raises(Stop):
            evaluate(settings, run, watch=lambda done, total: Impatient())
        counts: list[tuple[int, int]] = []

        class Calm:
            def replied(self, stage: str) -> None: ...

            def graded(self, records: object) -> None: ...

        def watch(done: int, total: int) -> Calm:
            counts.append((done, total))
            return Calm()

        evaluate(settings, run, resume=True, watch=watch)
    assert counts == [(20, 20)]


def test_an_error_closes_the_sampler(tmp_path: Path) -> None:
    class Failing(FakeSampler):
        def sample(self, requests: Any, sampling: Sampling) -> Generator[Completion, None, None]:
            try:
                for request in requests:
                    yield Completion(request.key, 0, "<answer>x</answer><confidence>1</confidence>", "stop")
            finally:
                self.closed = True

    class Broken:
        def replied(self, stage: str) -> None:
            raise ZeroDivisionError

        def graded(self, records: object) -> None: ...

    sampler = Failing([])
    settings = Settings("m", (capitals(tmp_path, 1),), "base")
    with pytest.raises(ZeroDivisionError) as caught:  # holds the traceback, and with it the generator
        evaluate(settings, tmp_path / "run", sampler=sampler, watch=lambda done, total: Broken())
    assert sampler.closed
    assert caught


def test_no_estimate_before_there_is_anything_to_estimate_from(capsys: pytest.CaptureFixture[str]) -> None:
    progress = RunProgress(0, 100)
    progress.replied("response")
    progress.close()
    assert capsys.readouterr().err == "1 of 100 responses, nothing graded yet\n"


def test_ctrl_c_before_anything_was_begun(tmp_path: Path) -> None:
    task = tmp_path / "task.jsonl"
    os.mkfifo(task)
    command = [sys.executable, "-m", "rlcr", "eval", "--model", "m", "--method", "rlcr", "--task", str(task)]
    process = subprocess.Popen([*command, "--out", str(tmp_path / "run")], stderr=subprocess.PIPE, text=True)
    with open(task, "wb"):  # opens as soon as somebody reads, who then waits for the end
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.strip() == "rlcr: interrupted before anything was begun"


def test_an_appender_says_what_it_could_not_write() -> None:
    file = Appender(Path("/dev/full"))
    with pytest.raises(RlcrError, match="/dev/full: cannot be written: No space left"):
        file.write([{"id": 1}])
    file.close()


def test_responses_that_wait_for_a_repair_are_held_compactly(tmp_path: Path) -> None:
    held: list[int] = []

    class Wordy(FakeSampler):
        def sample(self, requests: Any, sampling: Sampling) -> Generator[Completion, None, None]:
            for request in requests:
                if request.prefix and not held:
                    held.append(tracemalloc.get_traced_memory()[0])
                ids = () if request.prefix else tuple(range(1000, 2000))
                yield Completion(request.key, 0, " 7", "stop", token_ids=ids)

    problems = [Problem(f"p{i}", f"{i}?", ("7",), "exact") for i in range(300)]
    write_problems(tmp_path / "t.jsonl", problems)
    tracemalloc.start()
    evaluate(Settings("m", (str(tmp_path / "t.jsonl"),), "rlvr"), tmp_path / "run", sampler=Wordy([]))
    tracemalloc.stop()
    assert held[0] < 6e6  # 300,000 ids in tuples take 12 MB, in arrays 1.2
