"""The numbers on the page are those of results.json and of `rlcr compare`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.report.pages import page_of, words
from tests.report.run_folders import problem, record, simulated_records, simulated_run, write_run

from rlcr.errors import RlcrError
from rlcr.evaluate.compare import compare_runs
from rlcr.metrics.tables import Cell, Heading, estimate_cell, mark_best
from rlcr.report import numbers
from rlcr.report.differences import differences
from rlcr.report.page import make_report, render
from rlcr.report.pairs import Pairs
from rlcr.report.reading import read_runs


def test_the_page_shows_the_numbers_of_the_results(runs: dict[str, Path]) -> None:
    text = words(page_of(runs["base"], runs["rlcr"])).replace("*", "")  # not all can be scored
    for name in ("base", "rlcr"):
        results = json.loads((runs[name] / "results.json").read_text())
        for metric in ("accuracy", "auroc", "brier", "ece"):
            for held in (results["macro"], *results["tasks"].values()):
                value, (low, high) = (held["metrics"][metric][part] for part in ("value", "ci95"))
                assert f"{value:.3f} {low:.3f} to {high:.3f}" in text


def test_differences_are_those_of_compare(runs: dict[str, Path]) -> None:
    found = read_runs([runs["base"], runs["rlcr"]])
    (_, minus_base), (_, minus_rlcr) = differences(Pairs(found.evals, ["gsm8k", "trivia"]), ["", ""])
    expected = compare_runs(runs["base"], runs["rlcr"]).tasks
    assert len(minus_base.rows) == len(minus_rlcr.rows) == 2
    for row, turned in zip(minus_base.rows, minus_rlcr.rows, strict=True):
        for cell, other, metric in zip(row[2:7], turned[2:7], numbers.METRICS, strict=True):
            difference = expected[row[1].text].metrics[metric]
            assert (cell.value, cell.low, cell.high) == (difference.value, difference.low, difference.high)
            assert other.value is not None
            assert other.low is not None
            assert other.high is not None
            # The other baseline is the same pair, the other way round.
            assert (-other.value, -other.high, -other.low) == (cell.value, cell.low, cell.high)
            assert {cell.mark, other.mark} in ({""}, {"better", "worse"})


def test_pairs_are_of_the_same_problems(tmp_path: Path) -> None:
    for name, gold in (("a", "1"), ("b", "2")):
        asked = [problem(f"q{n}", f"{n}?", gold if n < 3 else "9") for n in range(8)]
        folder = write_run(
            tmp_path / name,
            [record(f"q{n}", "t", verdict=("wrong", "correct")[n % 2]) for n in range(8)],
            asked,
        )
        settings = json.loads((folder / "run.json").read_text())
        settings["settings"]["tasks"]["t"]["sha256"] = name * 64
        (folder / "run.json").write_text(json.dumps(settings))
    pairs = Pairs(read_runs([tmp_path / "a", tmp_path / "b"]).evals, ["t"])
    (_, table), _ = differences(pairs, ["", ""])
    assert table.rows[0][-1].value == 5
    assert any("same id and content" in note for note in table.notes)


def test_a_run_without_results_is_measured_from_its_records(tmp_path: Path) -> None:
    records, asked = simulated_records("rlcr", "t", 60, samples=2)
    folder = write_run(tmp_path / "run", records, asked, resamples=1000)
    with_results = numbers.estimates_of(read_runs([folder]).evals[0], ["t"], [])
    (folder / "results.json").unlink()
    notes: list[str] = []
    run = read_runs([folder]).evals[0]
    assert numbers.estimates_of(run, ["t"], notes) == with_results
    assert "measured here" in notes[0]
    assert any("no results.json" in note for note in run.notes)


def test_what_was_trained_on_is_not_pooled(runs: dict[str, Path]) -> None:
    report = make_report(read_runs([runs["base"], runs["rlcr"], runs["training"]]))
    assert report.headline.tables[0].title == "Out of domain (all tasks but arms): average of 2 tasks"
    told = make_report(read_runs([runs["base"], runs["rlcr"]]), ["gsm8k"])
    assert told.headline.tables[0].title == "Results on trivia"
    assert make_report(read_runs([runs["base"]])).headline.tables[0].title == "All tasks: average of 2 tasks"
    with pytest.raises(RlcrError, match="no run has it; the tasks are gsm8k, trivia"):
        make_report(read_runs([runs["base"]]), ["nothing"])


def test_the_best_is_marked_where_it_is_decided() -> None:
    columns = (Heading("run"), Heading("a", "up"), Heading("b", "down"))
    rows = [
        (Cell(name), estimate_cell(a), estimate_cell(b))
        for name, a, b in (("x", 0.5, 0.2), ("y", 0.6, 0.1), ("z", 0.4, None))
    ]
    asked = []

    def decided(column: int, best: int, following: int) -> bool:
        asked.append((column, best, following))
        return column == 2

    marks = [[cell.mark for cell in row] for row in mark_best(columns, rows, decided)]
    assert marks == [["", "", ""], ["", "", "best"], ["", "", ""]]
    assert asked == [(1, 1, 0), (2, 1, 0)]


def test_runs_of_different_tasks_are_a_grid_and_have_no_average(tmp_path: Path) -> None:
    both = simulated_run(tmp_path / "both", "rlcr", {"a": 30, "b": 30})
    one = simulated_run(tmp_path / "one", "base", {"a": 30})
    report = make_report(read_runs([both, one]))
    (table,) = report.headline.tables
    assert [column.text for column in table.columns] == ["Run", "a", "b"]
    results = json.loads((both / "results.json").read_text())["tasks"]["b"]["metrics"]
    cell = table.rows[0][2]
    assert cell.value == results["accuracy"]["value"]
    assert cell.below[0] == f"ECE {results['ece']['value']:.3f}"
    assert table.rows[1][2].text == "–"
    assert "average of" not in words(render(report))
    assert report.sentence.startswith("On a, the only task in common, ")


def test_a_run_of_rlcr_eval(tmp_path: Path) -> None:
    """From a real server through the real evaluation, with repairs."""
    from tests.servers import ModelServer

    from rlcr.evaluate import Settings, evaluate
    from rlcr.problem import Problem
    from rlcr.tasks import write_problems

    def reply(call: Any) -> str:
        if call.prompt.endswith("is equal to"):
            return " 70."
        return "<think>…</think><answer>4</answer>" + (
            "<confidence>0.9</confidence>" if "2 + 2" in call.prompt else ""
        )

    asked = [Problem(f"sums/{n}", f"{n} + 2?", (f"{n + 2}",), "exact") for n in range(4)]
    write_problems(tmp_path / "sums.jsonl", asked)
    with ModelServer(reply) as server:
        evaluate(Settings(server.url, (str(tmp_path / "sums.jsonl"),), "base"), tmp_path / "run")
    report = make_report(read_runs([tmp_path / "run"]))
    assert report.notes == []
    (row,) = report.headline.tables[0].rows
    assert [cell.text for cell in row[6:]][1:] == ["75.0%", "4"]
    assert [s["v"] for s in report.selection.samples].count(1) == 1
    assert sum("fc" in s for s in report.selection.samples) == 3
