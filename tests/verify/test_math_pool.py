"""Real worker processes: time limits, crashes, threads, forks and the end of the parent."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from rlcr.errors import RlcrError
from rlcr.problem import Problem
from rlcr.verify._math_pool import POOL, Job, compare, settle
from rlcr.verify._pool import Pool
from rlcr.verify.math import verify_math

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
    pool = Pool(WORKER, size=2)
    compare(Job(("1",), "2"), 20, pool)
    before = pool.pids()
    jobs = [Job(("5",), "5.0"), Job(("5",), RUNAWAY), *(Job((str(n),), f"{n}.0") for n in range(20))]
    start = time.monotonic()
    verdicts = settle(jobs, 0.5, pool)
    assert time.monotonic() - start < 15
    assert (verdicts[1].outcome, verdicts[1].reason) == ("unscorable", "timed out after 0.5 s")
    assert [verdict.outcome for verdict in verdicts[:1] + verdicts[2:]] == ["correct"] * 21
    during = pool.pids()
    assert 1 <= len(during) <= 2
    pool.close()
    assert pool.pids() == []
    assert gone_within(before + during, 2)


@needs_proc
def test_a_worker_that_dies_costs_one_comparison_at_most():
    pool = Pool(WORKER, size=1)
    assert compare(Job(("5",), "5.0"), 20, pool).correct
    os.kill(pool.pids()[0], signal.SIGKILL)
    time.sleep(0.2)
    assert compare(Job(("5",), "5.0"), 20, pool).correct  # found dead, replaced

    pid = pool.pids()[0]
    threading.Timer(0.5, os.kill, (pid, signal.SIGKILL)).start()
    assert compare(Job(("5",), RUNAWAY), 20, pool).reason == "verifier ran out of memory or crashed"
    assert compare(Job(("5",), "5.0"), 20, pool).correct
    pool.close()


def test_a_busy_machine_gives_the_same_verdict():
    pool = Pool(WORKER, size=1)
    compare(Job(("1",), "2.5"), 20, pool)
    (worker,) = pool.pids()
    os.kill(worker, signal.SIGSTOP)  # as little computing as a busy machine can give
    threading.Timer(1.5, os.kill, (worker, signal.SIGCONT)).start()
    assert compare(Job(("5",), "5.0"), 1, pool).correct
    pool.close()


def test_a_worker_that_cannot_start_says_how_to_see_why():
    with pytest.raises(RlcrError, match="to see why, run: .* -m rlcr.verify.nonsense < "):
        Pool("rlcr.verify.nonsense", size=1).ask({}, 1)


def test_an_error_ends_a_batch_early():
    done: list[int] = []

    def work(number: int) -> None:
        if number == 3:
            raise ValueError("three")
        time.sleep(0.01)
        done.append(number)

    with pytest.raises(ValueError, match="three"):
        Pool(WORKER, size=2).map(work, range(1000))
    assert len(done) < 100


@needs_proc
def test_workers_are_kept_between_calls():
    pool = Pool(WORKER, size=1)
    settle([Job(("5",), "5.0")], 20, pool)
    first = pool.pids()
    settle([Job(("5",), "5.5"), Job(("1",), "1.0")], 20, pool)
    assert pool.pids() == first
    pool.close()


@needs_proc
def test_memory_is_limited():
    pool = Pool(WORKER, size=1)
    compare(Job(("1",), "2.5"), 20, pool)
    with open(f"/proc/{pool.pids()[0]}/limits") as limits:
        assert f"Max address space         {2 * 1024**3}" in limits.read()
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
