"""Kept sets: the same as fresh ones, and made anew whenever anything that decides them has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rlcr.tasks import load
from rlcr.tasks.plumbing import source
from rlcr.tasks.plumbing.built import to_line
from rlcr.tasks.plumbing.tables import Row

Write = Callable[..., Path]
HARD = {"source": "olympiads", "llama8b_solve_rate": 0.5}


@pytest.fixture
def sets(tmp_path: Path) -> Callable[[], list[Path]]:
    return lambda: sorted(path for path in (tmp_path / "cache" / "sets").rglob("*") if path.is_file())


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the tables whose rows were read: a kept set reads none."""
    read: list[str] = []
    rows = source.Table.rows

    def counted(table: source.Table) -> Iterator[Row]:
        read.append(table.name)
        return rows(table)

    monkeypatch.setattr(source.Table, "rows", counted)
    return read


@pytest.fixture
def gsm8k(write: Write, data_dir: Path) -> Path:
    write("gsm8k/test.jsonl", [{"question": f"Question {n}?", "answer": f"#### {n}"} for n in range(50)])
    return data_dir


@pytest.fixture
def every_source(write: Write, data_dir: Path, gsm8k: Path, hotpot_row: Callable[..., Any]) -> Path:
    write("hotpotqa/distractor_dev.jsonl", [hotpot_row(n, others=8 - n % 4 // 3) for n in range(40)])
    write("bigmath/train.jsonl", [{"problem": f"{n} + 1?", "answer": f"{n + 1}", **HARD} for n in range(90)])
    write(
        "triviaqa/rlcr_nocontext_2000.jsonl",
        [
            {"question": f"Who is {n % 4}? \ud800", "question_id": f"q{n % 4}", "answer": ["é"]}
            for n in range(6)
        ],
    )
    write(
        "gpqa/gpqa_main.jsonl",
        [
            {"Question": "Why?", "High-level domain": "Physics", "Correct Answer": "so"}
            | {f"Incorrect Answer {n}": f"no {n}" for n in (1, 2, 3)}
        ],
    )
    return data_dir


@pytest.mark.parametrize(
    "name", ["hotpotqa", "hotpotqa-modified", "bigmath-digits", "triviaqa", "gpqa", "gsm8k"]
)
def test_kept_is_as_fresh(name: str, every_source: Path, builds: list[str]) -> None:
    fresh = load(name, data_dir=every_source)
    assert builds
    builds.clear()
    again = load(name, data_dir=every_source)
    assert builds == []
    assert again == fresh
    assert again.provenance() == fresh.provenance()
    assert [*map(to_line, again.problems)] == [*map(to_line, fresh.problems)]
    assert [list(problem.extras) for problem in again.problems] == [
        list(problem.extras) for problem in fresh.problems
    ]


def test_another_request_is_another_set(
    gsm8k: Path, builds: list[str], sets: Callable[[], list[Path]]
) -> None:
    first = load("gsm8k", size=5, data_dir=gsm8k)
    assert load("gsm8k", size=5, seed=1, data_dir=gsm8k).problems != first.problems
    assert len(load("gsm8k", size=6, data_dir=gsm8k).problems) == 6
    assert len(load("gsm8k", data_dir=gsm8k).problems) == 50
    assert len(builds) == len(sets()) == 4


def test_a_touched_source_is_read_anew(gsm8k: Path, write: Write, builds: list[str]) -> None:
    load("gsm8k", data_dir=gsm8k)
    path = write("gsm8k/test.jsonl", [{"question": "Another?", "answer": "#### 1"}])
    assert [problem.question for problem in load("gsm8k", data_dir=gsm8k).problems] == ["Another?"]
    assert len(builds) == 2
    path.touch()  # the same bytes: nothing to do
    load("gsm8k", data_dir=gsm8k)
    assert len(builds) == 2


def test_every_file_that_is_read_counts(every_source: Path, write: Write) -> None:
    """The authors' test file decides what may be trained on."""
    before = load("bigmath-digits", "train", data_dir=every_source).problems
    held_out = before[0].question
    write("bigmath/rlcr_digits_test.jsonl", [{"problem": held_out, "answer": "1", **HARD}])
    after = load("bigmath-digits", "train", data_dir=every_source).problems
    assert held_out not in {problem.question for problem in after}
    assert len(after) == len(before) - 1


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-9], lambda data: data.replace(b"7", b"8"), lambda _: b""]
)
def test_a_damaged_set_is_built_anew(
    damage: Callable[[bytes], bytes], gsm8k: Path, builds: list[str], sets: Callable[[], list[Path]]
) -> None:
    fresh = load("gsm8k", data_dir=gsm8k)
    other = load("gsm8k", size=3, data_dir=gsm8k)
    before = {path: path.read_bytes() for path in sets()}
    kept = next(path for path, data in before.items() if data.count(b"\n") == 51)
    kept.write_bytes(damage(before[kept]))
    builds.clear()
    assert load("gsm8k", data_dir=gsm8k) == fresh
    assert len(builds) == 1
    assert {path: path.read_bytes() for path in sets()} == before  # mended, and no other touched
    assert load("gsm8k", size=3, data_dir=gsm8k) == other
    assert len(builds) == 1


def test_a_cache_that_cannot_be_written_does_no_harm(
    gsm8k: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "occupied").write_text("")
    monkeypatch.setenv("RLCR_CACHE", str(tmp_path / "occupied"))
    assert len(load("gsm8k", data_dir=gsm8k).problems) == 50
