"""Real worker processes: time limits, crashes, threads, forks and the end of the parent."""

import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rlcr.errors import RlcrError
from rlcr.problem import Problem
from rlcr.verify import _process
from rlcr.verify._math_pool import POOL, Job, compare, settle
from rlcr.verify._pool import WorkerPool
from rlcr.verify.math import verify_math
from rlcr.verify.verdict import Verdict

RUNAWAY = r"\int_0^1 \frac{\ln(1+x)}{x^2+1} dx"  # small, but sympy does not find its value in any time
PROBLEM = Problem("1", "", (r"\frac{1}{2}",), "math")


WORKER = "rlcr.verify._math_worker"


def alive(pid: int) -> bool:
    """Whether the process exists and is not merely waiting to be buried."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone_within(pids: list[int], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not any(map(alive, pids))


needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs /proc")


@needs_proc
def test_a_runaway_is_stopped_and_the_rest_is_done():
    pool = WorkerPool(WORKER, size=2)
    compare(Job(("1",), "2"), 20, pool)
    before = pool.pids()
    jobs = [Job(("5",), "5.0"), Job(("5",), RUNAWAY), *(Job((str(n),), f"{n}.0") for n in range(20))]
    start = time.monotonic()
    verdicts = settle(jobs, 0.5, pool)
    assert time.monotonic() - start < 15
    assert (verdicts[1].outcome, verdicts[1].reason) == ("wrong", "answer timed out after 0.5 s")
    assert [verdict.outcome for verdict in verdicts[:1] + verdicts[2:]] == ["correct"] * 21
    during = pool.pids()
    assert 1 <= len(during) <= 2
    pool.close()
    assert pool.pids() == []
    assert gone_within(before + during, 2)


@needs_proc
def test_a_worker_that_dies_costs_no_comparison():
    pool = WorkerPool(WORKER, size=1)
    assert compare(Job(("5",), "5.0"), 20, pool).correct
    os.kill(pool.pids()[0], signal.SIGKILL)
    time.sleep(0.2)
    assert compare(Job(("5",), "5.0"), 20, pool).correct  # found dead, replaced

    pid = pool.pids()[0]
    threading.Timer(0.5, os.kill, (pid, signal.SIGKILL)).start()
    assert compare(Job(("5",), RUNAWAY), 2, pool).reason == "answer timed out after 2 s"
    assert compare(Job(("5",), "5.0"), 20, pool).correct
    pool.close()


class Killer:
    """Kills a worker of the pool, picked at random, every now and then, and so many at most."""

    def __init__(self, pool: WorkerPool, seconds: float, most: int) -> None:
        self.kills = 0
        self._pool, self._seconds, self._most, self._over = pool, seconds, most, threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Killer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        chance = random.Random(0)
        while self.kills < self._most and not self._over.wait(chance.uniform(0, 2 * self._seconds)):
            if pids := self._pool.pids():
                os.kill(chance.choice(pids), signal.SIGKILL)
                self.kills += 1


@needs_proc
def test_killing_workers_at_random_makes_nothing_unscorable():
    pool = WorkerPool(WORKER, size=2)
    jobs = [Job((rf"\frac{{{n}}}{{7}}",), f"{n}/7 + 0") for n in range(500)]
    with Killer(pool, 0.3, most=8) as killer:
        while killer.kills < 5:  # a fast machine is through with all jobs before the killer is
            verdicts = settle(jobs, 20, pool)
            assert [(job, v) for job, v in zip(jobs, verdicts, strict=True) if not v.correct] == []
    pool.close()


@needs_proc
def test_killed_again_and_again_is_unscorable():
    pool = WorkerPool(WORKER, size=1)
    with Killer(pool, 0.05, most=100):
        verdict = compare(Job(("5",), RUNAWAY), 60, pool)
    assert verdict.outcome == "unscorable"
    assert "killed" in verdict.reason
    pool.close()


@needs_proc
def test_closing_the_pool_ends_what_is_under_way():
    pool = WorkerPool(WORKER, size=1)
    compare(Job(("1",), "2.5"), 20, pool)
    threading.Timer(0.5, pool.close).start()
    assert compare(Job(("5",), RUNAWAY), 60, pool).outcome == "unscorable"
    assert pool.pids() == []


@needs_proc
def test_a_worker_that_gets_no_time_to_compute_is_replaced(monkeypatch):
    pool = WorkerPool(WORKER, size=1)
    compare(Job(("1",), "2.5"), 20, pool)
    (worker,) = pool.pids()
    os.kill(worker, signal.SIGSTOP)
    monkeypatch.setattr(_process, "_PATIENCE", 2.0)
    assert compare(Job(("5",), "5.0"), 1, pool).correct
    assert pool.pids() != [worker]
    pool.close()


def test_a_busy_machine_gives_the_same_verdict():
    pool = WorkerPool(WORKER, size=1)
    compare(Job(("1",), "2.5"), 20, pool)
    (worker,) = pool.pids()
    os.kill(worker, signal.SIGSTOP)  # as little computing as a busy machine can give
    threading.Timer(1.5, os.kill, (worker, signal.SIGCONT)).start()
    assert compare(Job(("5",), "5.0"), 1, pool).correct
    pool.close()


def test_a_worker_that_cannot_start_says_how_to_see_why():
    with pytest.raises(RlcrError, match="to see why, run: .* -m rlcr.verify.nonsense < "):
        WorkerPool("rlcr.verify.nonsense", size=1).ask({}, 1)


def stand_in(monkeypatch, folder: Path, lines: str) -> WorkerPool:
    """A pool of math workers with something wrong with them: ``lines`` are run before they serve."""
    code = f"""
        import mmap, os, sys
        from rlcr.verify import _math_worker as worker
        from rlcr.verify._process import serve
        answer = worker.answer
        {lines}
        serve(answer, memory=worker.MEMORY_BYTES, fault=worker.fault)
    """
    (folder / "stand_in.py").write_text(textwrap.dedent(code))
    monkeypatch.syspath_prepend(folder)  # which workers are given as theirs
    return WorkerPool("stand_in", size=1)


def test_a_worker_that_cannot_tell_does_not_grade(monkeypatch, tmp_path):
    pool = stand_in(monkeypatch, tmp_path, "worker._read = lambda _: None")
    with pytest.raises(RlcrError, match="cannot grade: 0.5 against 1/2 should be correct and is unscorable"):
        settle([Job(("5",), "5.0"), Job(("6",), "6.0")], 20, pool)
    assert pool.pids() == []
    pool = stand_in(monkeypatch, tmp_path, "worker._same = lambda gold, answer: True")
    with pytest.raises(RlcrError, match="cannot grade: 0.6 against 1/2 should be wrong and is correct"):
        compare(Job(("5",), "5.0"), 20, pool)
    pool = stand_in(monkeypatch, tmp_path, "worker._read = lambda _: bytearray(3 * 1024**3)")
    with pytest.raises(RlcrError, match="cannot grade: its self-test ended in MemoryError"):
        compare(Job(("5",), "5.0"), 20, pool)


@pytest.mark.parametrize("harm", ["bytearray(3 * 1024**3)", "os.abort()", "sys.exit(0)"])
def test_who_takes_all_memory_or_crashes_is_to_blame(monkeypatch, tmp_path, harm):
    lines = f"answer = lambda job: {harm} if 'harm' in job.values() else worker.answer(job)"
    pool = stand_in(monkeypatch, tmp_path, lines)
    verdict = compare(Job(("5",), "harm"), 20, pool)
    assert (verdict.outcome, verdict.reason) == ("wrong", "answer took all memory or crashed the verifier")
    pool.close()
    lines = f"answer = lambda job: {harm} if 'harm' in str(job) else worker.answer(job)"
    pool = stand_in(monkeypatch, tmp_path, lines)
    verdict = compare(Job(("harm",), "5"), 20, pool)
    assert (verdict.outcome, verdict.reason) == ("unscorable", "gold took all memory or crashed the verifier")
    assert compare(Job(("5",), "5.0"), 20, pool).correct
    pool.close()


@needs_proc
def test_memory_in_use_when_the_jobs_begin_is_not_counted(monkeypatch, tmp_path):
    pool = stand_in(monkeypatch, tmp_path, "reserved = mmap.mmap(-1, 3 * 1024**3)")
    assert compare(Job(("1/2",), "0.5"), 20, pool).correct
    pool.close()


@pytest.fixture(scope="module")
def many_cores(tmp_path_factory) -> Path:
    """A library that, loaded before others, claims as many cores as FAKE_CORES says."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs a C compiler, and Linux")
    library = tmp_path_factory.mktemp("cores") / "cores.so"
    source = Path(__file__).with_name("many_cores.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


@pytest.mark.parametrize("threads", [None, "64"])
@pytest.mark.parametrize("cores", [64, 256])
def test_many_cores(many_cores, cores, threads):
    code = f"""if True:
        import os
        from rlcr.problem import Problem
        from rlcr.verify._math_pool import POOL
        from rlcr.verify.math import verify_math
        assert os.cpu_count() == len(os.sched_getaffinity(0)) == {cores}
        assert POOL.size == 16
        print(verify_math([Problem("1", "", ("1/2",), "math")] * 2, ["0.5", "0.6"]))
    """
    environment = {**os.environ, "LD_PRELOAD": str(many_cores), "FAKE_CORES": str(cores)}
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        environment.pop(name, None)
        environment |= {name: threads} if threads else {}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == f"{[Verdict('correct'), Verdict('wrong')]}\n"


def test_an_error_ends_a_batch_early():
    done: list[int] = []

    def work(number: int) -> None:
        if number == 3:
            raise ValueError("three")
        time.sleep(0.01)
        done.append(number)

    with pytest.raises(ValueError, match="three"):
        WorkerPool(WORKER, size=2).map(work, range(1000))
    assert len(done) < 100


@needs_proc
def test_workers_are_kept_between_calls():
    pool = WorkerPool(WORKER, size=1)
    settle([Job(("5",), "5.0")], 20, pool)
    first = pool.pids()
    settle([Job(("5",), "5.5"), Job(("1",), "1.0")], 20, pool)
    assert pool.pids() == first
    pool.close()


@needs_proc
def test_memory_is_limited():
    pool = WorkerPool(WORKER, size=1)
    compare(Job(("1",), "2.5"), 20, pool)
    with open(f"/proc/{pool.pids()[0]}/limits") as limits:
        (line,) = [line for line in limits if line.startswith("Max address space")]
    assert 2 < int(line.split()[3]) / 1024**3 < 2.5  # 2 GiB beyond what the imports take
    pool.close()


def test_many_threads_at_once():
    answers = ["0.5", "0.6", "1/2", r"\frac{2}{4}", "x", "5"]
    expected = [True, False, True, True, False, False]

    def work(seed: int) -> bool:
        turned = [(index + seed) % len(answers) for index in range(30)]
        found = verify_math([PROBLEM] * 30, [answers[index] for index in turned])
        return [verdict.correct for verdict in found] == [expected[index] for index in turned]

    with ThreadPoolExecutor(12) as threads:
        assert all(threads.map(work, range(24)))
    assert len(POOL.pids()) <= POOL.size


def test_a_forked_child_starts_workers_of_its_own():
    code = """if True:
        import os
        from rlcr.problem import Problem
        from rlcr.verify.math import verify_math
        ask = lambda: verify_math([Problem("1", "", ("1/2",), "math")], ["0.5"])[0].correct
        assert ask()
        child = os.fork()
        assert ask()
        if child:
            assert os.waitpid(child, 0)[1] == 0
            assert ask()
    """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def start_script(comparison: str) -> subprocess.Popen[str]:
    code = f"""if True:
        import threading, time
        from rlcr.verify._math_pool import POOL, Job, compare, settle
        compare(Job(("1",), "2.5"), 20)
        print(*POOL.pids(), flush=True)
        {comparison}
    """
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def worker_of(script: subprocess.Popen[str]) -> int:
    assert script.stdout is not None
    pid = int(script.stdout.readline())
    assert alive(pid)
    return pid


@needs_proc
def test_nothing_is_left_at_interpreter_exit():
    with start_script("pass") as script:
        worker = worker_of(script)
        assert script.wait(20) == 0
    assert gone_within([worker], 2)


@needs_proc
def test_nothing_is_left_when_the_parent_is_killed_while_idle():
    with start_script("time.sleep(60)") as script:
        worker = worker_of(script)
        script.kill()
    assert gone_within([worker], 2)


@needs_proc
def test_nothing_is_left_when_the_parent_is_killed_in_a_runaway_comparison():
    with start_script(f"compare(Job(('1',), {RUNAWAY!r}), 2)") as script:
        worker = worker_of(script)
        time.sleep(0.7)
        script.kill()
        script.wait()
        assert alive(worker)  # busy: it cannot see the end of its input
    assert gone_within([worker], 60)  # 2 s of computing, however long they take


@needs_proc
def test_ctrl_c_ends_a_batch():
    with start_script(f"settle([Job(('1',), {RUNAWAY!r} + str(n)) for n in range(100)], 2)") as script:
        worker = worker_of(script)
        time.sleep(0.7)
        script.send_signal(signal.SIGINT)
        assert script.wait(60) != 0
    assert gone_within([worker], 2)
