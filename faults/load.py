"""Load: at the end of a long evaluation it holds as much memory and as many files as early on."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from faults.commands import Command
from faults.fault import Fault, Outcome, Trial
from rlcr.problem import Problem
from rlcr.runs.store import RECORDS, open_run
from rlcr.tasks import write_problems

SERVER = Path(__file__).parents[1] / "benchmarks" / "fast_server.py"
PROBLEMS = 100_000
#: What is looked at: when these shares are answered.
SHARES = (0.1, 0.5, 1.0)
#: What a finished problem may leave behind while others are asked: its name, and that it is done.
_BYTES = 250
#: What the memory of Python itself may move by.
_SLACK = 8 << 20
#: What measuring may take, whatever the number of records, and for each of them.
_MEASURING, _MEASURED = 128 << 20, 1500
#: Connections come and go; at the end they are closed.
_HANDLES = 4


@dataclass(frozen=True)
class Held:
    """What a process holds: problems answered, bytes of memory, open files and sockets."""

    answered: int
    memory: int
    handles: int


def trial_of(folder: Path, _: int, *, problems: int) -> Outcome:
    """One evaluation, watched from outside."""
    outcome, run = Outcome(), folder / "run"
    question, gold = "Which city is the capital of France?", ("Paris",)
    made = (Problem(f"q/{n}", f"[{n}] {question}", gold, "exact") for n in range(problems))
    write_problems(folder / "task.jsonl", made)
    with serving() as url:
        arguments = ["eval", "--model", f"{url}#fast", "--task", folder / "task.jsonl", "--out", run]
        command = Command([*arguments, "--method", "rlcr"], folder / "log")
        held = watch(command, run)
        ended = command.end()
    if ended.status:
        outcome.fail(ended.fault or ended.last_line)
        return outcome
    records = [record.key for record in open_run(run).records()]
    outcome.compare_keys([(f"q/{n}", 0) for n in range(problems)], records)
    seen = [next(one for one in held if one.answered >= share * problems) for share in SHARES]
    for one in seen:
        outcome.count(f"MB and {one.handles} open files at {one.answered:,}", round(one.memory / 2**20, 1))
    most = max(one.memory for one in held)
    outcome.count("MB at most", round(most / 2**20, 1))
    outcome.count("s", round(ended.seconds))
    grown = max(one.memory for one in seen) - seen[0].memory
    if grown > _SLACK + _BYTES * problems:
        outcome.fail(f"memory grew by {grown / 2**20:.1f} MB")
    if most - seen[0].memory > _MEASURING + _MEASURED * problems:
        outcome.fail(f"measuring took {(most - seen[0].memory) / 2**20:.1f} MB")
    if max(one.handles for one in seen) - seen[0].handles > _HANDLES:
        outcome.fail(f"open files: {', '.join(str(one.handles) for one in seen)}")
    return outcome


def watch(command: Command, run: Path) -> list[Held]:
    """What a command holds from time to time, until its end."""
    held: list[Held] = []
    answered, file = 0, None
    with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
        while command.running:
            if file is None and (run / RECORDS).exists():
                file = open(run / RECORDS, "rb")  # noqa: SIM115 (closed below)
            if file is not None:
                answered += file.read().count(b"\n")
            held.append(Held(answered, _memory(command.pid), len(os.listdir(f"/proc/{command.pid}/fd"))))
            time.sleep(0.05)
    if file is not None:
        file.close()
    return held


@contextmanager
def serving() -> Iterator[str]:
    """The address of the server of the benchmarks, which costs next to nothing."""
    server = subprocess.Popen([sys.executable, str(SERVER)], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
    finally:
        server.terminate()
        server.wait(60)


def _memory(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _fault(make: Callable[[Path, int], Outcome]) -> Fault:
    @contextmanager
    def prepare(_: Path) -> Iterator[Trial]:
        yield make

    return Fault(f"load: {PROBLEMS:,} problems through a fast server", 1, prepare)


FAULTS: dict[str, Fault] = {"load-eval": _fault(partial(trial_of, problems=PROBLEMS))}
