"""Following a run: what is counted, closed, said and held while it goes on."""

import os
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.evaluate.capitals import capitals, needy_reply
from tests.evaluate.fake_sampler import FakeSampler
from tests.report.run_folders import record
from tests.servers import ModelServer

from rlcr.evaluate import Settings, evaluate
from rlcr.evaluate.progress import RunProgress
from rlcr.problem import Problem
from rlcr.runs.record import from_cells
from rlcr.sample import Completion, Sampling
from rlcr.tasks import write_problems


def test_progress_counts_what_an_earlier_go_left(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with ModelServer(needy_reply) as server:
        settings = Settings(server.url, (capitals(tmp_path, 5),), "base")

        class Stop(Exception):
            pass

        class Impatient:
            def begun(self, stage: str, total: int) -> None: ...

            def replied(self, stage: str) -> None:
                if stage == "answer":
                    raise Stop

            def graded(self, records: object) -> None: ...

        with pytest.raises(Stop):
            evaluate(settings, run, watch=lambda done, total: Impatient())
        counts: list[tuple[int, int]] = []

        class Calm:
            def begun(self, stage: str, total: int) -> None: ...

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
        def begun(self, stage: str, total: int) -> None: ...

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


def test_forced_continuations_have_a_count_and_an_estimate_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A clock that gains ten seconds with each reply: a line for each third one."""
    now = [0.0]

    class Slow(RunProgress):
        def replied(self, stage: str) -> None:
            now[0] += 10
            super().replied(stage)

    with ModelServer(needy_reply) as server:
        settings = Settings(server.url, (capitals(tmp_path, 12),), "base")
        evaluate(
            settings, tmp_path / "run", watch=lambda done, total: Slow(done, total, clock=lambda: now[0])
        )
    lines = capsys.readouterr().err.splitlines()
    assert "12 of 48 responses, 0.10/s, 360 s left before forced continuations, nothing graded yet" in lines
    assert (
        "12 of 24 forced answers, 0.10/s, 120 s left before forced continuations, nothing graded yet" in lines
    )
    (last,) = [line for line in lines if line.startswith("15 of 24 forced confidences")]
    assert "0.10/s, 90 s left, " in last


def test_accuracy_so_far_is_that_of_all_graded_answers(capsys: pytest.CaptureFixture[str]) -> None:
    progress = RunProgress(0, 4)
    silent = {"text": "", "answer": None, "confidence": None, "verdict": "wrong"}
    cells = [record(f"p{i}", "task", **({} if i else silent)) for i in range(4)]
    progress.graded([from_cells(one) for one in cells])
    progress.close()
    assert "accuracy 0.750 of 4, ECE 0.100 of 3 so far" in capsys.readouterr().err


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
