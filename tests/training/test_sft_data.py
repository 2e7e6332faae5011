"""`rlcr sft-data` against small real servers: what is kept, rejected, asked again and taken up again."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.servers import Call, Faults, ModelServer, Refusal

from rlcr.errors import RlcrError
from rlcr.problem import Problem
from rlcr.prompts import load_prompt, messages
from rlcr.response import parse
from rlcr.tasks import write_problems
from rlcr.training.sft_data import Settings, make_sft_data, read_analysis, read_solution

LONG = (
    "I add the two numbers first, and this step holds. Then I am less sure, since the unit is not given. " * 4
)


def sums(folder: Path, number: int = 12) -> str:
    path = folder / "sums.jsonl"
    problems = [
        Problem(f"sum/{n}", f"What is {n} + 30?", (str(n + 30),), "math", instruction="A number.")
        for n in range(number)
    ]
    write_problems(path, problems)
    return str(path)


def number_in(prompt: str) -> int:
    return int(prompt.partition("What is ")[2].partition(" +")[0])


def solve(call: Call) -> str:
    """Every sixth solution has no answer tag."""
    n = number_in(call.prompt)
    answer = f"{n + 30}" if n % 6 == 5 else f"<answer>{n + 30}</answer>"
    return f"<think> {n} and 30 (sample {call.number % 1000}) </think>{answer}"


class Expert:
    """Analyses well at first, too short at first, without tags twice, or never as it is told: by the number."""

    def __init__(self) -> None:
        self.times: Counter[int] = Counter()
        self.seeds: dict[int, list[int]] = {}

    def __call__(self, call: Call) -> str:
        n = number_in(call.prompt)
        self.times[n] += 1
        assert f"<answer>{n + 30}</answer>" in call.prompt  # it is shown the solution
        # By the seed, which tells the attempts apart, so that asking the same again gives the same.
        seeds = self.seeds.setdefault(n, [])
        if call.number not in seeds:
            seeds.append(call.number)
        attempt = seeds.index(call.number)
        good = f"<think>Let me draft: <analysis>no</analysis>.</think>\n<analysis>\n[{n}] {LONG}</analysis>"
        if n % 4 == 1 and attempt < 1:
            return "<analysis>Looks right to me.</analysis>"
        if n % 4 == 2 and attempt < 2:
            return LONG
        if n % 4 == 3:
            return f"<analysis>{LONG}</analysis><confidence>0.8</confidence>"
        return good


def settings(task: str, server: ModelServer, expert: ModelServer, **changed: Any) -> Settings:
    return Settings(**{"model": server.url, "task": task, "expert": expert.url, "size": 12, **changed})


def test_what_is_kept_rejected_and_asked_again(tmp_path: Path) -> None:
    task, asked = sums(tmp_path), Expert()
    with ModelServer(solve) as server, ModelServer(asked) as expert:
        counts = make_sft_data(settings(task, server, expert), tmp_path / "out")
    # 5 and 11 are malformed. Of the others, 3 and 7 state a confidence each time; 2, 6 and 10 come right at
    # the third time, 1 and 9 at the second.
    assert counts["problems"] == 12
    assert counts["solutions"] == {"sampled": 12, "malformed": 2, "faults": {"missing <answer>": 2}}
    assert counts["analyses"] == {
        "asked": 3 + 2 * 2 + 3 * 3 + 2 * 3,
        "accepted": 8,
        "rejected": {"no tags": 6, "states a confidence": 6, "too short": 2},
        "given_up": 2,
    }
    assert asked.times == {n: [1, 2, 3, 3][n % 4] for n in range(11) if n % 6 != 5}
    report = json.loads((tmp_path / "out" / "sft-data.json").read_text())
    assert report["counts"] == counts
    assert report["settings"]["size"] == 12
    assert "python" in report["versions"]

    rows = [json.loads(line) for line in (tmp_path / "out" / "sft.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == [f"sum/{n}" for n in (0, 1, 2, 4, 6, 8, 9, 10)]
    for row in rows:
        n = int(row["id"][4:])
        problem = Problem(row["id"], f"What is {n} + 30?", (), "math", instruction="A number.")
        assert row["messages"] == messages(load_prompt("rlcr"), problem)
        assert row["completion"].endswith(f"[{n}] {LONG.strip()}</analysis>")
        assert row["completion"].startswith(f"<think>{n} and 30")
        assert "</think>\n<answer>" in row["completion"]
        # All that it lacks to be a response is the confidence.
        assert parse(row["completion"]).fault == "missing <confidence>"
        assert parse(row["completion"] + "<confidence>0.5</confidence>").well_formed


def test_an_interrupted_run_ends_with_the_same_data(tmp_path: Path) -> None:
    task = sums(tmp_path)
    with ModelServer(solve) as server, ModelServer(Expert()) as expert:
        given = settings(task, server, expert)
        whole = make_sft_data(given, tmp_path / "whole")

        def interrupt_after(replies: int) -> Any:
            def watch(stage: str, done: int, total: int) -> None:
                nonlocal replies
                replies -= 1
                if not replies:
                    raise KeyboardInterrupt

            return watch

        out = tmp_path / "out"
        with pytest.raises(KeyboardInterrupt):
            make_sft_data(given, out, watch=interrupt_after(5))
        lines = (out / "records.jsonl").read_bytes().splitlines()
        assert len(lines) == 5
        for replies in (9, 7):  # in the analyses, then in those asked for again
            with pytest.raises(KeyboardInterrupt):
                make_sft_data(given, out, resume=True, watch=interrupt_after(replies))
        with open(out / "records.jsonl", "ab") as file:
            file.write(b'{"id": "sum/0", "sample": 1, "sta')  # a crash in the middle of a line
        seen: list[str] = []
        counts = make_sft_data(given, out, resume=True, watch=lambda stage, done, total: seen.append(stage))
        replies = 12 + whole["analyses"]["asked"]
        assert len(seen) == replies - 5 - 9 - 7
        assert counts == whole
        assert (out / "sft.jsonl").read_bytes() == (tmp_path / "whole" / "sft.jsonl").read_bytes()
        assert len((out / "records.jsonl").read_bytes().splitlines()) == replies


def test_faults_of_the_servers_change_nothing(tmp_path: Path) -> None:
    task = sums(tmp_path)
    faults = Faults(error=0.1, drop=0.1, truncate=0.1)
    with ModelServer(solve) as server, ModelServer(Expert()) as expert:
        whole = make_sft_data(settings(task, server, expert), tmp_path / "whole")
        server.faults = expert.faults = faults
        counts = make_sft_data(settings(task, server, expert), tmp_path / "out")
        assert sum(server.faults_served.values()) + sum(expert.faults_served.values()) > 0
    assert counts == whole
    assert (tmp_path / "out" / "sft.jsonl").read_bytes() == (tmp_path / "whole" / "sft.jsonl").read_bytes()


def test_killed_at_any_time_and_resumed_from_the_command_line(tmp_path: Path) -> None:
    task, out = sums(tmp_path), tmp_path / "out"
    with ModelServer(solve) as server, ModelServer(Expert()) as expert:
        whole = make_sft_data(settings(task, server, expert), tmp_path / "whole")
        command = [
            sys.executable, "-m", "rlcr", "sft-data", "--model", server.url, "--task", task,
            "--expert", expert.url, "--limit", "12", "--out", str(out),
        ]  # fmt: skip
        expert.delay = 3.0
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        records = out / "records.jsonl"
        deadline = time.monotonic() + 60
        while not (records.exists() and records.read_bytes().count(b"\n") >= 12):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)  # all solutions are there, no analysis yet
        process.wait()
        expert.delay = 0.0
        solved = len(server.calls)
        done = subprocess.run([*command, "--resume"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "22 analyses asked for, 8 accepted" in done.stdout
        asked = [seen for seen in server.calls[solved:] if seen.path.endswith("completions")]
        assert asked == []  # no solution was sampled twice
    assert json.loads((out / "sft-data.json").read_text())["counts"] == whole
    assert (out / "sft.jsonl").read_bytes() == (tmp_path / "whole" / "sft.jsonl").read_bytes()


def test_changed_settings_are_refused(tmp_path: Path) -> None:
    task, out = sums(tmp_path), tmp_path / "out"
    with ModelServer(solve) as server, ModelServer(Expert()) as expert:
        make_sft_data(settings(task, server, expert), out)
        with pytest.raises(RlcrError, match="not empty; --resume continues it"):
            make_sft_data(settings(task, server, expert), out)
        with pytest.raises(
            RlcrError, match=r"other settings: max_tokens was 4096, is 99; temperature was 0.7"
        ):
            make_sft_data(settings(task, server, expert, temperature=0.1, max_tokens=99), out, resume=True)
        with pytest.raises(RlcrError, match="other settings: .*size was 12, is 6"):
            make_sft_data(settings(task, server, expert, size=6), out, resume=True)
        with pytest.raises(RlcrError, match="not a run"):
            make_sft_data(settings(task, server, expert), tmp_path / "nowhere", resume=True)
        assert not (tmp_path / "nowhere").exists()
        with pytest.raises(RlcrError, match="unknown method"):
            make_sft_data(settings(task, server, expert, method="rlvf"), tmp_path / "new")
        assert not (tmp_path / "new").exists()


def test_nothing_kept_is_an_error_that_says_why(tmp_path: Path) -> None:
    task = sums(tmp_path, 3)
    said = r"nothing could be kept: 3 solutions .*rejected: 9 no tags; 3 given up"
    with (
        ModelServer(solve) as server,
        ModelServer(lambda call: "Fine!") as expert,
        pytest.raises(RlcrError, match=said),
    ):
        make_sft_data(settings(task, server, expert, size=3), tmp_path / "out")
    assert json.loads((tmp_path / "out" / "sft-data.json").read_text())["counts"]["analyses"]["asked"] == 9


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (f"<analysis>{LONG}</analysis>", ""),
        (f"Here it is:\n<analysis>\n{LONG}\n</analysis>\nI hope this helps.", ""),
        (f"<think>hm, <answer>3</answer></think><analysis>{LONG}</analysis>", ""),
        (f"<think>it has </think> inside</think><analysis>{LONG}</analysis>", ""),
        ("<analysis>" + "x" * 300 + "</analysis>", ""),
        ("<analysis>" + "x" * 299 + "</analysis>", "too short"),
        ("<analysis>" + " " * 300 + "x</analysis>", "too short"),
        (LONG, "no tags"),
        ("", "no tags"),
        (f"<analysis>{LONG}", "not closed"),
        (f"{LONG}</analysis> <analysis>", "not closed"),
        (f"<analysis>{LONG}</analysis><analysis>{LONG}</analysis>", "several analyses"),
        (f"<analysis>{LONG}<analysis>{LONG}</analysis>", "several analyses"),
        (f"<analysis>{LONG}<answer>4</answer></analysis>", "other tags"),
        (f"<analysis>{LONG} your </think> tag</analysis>", "other tags"),
        (f"<analysis>{LONG}</analysis><confidence>0.4</confidence>", "states a confidence"),
        (f"<analysis>{LONG}<Confidence >0.4</analysis>", "states a confidence"),
        (f"<think>never ends <analysis>{LONG}</analysis>", "no tags"),
        (f"<think>draft <analysis>{LONG}</analysis></think>All is well.", "no tags"),
    ],
)
def test_reading_an_analysis(reply: str, reason: str) -> None:
    analysis, found = read_analysis(reply)
    assert found == reason
    assert bool(analysis) == (not reason)
    if analysis:
        whole = read_solution("<think>a</think><answer>b</answer>").completion(analysis)
        assert parse(f"{whole}<confidence>1</confidence>").well_formed


def test_reading_where_the_prompt_has_opened_the_thinking() -> None:
    assert read_analysis(f"hm</think><analysis>{LONG}</analysis>", think_open=True) == (LONG.strip(), "")
    solution = read_solution("hm</think><answer>4</answer>", think_open=True)
    assert solution.text() == "<think>hm</think>\n<answer>4</answer>"


def test_solutions_that_would_spoil_the_format_are_left_out() -> None:
    assert read_solution("<think>a</think><answer> </answer>").fault == "empty <answer>"
    assert read_solution("<think>a <confidence>1</confidence></think><answer>4</answer>").fault
    assert read_solution("<think>a</think><answer>4</answer> So 4.").fault == "text after </answer>"
    whole = "<think>a</think><answer>4</answer><analysis>b</analysis><confidence>1</confidence>"
    assert read_solution(whole, "rlcr").completion("c") == (
        "<think>a</think>\n<answer>4</answer>\n<analysis>c</analysis>"
    )


def test_what_a_server_refuses_is_left_out_and_counted(tmp_path: Path) -> None:
    def filtered(number: int, reply: Any) -> Any:
        def answer(call: Call) -> str:
            if number_in(call.prompt) == number:
                raise Refusal(400, "The prompt was filtered by our content policy.")
            return reply(call)

        return answer

    with ModelServer(filtered(2, solve)) as server, ModelServer(filtered(4, Expert())) as expert:
        chosen = settings(sums(tmp_path), server, expert)
        counts = make_sft_data(chosen, tmp_path / "run")
        assert counts["solutions"]["faults"]["refused"] == 1
        assert counts["analyses"]["rejected"]["refused"] == 3
        ids = {json.loads(line)["id"] for line in (tmp_path / "run" / "sft.jsonl").read_text().splitlines()}
        assert ids.isdisjoint({"sum/2", "sum/4"})
        asked = len(server.calls) + len(expert.calls)
        assert make_sft_data(chosen, tmp_path / "run", resume=True) == counts
        assert len(server.calls) + len(expert.calls) == asked
        expert.reply = lambda call: filtered(number_in(call.prompt), solve)(call)  # all of them
        with pytest.raises(RlcrError, match="HTTP 400"):
            make_sft_data(chosen, tmp_path / "other")
