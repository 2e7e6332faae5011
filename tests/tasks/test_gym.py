import json
import os
import subprocess
import sys

import pytest

from rlcr.errors import RlcrError
from rlcr.problem import Problem
from rlcr.tasks.gym import build
from rlcr.tasks.plumbing.problem_files import to_line
from rlcr.verify._gym_worker import REFUSED
from rlcr.verify.gym import verify_gym

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


def test_a_problem_whose_gold_fails_is_replaced():
    problems = build("train", 60, 2, dataset="propositional_logic")
    assert len(problems) == 60
    assert all(v.correct for v in verify_gym(problems, [problem.gold[0] for problem in problems]))
    numbers = [int(problem.id.rsplit("-", 1)[1]) for problem in problems]
    assert 8 not in numbers
    assert numbers == sorted(numbers)
    assert numbers[-1] > 59


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
        "from rlcr.tasks.gym import build; from rlcr.tasks.plumbing.problem_files import sha256; "
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


def test_bad_split_and_size():
    with pytest.raises(RlcrError, match="did you mean train"):
        build("tran", 1, 0, dataset="chain_sum")
    with pytest.raises(RlcrError, match="at least 1"):
        build("train", 0, 0, dataset="chain_sum")


def test_missing_package_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", [path for path in sys.path if "site-packages" not in path])
    monkeypatch.delitem(sys.modules, "reasoning_gym", raising=False)
    with pytest.raises(RlcrError, match=r'pip install "rlcr\[gym\]"'):
        build("train", 1, 0, dataset="chain_sum")


@pytest.mark.slow
def test_every_dataset():
    from reasoning_gym.factory import DATASETS as EVERY

    for dataset in sorted(set(EVERY) - set(REFUSED)):
        problems = build("test", 3, 0, dataset=dataset)
        assert all(v.correct for v in verify_gym(problems, [p.gold[0] for p in problems])), dataset
        assert not any(v.correct for v in verify_gym(problems, ["zebra crossing"] * 3)), dataset
