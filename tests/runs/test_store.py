"""A run on disk: full disks, two writers, broken files."""

import json
import math
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from tests.command import rlcr
from tests.confidence.colour_runs import raw
from tests.evaluate.capitals import capitals, comparable, good_reply, needy_reply
from tests.servers import ModelServer
from typer.testing import CliRunner

from rlcr.cli.commands import app
from rlcr.errors import RlcrError
from rlcr.evaluate import Settings, evaluate, rescore
from rlcr.evaluate.grade import grade
from rlcr.evaluate.results import load_results
from rlcr.problem import Problem
from rlcr.runs.lines import Appender
from rlcr.runs.record import from_cells, to_line
from rlcr.runs.store import Run, create_run, locked


def test_a_full_disk_is_one_line_and_the_run_goes_on_later(tmp_path: Path) -> None:
    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (15_000, 15_000))

    task = capitals(tmp_path, 20)
    with ModelServer(needy_reply) as server:
        evaluate(Settings(server.url, (task,), "base"), tmp_path / "whole")
        command = ["eval", "--model", server.url, "--task", task, "--method", "base", "--out", tmp_path / "r"]
        result = rlcr(*command, preexec_fn=small_files)
        assert result.returncode == 2
        last = result.stderr.splitlines()[-1]
        assert last.startswith("rlcr: ")
        assert "cannot be written: File too large. What is done is kept" in last
        assert "Traceback" not in result.stderr
        resumed = rlcr(*command, "--resume")
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
    with pytest.raises(RlcrError, match="results.json: not JSON: .*; `rlcr rescore .*` writes it again"):
        load_results(tmp_path)


def test_an_appender_says_what_it_could_not_write() -> None:
    file = Appender(Path("/dev/full"))
    with pytest.raises(RlcrError, match="/dev/full: cannot be written: No space left"):
        file.write([{"id": 1}])
    file.close()


def test_a_record_is_what_it_was_when_it_is_read_again(tmp_path: Path) -> None:
    texts = ["<think>t</think><answer>yes</answer><confidence>0.5</confidence>", "yes, <answer>yes</answer>"]
    records = [raw("q", n, text, unrepaired=("confidence",)) for n, text in enumerate(texts)]
    graded = grade(records, [Problem("q", "?", ("yes",), "exact")] * 2, "strict", None)
    assert [from_cells(json.loads(to_line(record))) for record in graded] == graded
    assert graded[1].leniencies
    cells = json.loads(to_line(graded[0]))
    wrong = [("confidence", value) for value in ("high", True, -10.94, 1.001, math.inf, math.nan, 10**400)]
    wrong += [("verdict", "right"), ("sample", "0")]
    wrong += [(name, value) for name in ("id", "task", "reason", "verifier") for value in (None, 7, ["x"])]
    for name, value in wrong:
        with pytest.raises(ValueError, match="not a record|none of correct, wrong"):
            from_cells({**cells, name: value})


@pytest.mark.parametrize("command", ["vote", "select", "rescore", "coherence", "analyses"])
def test_a_file_is_not_taken_for_a_run(tmp_path: Path, command: str) -> None:
    (tmp_path / "a.csv").write_text("a,b\n")
    result = CliRunner().invoke(app, [command, str(tmp_path / "a.csv")])
    assert isinstance(result.exception, RlcrError)
    assert "a.csv: not a run (it has no run.json)" in str(result.exception)


@pytest.mark.parametrize("command", ["vote", "select", "rescore", "metrics", "coherence"])
def test_a_folder_of_another_command_is_not_taken_for_an_evaluation(tmp_path: Path, command: str) -> None:
    """As `rlcr warm-up` and `rlcr sft-data` write them."""
    create_run(tmp_path / "run", {"kind": "warm-up"}, {}, {})
    result = CliRunner().invoke(app, [command, str(tmp_path / "run")])
    assert isinstance(result.exception, RlcrError)
    assert "not a run of `rlcr eval`" in str(result.exception)
