"""Filters, orders and search of the live view, against the slow and obvious way."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest
from tests.report.run_folders import problem, record, simulated_run, write_run

from rlcr.report.live.query import SORTS, BadQuery, Query, read_query
from rlcr.report.live.watching import Watched
from rlcr.report.reading import EvalRun, read_runs
from rlcr.report.samples import shown_record


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("live")
    return [
        simulated_run(root / "base", "base", {"gsm8k": 25, "trivia": 15}, samples=2),
        simulated_run(root / "rlcr", "rlcr", {"gsm8k": 20}),
    ]


def watched(*folders: Path) -> Watched:
    """Watched, and read to the end, without threads."""
    found = Watched(folders)
    assert not any(reader.read() for reader in found._readers.values())
    return found


def searched(live: Watched, query: Query) -> dict[str, Any]:
    """A page of answers, once the search behind it has come to its end."""
    page = live.answers.page(query)
    while query.words and page["searched"] < page["total"]:
        page = live.answers.page(query)
    return page


Row = dict[str, Any]


def slow_rows(runs: list[EvalRun]) -> list[Row]:
    """Every answer, as the page's script would hold it."""
    rows = []
    for number, run in enumerate(runs):
        problems = run.problems(set(run.rows.ids))
        for row in range(len(run.rows)):
            cells = run.record(row)
            asked = problems[cells["id"]]
            shown = shown_record(cells, run)
            texts = [cells["id"], asked["question"], *asked["gold"], *(part[1] for part in shown["p"])]
            texts += [shown.get(name, "") for name in ("a", "fa", "fc")]
            rows.append(
                {"run": number, "row": row, "age": len(run.rows) - row, "id": cells["id"], "task": cells["task"],
                 "text": "\n".join(texts).lower(), **shown}
            )  # fmt: skip
    return rows


def slow_answer(rows: list[Row], query: Query) -> list[tuple[int, str, int]]:
    """Which answers, in order, the way the script of the page does it."""
    names = {1: "right", 0: "wrong", -1: "unscorable"}

    def passes(row: Row) -> bool:
        stated = row["c"] if row["c"] is not None else -1
        return (
            (query.run is None or row["run"] == query.run)
            and (not query.task or row["task"] == query.task)
            and (query.question is None or row["id"] == query.question)
            and names[row["v"]] in query.verdicts
            and (query.repaired is None or ("fa" in row or "fc" in row) == query.repaired)
            and (query.every_confidence or query.low - 1e-9 <= stated <= query.high + 1e-9)
            and query.words in row["text"]
        )

    def alarm(row: Row) -> float:
        if row["v"] == 0:
            return 2 + (-0.5 if row["c"] is None else row["c"])
        return -(row["c"] or 0) - 1 if row["v"] == 1 else 0.5

    first = {}
    for row in rows:
        first.setdefault(row["id"], len(first))
    orders = {
        "wrong": lambda row: -alarm(row),
        "unsure": lambda row: (row["v"] != 1, 2 if row["c"] is None else row["c"]),
        "long": lambda row: -row["n"],
        "newest": lambda row: row["age"],
        "question": lambda row: (first[row["id"]], row["s"], row["run"]),
    }
    kept = sorted(filter(passes, rows), key=orders[query.sort])
    if query.view == "side":
        seen: set[tuple[str, int]] = set()
        kept = [row for row in kept if not ((key := (row["id"], row["s"])) in seen or seen.add(key))]
    return [(row["run"], row["id"], row["s"]) for row in kept]


def test_every_filter_and_order(folders: list[Path]) -> None:
    rng = random.Random(1)
    live, runs = watched(*folders), read_runs(folders).evals
    rows = slow_rows(runs)
    kinds = set()
    for _ in range(150):
        query = Query(
            run=rng.choice([None, None, 0, 1]),
            task=rng.choice(["", "", "gsm8k", "trivia"]),
            question=rng.choice([None, None, None, "gsm8k/00003", "nobody"]),
            verdicts=tuple(rng.sample(["right", "wrong", "unscorable"], rng.choice([0, 1, 2, 3, 3]))),
            repaired=rng.choice([None, None, True, False]),
            low=rng.choice([0.0, 0.0, 0.2, 0.8]),
            high=rng.choice([1.0, 1.0, 0.95]),
            words=rng.choice(["", "", "", "[7]", "bound above", "confidence"]),
            sort=rng.choice(SORTS),
            view=rng.choice(["one", "side"]),
        )
        expected = slow_answer(rows, query)
        number = rng.choice([0, 0, 1])
        size = 10 if query.view == "one" else 4
        page = searched(live, Query(**{**vars(query), "page": number}))
        assert page["count"] == len(expected), query
        assert page["total"] == len(rows)
        assert page["searched"] == (len(rows) if query.words else None)
        number = min(number, max(0, (len(expected) - 1) // size))
        samples, problems = page["samples"], page["problems"]
        shown = [(s["r"], problems[s["q"]]["i"], s["s"]) for s in (samples[at] for at in page["shown"])]
        assert shown == expected[number * size : (number + 1) * size], query
        kinds.add(min(2, len(expected)))
    assert kinds == {0, 1, 2}
    live.stop()


def test_the_other_runs_are_beside(folders: list[Path]) -> None:
    live = watched(*folders)
    page = live.answers.page(Query(question="gsm8k/00003", view="side", sort="question"))
    assert [(s["r"], s["s"]) for s in page["samples"]] == [(0, 0), (0, 1), (1, 0)]
    assert page["shown"] == [0, 1]  # a card for each sample; that of the other run is beside both
    assert page["problems"][0]["x"].startswith("[3]")
    alone = live.answers.page(Query(question="trivia/00003", view="side"))
    assert {s["r"] for s in alone["samples"]} == {0}
    live.stop()


def test_what_an_address_may_ask() -> None:
    assert read_query({}) == Query()
    asked = read_query(
        {"run": ["1"], "low": ["0.25"], "words": [" Two Words "], "verdicts": [""], "page": ["3"]}
    )
    assert (asked.run, asked.low, asked.words, asked.verdicts, asked.page) == (1, 0.25, "two words", (), 3)
    for bad in (
        {"page": "-1"}, {"page": "1e3"}, {"page": "9" * 30}, {"run": "x"}, {"low": "nan"}, {"high": "2"},
        {"sort": "__class__"}, {"view": "all"}, {"repaired": "maybe"}, {"verdicts": "right,left"}, {"file": "/etc/passwd"},
    ):  # fmt: skip
        with pytest.raises(BadQuery):
            read_query({name: [text] for name, text in bad.items()})


def test_searching_goes_on_as_the_run_grows(tmp_path: Path) -> None:
    asked = [problem(f"q{n}", f"Question {n} about Ångström", str(n)) for n in range(8)]
    records = [record(f"q{n}", "t", text=f"<think>Straße {n}</think><answer>{n}</answer>") for n in range(8)]
    folder = write_run(tmp_path / "run", records[:4], asked, results=False)
    live = watched(folder)
    assert searched(live, Query(words="straße 2"))["count"] == 1
    assert searched(live, Query(words="ångström"))["count"] == 4
    write_run(folder, records, asked, results=False)
    live.start()
    deadline = time.monotonic() + 300
    while live.answers.page(Query(words="ångström"))["count"] < 8:
        assert time.monotonic() < deadline
    assert searched(live, Query(words="straße 7"))["count"] == 1
    live.stop()
