import json
import os
import subprocess
import sys
import threading

import pytest

from rlcr.errors import RlcrError
from rlcr.problem import Problem
from rlcr.tasks import gym, gym_worker
from rlcr.tasks.built import to_line
from rlcr.tasks.gym import build, verify_gym

pytest.importorskip("reasoning_gym")

# One of each kind: plain text, a number, a scorer of its own, eval, sympy, gold only in the metadata,
# tuples that must survive JSON, numbers as keys, other problems under another PYTHONHASHSEED.
DATASETS = [
    "arc_agi",
    "caesar_cipher",
    "chain_sum",
    "complex_arithmetic",
    "countdown",
    "game_of_life_halting",
    "graph_color",
    "intermediate_integration",
    "isomorphic_strings",
    "n_queens",
    "prime_factorization",
    "propositional_logic",
    "rearc",
    "rubiks_cube",
    "spiral_matrix",
    "string_insertion",
    "word_ladder",
]


def one(dataset: str, **settings) -> Problem:
    return build("test", 1, 0, dataset=dataset, **settings)[0]


@pytest.mark.parametrize("dataset", DATASETS)
def test_gold_passes_and_wrong_fails(dataset: str):
    problems = build("test", 8, 0, dataset=dataset)
    assert len({problem.id for problem in problems}) == 8
    golds = [problem.gold[0] for problem in problems]
    assert all(v.outcome == "correct" for v in verify_gym(problems, golds))
    for nonsense in ("zebra crossing", "nan", "inf", "[[", "{", "-99"):
        assert all(v.outcome == "wrong" for v in verify_gym(problems, [nonsense] * 8)), nonsense


@pytest.mark.parametrize("dataset", DATASETS)
def test_problems_survive_json(dataset: str):
    problem = one(dataset)
    row = json.loads(to_line(problem))
    again = Problem(
        row["id"], row["question"], tuple(row["gold"]), row["verifier"], row["instruction"], row["extras"]
    )
    assert again == problem
    assert verify_gym([again], [problem.gold[0]])[0].correct


def test_verifier_name_and_no_answer():
    problem = one("chain_sum")
    assert problem.verifier == "gym"
    verdicts = verify_gym([problem] * 4, [None, "  ", "9" * 60_000, f" {problem.gold[0]}\n"])
    assert [v.outcome for v in verdicts] == ["wrong", "wrong", "wrong", "correct"]


def test_a_problem_whose_gold_fails_is_replaced():
    problems = build("train", 60, 2, dataset="propositional_logic")
    assert len(problems) == 60
    assert all(v.correct for v in verify_gym(problems, [problem.gold[0] for problem in problems]))
    numbers = [int(problem.id.rsplit("-", 1)[1]) for problem in problems]
    assert 8 not in numbers
    assert numbers == sorted(numbers)
    assert numbers[-1] > 59


def test_part_credit_is_wrong():
    problem = one("caesar_cipher")
    assert verify_gym([problem], [problem.gold[0] + " or so"])[0].outcome == "wrong"


def test_splits_and_seeds_are_apart_and_smaller_sets_begin_larger_ones():
    long = {"min_terms": 8, "max_terms": 9}  # so that no two are the same by chance

    def questions(split: str, size: int, seed: int) -> list[str]:
        return [problem.question for problem in build(split, size, seed, dataset="chain_sum", **long)]

    train = questions("train", 30, 0)
    assert questions("train", 10, 0) == train[:10]
    # The library would give problem i + 1 of one seed as problem i of the next.
    assert not set(train) & {*questions("train", 30, 1), *questions("test", 30, 0)}


def test_same_problems_in_every_process():
    code = (
        "from rlcr.tasks.gym import build; from rlcr.tasks.built import sha256; "
        "print([sha256(build('train', 40, 1, dataset=name)) for name in "
        "('isomorphic_strings', 'list_functions', 'polynomial_multiplication', 'ransom_note')])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert "[" in outputs.pop()


def test_settings_reach_the_dataset_and_its_scorer():
    problem = one("chain_sum", min_terms=7, max_terms=7)
    assert problem.question.count("+") + problem.question.count(" - ") == 6
    assert problem.extras["settings"] == {"min_terms": 7, "max_terms": 7}
    wide = one("puzzle24", min_value=1, max_value=6)
    assert verify_gym([wide], [wide.gold[0]])[0].correct


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dataset": "chain_sums"}, "did you mean chain_sum"),
        ({"dataset": "chain_sum", "min_term": 3}, "did you mean min_terms"),
        ({"dataset": "chain_sum", "min_terms": 0}, "settings do not fit"),
        ({"dataset": "chain_sum", "min_terms": "three"}, "settings do not fit"),
        ({"dataset": "chain_sum", "min_terms": object()}, "plain numbers"),
        ({"dataset": "rush_hour"}, "no right answer"),
        ({"dataset": "composite"}, "mixture"),
        ({"dataset": "codeio"}, "another problem every time"),
    ],
)
def test_bad_settings(settings: dict, message: str):
    with pytest.raises(RlcrError, match=message):
        build("train", 2, 0, **settings)


def test_bad_split_size_and_problem():
    with pytest.raises(RlcrError, match="did you mean train"):
        build("tran", 1, 0, dataset="chain_sum")
    with pytest.raises(RlcrError, match="at least 1"):
        build("train", 0, 0, dataset="chain_sum")
    with pytest.raises(RlcrError, match="not a problem of the gym task, its extras lack 'dataset'"):
        verify_gym([Problem("x", "?", ("1",), "gym")], ["1"])


def test_missing_package_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    gym._close()
    monkeypatch.setattr(sys, "path", [path for path in sys.path if "site-packages" not in path])
    monkeypatch.delitem(sys.modules, "reasoning_gym", raising=False)
    with pytest.raises(RlcrError, match=r'pip install "rlcr\[gym\]"'):
        build("train", 1, 0, dataset="chain_sum")


# --- answers that mean harm -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dataset", [*sorted(gym_worker._PARSED), "n_queens", "spiral_matrix", "binary_matrix", "string_insertion"]
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
    metadata = gym_worker.unpack(problem.extras["metadata"])
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


def test_a_score_that_does_not_end_is_unscorable_and_the_next_is_not():
    problem = one("countdown")
    verdicts = verify_gym([problem] * 2, ["9**9**9**9", problem.gold[0]], time_limit=1.0)
    assert [v.outcome for v in verdicts] == ["unscorable", "correct"]
    assert "1 s" in verdicts[0].reason


def test_a_worker_that_dies_is_replaced():
    problem = one("chain_sum")
    assert gym._worker is not None
    gym._worker.process.kill()
    assert verify_gym([problem], [problem.gold[0]])[0].outcome == "unscorable"
    assert verify_gym([problem], [problem.gold[0]])[0].outcome == "correct"


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


@pytest.mark.slow
def test_every_dataset():
    from reasoning_gym.factory import DATASETS as EVERY

    for dataset in sorted(set(EVERY) - set(gym_worker.REFUSED)):
        problems = build("test", 3, 0, dataset=dataset)
        assert all(v.correct for v in verify_gym(problems, [p.gold[0] for p in problems])), dataset
        assert not any(v.correct for v in verify_gym(problems, ["zebra crossing"] * 3)), dataset
