"""Each dataset on small rows in every carrier's field names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlcr.errors import RlcrError
from rlcr.tasks import load
from rlcr.tasks.plumbing.seeded import same_question_key
from rlcr.verify import verify

Write = Callable[..., Path]


def test_gsm8k_gold_is_after_the_mark_without_commas(write: Write, data_dir: Path) -> None:
    write("gsm8k/test.jsonl", [{"question": "How many?", "answer": "Some <<1+1=2>> steps.\n#### 1,234"}])
    (problem,) = load("gsm8k", data_dir=data_dir).problems
    assert (problem.id, problem.gold, problem.verifier) == ("gsm8k/test/0", ("1234",), "math")


@pytest.mark.parametrize("answer", ["no mark 7", "#### "])
def test_gsm8k_row_without_gold(answer: str, write: Write, data_dir: Path) -> None:
    write("gsm8k/test.jsonl", [{"question": "q", "answer": "#### 1"}, {"question": "r", "answer": answer}])
    with pytest.raises(RlcrError, match=r"test\.jsonl, line 2, column answer: no gold"):
        load("gsm8k", data_dir=data_dir)


def test_shards_of_the_hub_are_read_in_order(data_dir: Path) -> None:
    (data_dir / "gsm8k").mkdir()
    for shard in range(2):
        table = pa.table({"question": [f"q{shard}"], "answer": [f"#### {shard}"]})
        pq.write_table(table, data_dir / "gsm8k" / f"test-0000{shard}-of-00002.parquet")
    tasks = load("gsm8k", data_dir=data_dir)
    assert [problem.gold for problem in tasks.problems] == [("0",), ("1",)]
    assert tasks.source == "gsm8k/test-00000-of-00002.parquet + gsm8k/test-00001-of-00002.parquet"


def test_triviaqa_from_upstream_rows(write: Write, data_dir: Path) -> None:
    rows = [
        {"question": f"q{n}", "question_id": f"id{n}", "answer": {"value": "a", "aliases": ["a"] * n}}
        for n in range(1, 9)
    ]
    write("triviaqa/rc.nocontext/validation.jsonl", rows)
    assert [p.id[-1] for p in load("triviaqa", data_dir=data_dir).problems] == list("12345")
    assert len(load("triviaqa", data_dir=data_dir, max_aliases=None).problems) == 8
    with_judge = load("triviaqa", data_dir=data_dir, verifier="judge")
    assert with_judge.provenance()["verifier"] == "judge"
    assert {problem.verifier for problem in with_judge.problems} == {"judge"}


def test_simpleqa_from_upstream_csv(data_dir: Path) -> None:
    (data_dir / "simpleqa").mkdir()
    (data_dir / "simpleqa" / "simple_qa_test_set.csv").write_text(
        "metadata,problem,answer\n\"{'topic': 'Art', 'answer_type': 'Person', 'urls': []}\",Who?,Me\n"
    )
    (problem,) = load("simpleqa", data_dir=data_dir).problems
    assert (problem.question, problem.gold) == ("Who?", ("Me",))
    assert problem.extras == {"topic": "Art", "answer_type": "Person"}


CHOICES = [{"label": "A", "text": "bank"}, {"label": "B", "text": "library"}]
COMMONSENSE: list[tuple[str, dict[str, Any]]] = [
    ("dev", {"id": "1", "answerKey": "B", "question": {"stem": "Where?", "choices": CHOICES}}),
    ("rlcr_eval", {"id": "1", "answerKey": "B", "problem": "Where?\nA) bank\nB) library\n"}),
    (
        "data/validation",
        {
            "id": "1",
            "answerKey": "B",
            "question": "Where?",
            "choices": {"label": ["A", "B"], "text": ["bank", "library"]},
        },
    ),
]


@pytest.mark.parametrize(("name", "row"), COMMONSENSE)
def test_commonsenseqa_carriers(name: str, row: dict[str, Any], write: Write, data_dir: Path) -> None:
    write(f"commonsenseqa/{name}.jsonl", [row])
    (problem,) = load("commonsenseqa", data_dir=data_dir).problems
    assert problem.question == "Where?\nA) bank\nB) library"
    assert problem.gold == ("B) library",)
    assert problem.extras["choices"] == {"A": "bank", "B": "library"}
    answers = ["B", "library", "A", "bank"]
    assert [v.correct for v in verify([problem] * 4, answers)] == [True, True, False, False]


def test_commonsenseqa_row_without_gold(write: Write, data_dir: Path) -> None:
    write("commonsenseqa/dev.jsonl", [{**COMMONSENSE[0][1], "answerKey": "E"}])
    with pytest.raises(RlcrError, match="column answerKey: no gold: 'E' is none of the options A, B"):
        load("commonsenseqa", data_dir=data_dir)


def gpqa_rows(count: int) -> list[dict[str, str]]:
    wrong = {f"Incorrect Answer {k}": f"wrong {k}" for k in (1, 2, 3)}
    return [
        {"Question": f"Question {n}?", "Correct Answer": f"right {n}\n", "Record ID": f"rec{n}", **wrong}
        for n in range(count)
    ]


def test_gpqa_options_are_shuffled_with_the_seed(write: Write, data_dir: Path) -> None:
    write("gpqa/gpqa_main.jsonl", gpqa_rows(400))
    first, again, other = (load("gpqa", seed=seed, data_dir=data_dir) for seed in (0, 0, 1))
    assert first.sha256 == again.sha256 != other.sha256
    letters = [problem.gold[0][0] for problem in first.problems]
    for letter in "ABCD":
        assert 70 < letters.count(letter) < 130
    for number, problem in enumerate(first.problems):
        assert problem.extras["choices"][letters[number]] == f"right {number}"
    assert all(v.correct for v in verify(first.problems, letters))
    assert first.notes == ("all 400 problems at hand instead of the paper's 448",)


def bigmath_row(number: int, rate: float | None = 0.5, answer: str = "7") -> dict[str, Any]:
    return {
        "problem": f"What is {number} + {number}?",
        "answer": answer,
        "source": "made",
        "domain": [],
        "llama8b_solve_rate": rate,
    }


def test_bigmath_filters(write: Write, data_dir: Path) -> None:
    rows = [bigmath_row(n) for n in range(200)]
    rows += [bigmath_row(1000, rate=0.0), bigmath_row(1001, rate=0.71), bigmath_row(1002, rate=None)]
    rows += [bigmath_row(1003 + n, answer=a) for n, a in enumerate(["x", "1/2", "inf", "1" * 20, "1_000"])]
    write("bigmath/train.jsonl", rows)
    train = load("bigmath-digits", "train", data_dir=data_dir)
    test = load("bigmath-digits", "test", data_dir=data_dir)
    assert len(train.problems) + len(test.problems) == 200
    assert 5 < len(test.problems) < 40
    notes = " ".join(train.notes)
    assert "2 rows left out: solve rate outside (0, 0.7]" in notes
    assert "1 rows left out: no solve rate" in notes
    assert "5 rows left out: answer is not a short number" in notes
    wide = load("bigmath-digits", "train", data_dir=data_dir, min_solve_rate=-1.0, max_solve_rate=1.0)
    assert len(wide.problems) >= len(train.problems)


def test_bigmath_csv_without_some_solve_rates(data_dir: Path) -> None:
    (data_dir / "bigmath").mkdir()
    path = data_dir / "bigmath" / "train.csv"
    rows = [f"How many is {n}?,{n},x,{0.5 if n % 2 else ''}" for n in range(200)]
    path.write_text("problem,answer,source,llama8b_solve_rate\n" + "\n".join(rows))
    train = load("bigmath-digits", "train", data_dir=data_dir)
    assert "100 rows left out: no solve rate" in train.notes
    assert {problem.extras["solve_rate"] for problem in train.problems} == {0.5}
    path.write_text("problem,answer,source,llama8b_solve_rate\n" + rows[1] + "\nWhy?,1,x,often\n")
    with pytest.raises(
        RlcrError, match="line 3, column llama8b_solve_rate: expected a number, found 'often'"
    ):
        load("bigmath-digits", "train", data_dir=data_dir)


def test_bigmath_never_leaks_whatever_seed_and_bounds(write: Write, data_dir: Path) -> None:
    rows = [bigmath_row(n, rate=(n % 10) / 10) for n in range(600)]
    # The same questions again, in other letters.
    rows += [{**row, "problem": row["problem"].upper() + " "} for row in rows]
    write("bigmath/train.jsonl", rows)

    def questions(split: str, **how: Any) -> set[str]:
        problems = load("bigmath-digits", split, data_dir=data_dir, **how).problems
        keys = {same_question_key(problem.question) for problem in problems}
        assert len(keys) == len(problems)
        return keys

    tested = questions("test", seed=0) | questions("test", seed=1, size=5, max_solve_rate=0.9)
    trained = questions("train", seed=2, max_solve_rate=0.9) | questions("train", size=50, seed=3)
    assert tested
    assert not tested & trained


def test_bigmath_finished_test_split_is_whole_and_out_of_training(write: Write, data_dir: Path) -> None:
    rows = [bigmath_row(n, rate=0.73) for n in range(50)]
    write("bigmath/rlcr_digits_test.jsonl", rows)
    write("bigmath/train.jsonl", [bigmath_row(n) for n in range(300)])
    test = load("bigmath-digits", data_dir=data_dir)
    train = load("bigmath-digits", "train", data_dir=data_dir)
    assert len(test.problems) == 50
    assert not {p.question for p in test.problems} & {p.question for p in train.problems}
    assert "question of the authors' test file" in " ".join(train.notes)


def test_questions_of_the_authors_test_file_are_not_trained_on(write: Write, data_dir: Path) -> None:
    hard = {"source": "olympiads", "llama8b_solve_rate": 0.5}
    write("bigmath/train.jsonl", [{"problem": f"{n} + 1?", "answer": f"{n + 1}", **hard} for n in range(90)])
    before = load("bigmath-digits", "train", data_dir=data_dir).problems
    held_out = before[0].question
    write("bigmath/rlcr_digits_test.jsonl", [{"problem": held_out, "answer": "1", **hard}])
    after = load("bigmath-digits", "train", data_dir=data_dir).problems
    assert held_out not in {problem.question for problem in after}
    assert len(after) == len(before) - 1
