"""`make faults`: its bookkeeping and its table; a few trials of each kind of fault are made beside this file."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from faults import __main__ as runner
from faults import table
from faults.fault import Fault, Outcome, Trial
from faults.listing import FAULTS


def test_the_table_of_the_docs_is_that_of_the_results() -> None:
    results = json.loads(runner.RESULTS.read_text(encoding="utf-8"))
    assert set(results) <= set(FAULTS)
    assert "\n".join(table.lines(results)) in table.PAGE.read_text(encoding="utf-8")


def test_nothing_recorded_was_lost_doubled_or_wrong() -> None:
    results = json.loads(runner.RESULTS.read_text(encoding="utf-8"))
    assert {name: found["notes"] for name, found in results.items() if runner.failures(found)} == {}


def test_trials_go_on_where_they_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    @contextmanager
    def prepare(folder: Path) -> Iterator[Trial]:
        def trial(own: Path, number: int) -> Outcome:
            assert own.parent == folder
            made.append(number)
            outcome = Outcome()
            outcome.count("kills", 2)
            if number == 3:
                outcome.fail("a traceback")
            return outcome

        yield trial

    fault = Fault("a test", 4, prepare)
    page = tmp_path / "page.md"
    page.write_text(f"before\n<!-- {table.MARK} -->\n<!-- end -->\nafter\n<!-- end -->\n")
    monkeypatch.setattr(runner, "RESULTS", tmp_path / "results.json")
    monkeypatch.setattr(runner, "FAULTS", {"one": fault})
    monkeypatch.setattr(table, "PAGE", page)
    runner.make_trials("one", fault, 2)
    runner.make_trials("one", fault, 4)
    runner.make_trials("one", fault, 4)
    assert made == [0, 1, 2, 3]
    found = runner.read()["one"]
    assert found == {
        "what": "a test", "trials": 4, "lost": 0, "doubled": 0, "wrong": 1, "counted": {"kills": 8},
        "notes": ["a traceback"],
    }  # fmt: skip
    assert page.read_text().splitlines()[3] == "|---|---:|---:|---:|---:|---|---|"
    assert "| a test | 4 | 0 | 0 | 1 | 8 kills | `one` |" in page.read_text()
    assert page.read_text().endswith("<!-- end -->\nafter\n<!-- end -->\n")


def test_missing_and_additional_keys_are_seen() -> None:
    outcome = Outcome()
    outcome.compare_keys([1, 2, 3], [1, 2, 2, 4])
    assert (outcome.lost, outcome.doubled) == (1, 2)
