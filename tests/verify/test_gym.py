"""The scorers of reasoning-gym: fenced in, limited in time, and asked from many threads."""

import os
import signal
import threading
import time

import pytest

from rlcr.errors import RlcrError
from rlcr.problem import Problem
from rlcr.tasks.gym import build
from rlcr.verify import Grading, _gym_worker, verify
from rlcr.verify.gym import POOL, verify_gym

pytest.importorskip("reasoning_gym")


def one(dataset: str) -> Problem:
    return build("test", 1, 0, dataset=dataset)[0]


@pytest.mark.parametrize("grading", ["strict", "paper"])
def test_by_name_and_without_answer(grading: Grading):
    problem = one("chain_sum")
    assert problem.verifier == "gym"
    answers = [None, "  ", "9" * 60_000, f" {problem.gold[0]}\n"]
    verdicts = verify([problem] * 4, answers, grading=grading)
    assert [v.outcome for v in verdicts] == ["wrong", "wrong", "wrong", "correct"]


def test_a_problem_of_another_task():
    with pytest.raises(RlcrError, match="not a problem of the gym task, its extras lack 'dataset'"):
        verify_gym([Problem("x", "?", ("1",), "gym")] * 5, ["1"] * 5)


def test_part_credit_is_wrong():
    problem = one("caesar_cipher")
    assert verify_gym([problem], [problem.gold[0] + " or so"])[0].outcome == "wrong"


@pytest.mark.parametrize(
    "dataset",
    [*sorted(_gym_worker._PARSED), "n_queens", "spiral_matrix", "binary_matrix", "string_insertion"],
)
def test_answers_are_never_run_as_code(dataset: str, tmp_path):
    mark = tmp_path / "mark"
    attacks = [
        f"open({str(mark)!r}, 'w')",
        f"__import__('os').system('touch {mark}')",
        f"[open({str(mark)!r}, 'w')]",
    ]
    problem = one(dataset)
    assert [v.outcome for v in verify_gym([problem] * 3, attacks)] == ["wrong"] * 3
    assert not mark.exists()


def test_formulas_are_still_read():
    problem = one("simple_integration")
    assert verify_gym([problem], [f"(2*({problem.gold[0]}))/2 + sin(pi)"])[0].correct


def test_the_question_as_an_integral_is_no_answer():
    problem = one("intermediate_integration")
    metadata = _gym_worker.unpack(problem.extras["metadata"])
    echo = f"Integral({metadata['integrand']}, {metadata['variable']})"
    assert verify_gym([problem], [echo])[0].outcome == "wrong"


def test_an_answer_the_scorer_cannot_read_is_wrong():
    verdict = verify_gym([one("prime_factorization")], ["two times three"])[0]
    assert verdict.outcome == "wrong"
    assert "ValueError" in verdict.reason


def test_a_gold_the_scorer_cannot_read_is_unscorable():
    problem = one("prime_factorization")
    broken = Problem(
        problem.id, problem.question, ("seven",), "gym", extras={**problem.extras, "metadata": {}}
    )
    verdict = verify_gym([broken], ["2 × 3"])[0]
    assert verdict.outcome == "unscorable"


def test_an_answer_whose_score_does_not_end_is_wrong():
    problem = one("countdown")
    verdicts = verify_gym([problem] * 2, ["9**9**9**9", problem.gold[0]], time_limit=1.0)
    assert [v.outcome for v in verdicts] == ["wrong", "correct"]
    assert "timed out after 1 s" in verdicts[0].reason


def test_a_worker_that_dies_is_replaced():
    problem = one("chain_sum")
    before = POOL.pids()
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    while POOL.pids():
        time.sleep(0.05)
    assert verify_gym([problem], [problem.gold[0]])[0].outcome == "correct"
    assert POOL.pids()
    assert not set(POOL.pids()) & set(before)


def test_a_worker_that_dies_while_scoring():
    problem = one("countdown")
    assert verify_gym([problem], [problem.gold[0]])[0].correct

    def kill() -> None:
        for pid in POOL.pids():
            os.kill(pid, signal.SIGKILL)

    threading.Timer(0.5, kill).start()
    assert "timed out after 2 s" in verify_gym([problem], ["9**9**9**9"], time_limit=2)[0].reason
    over = threading.Event()

    def kill_again() -> None:
        while not over.wait(0.05):
            kill()

    killer = threading.Thread(target=kill_again)
    killer.start()
    verdict = verify_gym([problem], ["9**9**9**9"], time_limit=60)[0]
    over.set()
    killer.join()
    assert (verdict.outcome, verdict.reason) == (
        "unscorable",
        "the scorer's processes were killed, again and again",
    )
    assert verify_gym([problem], [problem.gold[0]])[0].correct


def test_a_busy_machine_gives_the_same_verdict():
    problem = one("chain_sum")
    workers = POOL.pids()
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)  # as little computing as a busy machine can give

    def go_on() -> None:
        for pid in workers:
            os.kill(pid, signal.SIGCONT)

    threading.Timer(1.5, go_on).start()
    assert verify_gym([problem], [problem.gold[0]], time_limit=1.0)[0].correct


def test_threads_do_not_mix_up_replies():
    problems = build("test", 40, 0, dataset="chain_sum")
    golds = [problem.gold[0] for problem in problems]
    outcomes: list[bool] = []

    def check(answers: list[str], expected: str) -> None:
        outcomes.append([v.outcome for v in verify_gym(problems, answers)] == [expected] * 40)

    jobs = [(golds, "correct"), (["zebra"] * 40, "wrong")] * 2
    threads = [threading.Thread(target=check, args=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == [True] * 4
