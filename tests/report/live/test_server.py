"""The server of the live view: who may ask, what there is, and runs that change under it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.command import RLCR, expect_one_line, rlcr
from tests.report.live.views import get, killed_in_a_line, resume, state, viewed, wait_for
from tests.report.run_folders import problem, record, simulated_run, simulated_training, write_run

from rlcr.errors import RlcrError
from rlcr.report.live.watching import Watched


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulated_run(tmp_path_factory.mktemp("served") / "run", "rlcr", {"gsm8k": 30})


def test_only_names_of_this_machine_are_answered(folder: Path) -> None:
    with viewed(folder) as server:
        port = server.server_address[1]
        for name in ("127.0.0.1", "localhost", f"localhost:{port}", "127.0.0.1:9999", "[::1]:80", "[::1]"):
            assert get(server, "/state", Host=name)[0].status == 200, name
        for name in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "127.0.0.1:80@evil.example", "", "localhost:", "10.0.0.1"):  # fmt: skip
            reply, text = get(server, "/", Host=name)
            assert (reply.status, text) == (421, "not a name of this machine\n"), name


def test_nothing_but_three_addresses_to_read(folder: Path) -> None:
    with viewed(folder) as server:
        for path in ("/records.jsonl", "/run/records.jsonl", "/../run/run.json", "/%2e%2e/run.json", "//etc/passwd", "/answers/", f"/{folder}/run.json", "/?", "/state?x=1"):  # fmt: skip
            status = get(server, path)[0].status
            assert status == (200 if path in ("/?", "/state?x=1") else 404), path
        for path in ("/answers?page=-1", "/answers?run=7", "/answers?file=/etc/passwd", "/answers?page", "/answers?sort=x&sort=y"):  # fmt: skip
            reply, text = get(server, path)
            assert reply.status == 400
            assert len(text.splitlines()) == 1
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
            assert get(server, "/state", method)[0].status == 501
        head, nothing = get(server, "/", "HEAD")
        assert head.status == 200
        assert nothing == ""
        page, text = get(server, "/")
        headers = dict(page.getheaders())
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "connect-src 'self'" in policy
        assert "unsafe" not in policy
        assert policy.startswith(text.split('http-equiv="Content-Security-Policy" content="')[1].split('"')[0].replace("&#39;", "'"))  # fmt: skip
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["Cache-Control"] == "no-store"
        assert "Access-Control-Allow-Origin" not in headers
        assert server.socket.getsockname()[0] == "127.0.0.1"


def test_the_first_page_waits_for_nothing(folder: Path) -> None:
    """It is there before anything is measured, with a place for answers."""
    page = Watched([folder]).page
    assert 'id="filters"' in page
    assert "<table" not in page.split('id="answers"')[0]


def test_it_holds_no_answers_in_the_page(folder: Path) -> None:
    with viewed(folder) as server:
        wait_for(lambda: state(server)["reading"] is None)
        text = get(server, "/")[1]
        data = json.loads(text.split('id="data">')[1].split("</script>")[0])
        assert data["samples"] == data["problems"] == []
        answers = json.loads(get(server, "/answers?sort=question")[1])
        assert answers["total"] == 30
        assert len(answers["samples"]) == 10
        assert answers["problems"][0]["x"].startswith("[0]")


def test_a_writer_that_is_killed_and_resumed(tmp_path: Path) -> None:
    asked = [problem(f"q{n}", f"question {n}", "1") for n in range(5)]
    records = [record(f"q{n}", "t") for n in range(5)]
    folder = write_run(tmp_path / "run", records[:2], asked, results=False)
    with viewed(folder) as server:
        wait_for(lambda: state(server)["answers"] == 2)
        with killed_in_a_line(folder, records[2:4]):
            wait_for(lambda: state(server)["answers"] == 3)
        time.sleep(0.5)  # time to show half a line, if it ever would
        shown = json.loads(get(server, "/answers?sort=newest")[1])
        assert [problem["i"] for problem in shown["problems"]] == ["q2", "q1", "q0"]
        assert state(server)["error"] == ""
        resume(folder, records[3:])
        wait_for(lambda: state(server)["answers"] == 5)
        shown = json.loads(get(server, "/answers?sort=newest")[1])
        assert [problem["i"] for problem in shown["problems"]] == ["q4", "q3", "q2", "q1", "q0"]


def test_graded_anew_and_gone(tmp_path: Path) -> None:
    records = [record(f"q{n}", "t", verdict="wrong") for n in range(4)]
    folder = write_run(tmp_path / "run", records, [])
    with viewed(folder) as server:
        wait_for(lambda: state(server)["reading"] is None)
        assert json.loads(get(server, "/answers?verdicts=right")[1])["count"] == 0
        other = write_run(tmp_path / "other", [record(f"q{n}", "t") for n in range(4)], [])
        for name in ("records.jsonl", "results.json"):
            (other / name).replace(folder / name)
        wait_for(lambda: json.loads(get(server, "/answers?verdicts=right")[1])["count"] == 4)
        folder.rename(tmp_path / "away")
        wait_for(lambda: "no such folder" in state(server)["error"])
        assert get(server, "/")[0].status == 200
        (tmp_path / "away").rename(folder)
        wait_for(lambda: state(server)["error"] == "" and state(server)["answers"] == 4)


def test_a_training_under_way(tmp_path: Path) -> None:
    folder = simulated_training(tmp_path / "training", updates=6, evals=0)
    with viewed(folder) as server:
        wait_for(lambda: state(server)["reading"] is None)
        assert "update 7" not in get(server, "/")[1]
        with open(folder / "updates.jsonl", "a") as file:
            file.write(json.dumps({"update": 7, "reward": 0.9}) + "\n")
        wait_for(lambda: "update 7" in get(server, "/")[1])
        simulated_run(folder / "evals" / "update-000006", "rlcr", {"arms": 20})
        wait_for(lambda: state(server)["answers"] == 20)
        assert json.loads(get(server, "/answers")[1])["total"] == 20


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RlcrError, match="no such folder"):
        Watched([tmp_path / "nothing"])
    expect_one_line(rlcr("view", tmp_path), "not a run")


def test_from_the_command_line(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = rlcr("view", folder, "--port", taken.getsockname()[1])
    expect_one_line(result, "Address already in use; --port 0 takes a free one")
    for number in (signal.SIGINT, signal.SIGTERM):
        command = [*RLCR, "view", str(folder), "--port", "0"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        ) as process:
            assert process.stdout
            assert process.stderr
            line = process.stdout.readline()
            assert line.startswith("http://127.0.0.1:")
            assert line.endswith("/ (Ctrl-C ends it)\n")
            process.send_signal(number)
            assert process.wait(60) == 0
            assert process.stderr.read() == ""
    help_text = rlcr("view", "--help").stdout
    assert "127.0.0.1" in help_text
    assert "--port" in help_text


#: A thread that is in numpy's C++ whenever one looks, as the maker of a large page may be.
_BUSY = """
import sys, threading
from pathlib import Path
import numpy as np
from rlcr.cli.viewing import view
numbers = np.arange(300_000) % 1000
def count():
    while True:
        np.unique(numbers)
threading.Thread(target=count, daemon=True).start()
view([Path(sys.argv[1])], port=0)
"""


def test_it_ends_cleanly_while_a_page_is_being_made(folder: Path) -> None:
    command = [sys.executable, "-c", _BUSY, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        process.terminate()
        assert process.wait(300) == 0
        assert process.stderr.read() == ""
