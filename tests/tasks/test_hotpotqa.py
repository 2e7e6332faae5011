from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tasks.hotpot_rows import hotpot_row

from rlcr.errors import RlcrError
from rlcr.problem import Problem
from rlcr.tasks import load
from rlcr.tasks.plumbing.seeded import same_question_key

Write = Callable[..., Path]

BUILD = """
import sys
from rlcr.tasks import load, write_problems
name, split, size, data, out = sys.argv[1:]
write_problems(out, load(name, split, size=int(size), seed=3, data_dir=data).problems)
"""


def build_elsewhere(data: Path, out: Path, size: int, hash_seed: str) -> bytes:
    """The bytes that another process, with another PYTHONHASHSEED, writes."""
    arguments = ["hotpotqa-modified", "test", str(size), str(data), str(out)]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    subprocess.run([sys.executable, "-c", BUILD, *arguments], env=environment, check=True)
    return out.read_bytes()


def titles(problem: Problem) -> list[str]:
    return re.findall(r"^\[\d+\] (.*)$", problem.question, re.M)


def check_modified(problems: tuple[Problem, ...], gold_titles: dict[str, set[str]]) -> None:
    counts = Counter(problem.extras["gold_paragraphs"] for problem in problems)
    assert set(counts) == {0, 1, 2}
    assert max(counts.values()) - min(counts.values()) <= 1
    for problem in problems:
        shown = titles(problem)
        gold = gold_titles[problem.id.split("/", 2)[2]]
        assert len(shown) == len(set(shown)) == 8
        assert len(gold & set(shown)) == problem.extras["gold_paragraphs"]
    assert len({same_question_key(problem.extras["bare_question"]) for problem in problems}) == len(problems)


@pytest.mark.parametrize("size", [500, 581])
def test_modified_from_the_real_dev_questions(size: int, shared_data: Path, tmp_path: Path) -> None:
    with gzip.open(shared_data / "hotpotqa" / "distractor_dev.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    gold_titles = {str(row["_id"]): {title for title, _ in row["supporting_facts"]} for row in rows}
    problems = load("hotpotqa-modified", size=size, seed=3, data_dir=shared_data).problems
    assert len(problems) == size
    check_modified(problems, gold_titles)
    first = build_elsewhere(shared_data, tmp_path / "1.jsonl", size, "0")
    assert first == build_elsewhere(shared_data, tmp_path / "2.jsonl", size, "4242")


def test_twenty_thousand_from_a_source_of_the_real_shape(write: Write, data_dir: Path) -> None:
    rows = [hotpot_row(number) for number in range(20_050)]
    write("hotpotqa/distractor_train.jsonl", rows)
    problems = load("hotpotqa-modified", "train", data_dir=data_dir).problems
    assert len(problems) == 20_000
    check_modified(problems, {row["_id"]: {title for title, _ in row["supporting_facts"]} for row in rows})
    # The gold paragraphs are at every place equally often: one place in eight, 20,000 in all.
    places = Counter(
        place for p in problems for place, title in enumerate(titles(p)) if title.startswith("Gold")
    )
    assert set(places) == set(range(8))
    assert max(places.values()) - min(places.values()) < 400


def test_the_bytes_are_pinned(write: Write, data_dir: Path) -> None:
    """Whoever changes this hash changes everybody's training set: say so in the changelog."""
    write("hotpotqa/distractor_dev.jsonl", [hotpot_row(number) for number in range(30)])
    tasks = load("hotpotqa-modified", size=12, seed=1, data_dir=data_dir)
    assert tasks.sha256 == "19f8176597caa2fde6effae71cfe87bda8bd2dfd445ee8bac7308adb2316b476"


def test_distractor_keeps_both_gold_paragraphs(write: Write, data_dir: Path) -> None:
    write("hotpotqa/distractor_dev.jsonl", [hotpot_row(number) for number in range(20)])
    tasks = load("hotpotqa", data_dir=data_dir)
    assert "all 20 problems at hand instead of the paper's 1,000" in tasks.notes
    for problem in tasks.problems:
        number = int(problem.id[-6:])
        assert len(titles(problem)) == 8
        assert {f"Gold {number}-a", f"Gold {number}-b"} <= set(titles(problem))
        assert problem.extras["gold_paragraphs"] == 2


def test_unusable_questions_are_replaced_and_named(write: Write, data_dir: Path) -> None:
    rows = [hotpot_row(number, others=3 if number % 5 == 0 else 8) for number in range(60)]
    rows[7]["supporting_facts"] = [["Gold 7-a", 0]]
    rows.append(hotpot_row(99, question=rows[1]["question"].upper()))
    write("hotpotqa/distractor_dev.jsonl", rows)
    tasks = load("hotpotqa-modified", size=46, data_dir=data_dir)
    assert len(tasks.problems) == 46
    used = {int(problem.id[-6:]) for problem in tasks.problems}
    assert not used & {7, 99, *range(0, 60, 5)}
    notes = " ".join(tasks.notes)
    assert "questions replaced by the next, fewer than 8 other paragraphs: q0000" in notes
    whole = " ".join(load("hotpotqa-modified", size=None, data_dir=data_dir).notes)
    assert "12 questions left out, fewer than 8 other paragraphs" in whole
    assert "1 questions left out, 1 gold paragraphs instead of 2: q000007" in whole
    assert "1 questions left out, the same question again: q000099" in whole


def test_a_smaller_set_is_the_beginning_of_a_larger_one(write: Write, data_dir: Path) -> None:
    write("hotpotqa/distractor_dev.jsonl", [hotpot_row(number) for number in range(60)])
    small, large = (load("hotpotqa-modified", size=n, data_dir=data_dir).problems for n in (20, 50))
    assert small == large[:20]
    other = load("hotpotqa-modified", size=20, seed=1, data_dir=data_dir).problems
    assert [p.id for p in other] != [p.id for p in small]


def test_upstream_array_and_hub_columns_give_the_same_problems(
    write: Write, data_dir: Path, tmp_path: Path
) -> None:
    rows = [hotpot_row(number) for number in range(30)]
    write("hotpotqa/distractor_dev.jsonl", rows)
    array = tmp_path / "array" / "hotpotqa" / "hotpot_dev_distractor_v1.json"
    array.parent.mkdir(parents=True)
    array.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    hub = tmp_path / "hub" / "hotpotqa" / "distractor" / "validation.jsonl"
    hub.parent.mkdir(parents=True)
    with hub.open("w", encoding="utf-8") as file:
        for row in rows:
            facts, context = row["supporting_facts"], row["context"]
            columns = {
                **{key: row[key] for key in ("question", "answer", "type", "level")},
                "id": row["_id"],
                "supporting_facts": {"title": [t for t, _ in facts], "sent_id": [n for _, n in facts]},
                "context": {"title": [t for t, _ in context], "sentences": [s for _, s in context]},
            }
            file.write(json.dumps(columns) + "\n")
    hashes = {
        load("hotpotqa-modified", size=30, data_dir=path).sha256
        for path in (data_dir, tmp_path / "array", tmp_path / "hub")
    }
    assert len(hashes) == 1


def test_an_array_cut_short_is_an_error(data_dir: Path) -> None:
    path = data_dir / "hotpotqa" / "hotpot_dev_distractor_v1.json"
    path.parent.mkdir()
    path.write_text(json.dumps([hotpot_row(1), hotpot_row(2)])[:-100])
    with pytest.raises(RlcrError, match="row 2: not JSON, or cut short"):
        load("hotpotqa", data_dir=data_dir)


def test_a_row_without_paragraphs_is_an_error(write: Write, data_dir: Path) -> None:
    write("hotpotqa/distractor_dev.jsonl", [hotpot_row(1), {**hotpot_row(2), "context": [["title"]]}])
    with pytest.raises(RlcrError, match=r"line 2, column context: expected paragraphs"):
        load("hotpotqa", data_dir=data_dir)
