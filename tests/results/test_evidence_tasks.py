"""The task families of results/evidence: what the files promise."""

from __future__ import annotations

from pathlib import Path

import pytest
from results.evidence import tasks

from rlcr.errors import RlcrError
from rlcr.problem import Problem
from rlcr.tasks import load
from rlcr.tasks.plumbing.seeded import same_question_key
from rlcr.verify import verify

SIZES = {"test": 40, "validation": 20, "warm-up": 30, "train": 60}
FAMILIES = ("chains", "letters", "reading")


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def data_dir(family: str, request: pytest.FixtureRequest) -> Path | None:
    """The shared data, without which only reading is skipped."""
    return request.getfixturevalue("shared_data") if family == "reading" else None


def build(family: str, data_dir: Path | None, sizes: dict[str, int] = SIZES) -> dict:
    return tasks.FAMILIES[family][0](sizes, data_dir)


def bare(problem: Problem) -> str:
    return same_question_key(problem.extras.get("bare_question", problem.question))


def test_files_are_the_same_each_time(family: str, data_dir: Path | None, tmp_path: Path) -> None:
    for folder in ("once", "again"):
        tasks.write(tmp_path / folder, {family: build(family, data_dir)})
    names = sorted(str(path.relative_to(tmp_path / "once")) for path in (tmp_path / "once").rglob("*.jsonl"))
    assert names == [
        "abstaining.jsonl",
        *(f"{family}/{split}.jsonl" for split in ("test", "train", "validation")),
        "warm-up.jsonl",
    ]
    for name in names:
        assert (tmp_path / "once" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    for split in ("train", "validation", "test"):
        assert len(load(str(tmp_path / "once" / family / f"{split}.jsonl")).problems) == SIZES[split]


def test_splits_share_no_id_and_no_question(family: str, data_dir: Path | None) -> None:
    splits = build(family, data_dir)
    assert {split: len(drawn) for split, drawn in splits.items()} == SIZES
    ids = [worked.problem.id for drawn in splits.values() for worked in drawn]
    assert len(set(ids)) == len(ids)
    questions = [bare(worked.problem) for drawn in splits.values() for worked in drawn]
    # Within a split, reading asks each question twice: with the answer's sentence and without.
    assert len(set(questions)) == len(questions) // (2 if family == "reading" else 1)
    by_split = [{bare(worked.problem) for worked in drawn} for drawn in splits.values()]
    assert sum(map(len, by_split)) == len(set(questions))


def test_test_problems_do_not_depend_on_the_other_sizes(family: str, data_dir: Path | None) -> None:
    few = build(family, data_dir, {**SIZES, "train": 10, "warm-up": 10})
    assert few["test"] == build(family, data_dir)["test"]


def test_golds_pass_their_verifier_and_the_warm_up_has_solutions(family: str, data_dir: Path | None) -> None:
    splits = build(family, data_dir)
    problems = [worked.problem for drawn in splits.values() for worked in drawn]
    verdicts = verify(problems, [problem.gold[0] for problem in problems])
    assert {verdict.outcome for verdict in verdicts} == {"correct"}
    assert verify([problems[0]], ["something else"])[0].outcome == "wrong"
    solved = [worked.solved() for worked in splits["warm-up"]]
    assert all(problem.extras["solution"] for problem in solved)


def test_chains_are_worked_out_to_the_answer() -> None:
    for worked in build("chains", None)["train"]:
        lines = worked.think.split("\n")
        assert lines[-1].endswith(f" = {worked.problem.gold[0]}")
        for line in lines:
            left, right = line.split(" = ")
            first, sign, second = left.split(" ")
            assert int(first) + (1 if sign == "+" else -1) * int(second) == int(right)


def test_reading_says_whether_the_answer_is_there(shared_data: Path) -> None:
    splits = build("reading", shared_data, {**tasks.READING_SIZES})
    for drawn in splits.values():
        present = [worked.problem.extras["present"] for worked in drawn]
        assert sum(present) * 2 == len(drawn)
        for worked in drawn:
            problem = worked.problem
            context = problem.question.removesuffix(problem.extras["bare_question"]).lower()
            assert len(context) < len(problem.question)
            assert (problem.gold[0].lower() in context) == problem.extras["present"]
            assert problem.gold[0].lower() not in problem.extras["bare_question"].lower()
            assert len(problem.question) <= 450
            if problem.extras["present"]:
                assert worked.think.endswith(problem.gold[0])


def test_reading_needs_data(tmp_path: Path) -> None:
    with pytest.raises(RlcrError, match="RLCR_DATA"):
        tasks.reading(SIZES, None)
    with pytest.raises(RlcrError, match="75 questions wanted, 0 in"):
        tasks.reading(SIZES, tmp_path)
