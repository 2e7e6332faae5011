"""Columns in the report: one table, reliability of each, and broken files as notes."""

import json
from pathlib import Path

import pytest
from tests.confidence.colour_runs import colour_run
from tests.editing import seal_again

from rlcr.confidence.comparison import COMPARISON, compare_columns
from rlcr.confidence.rows import read_rows
from rlcr.confidence.sources import add_columns
from rlcr.report.columns import cost_each
from rlcr.report.page import make_report, render, write_files
from rlcr.report.reading import read_runs
from rlcr.runs.columns import write_column
from rlcr.runs.stamps import MADE_FROM
from rlcr.runs.store import open_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = colour_run(tmp_path_factory.mktemp("columns") / "run", 40, samples=3)
    rows = read_rows(folder)
    right = dict(zip(rows.keys, rows.verdict.astype(float).tolist(), strict=True))
    write_column(
        open_run(folder), "oracle", right, {"source": "test", "cost": {"passes": 120, "tokens": 2400}}
    )
    add_columns(folder, ["agreement", "platt"])
    compare_columns(folder, resamples=50)
    return folder


def test_every_column_is_in_one_table_with_its_reliability(run: Path, tmp_path: Path) -> None:
    report = make_report(read_runs([run]))
    (section,) = [section for section in report.sections if section.name == "columns"]
    table, differences = section.tables
    assert [row[0].text for row in table.rows] == [
        "verbalised", "answer-probability", "agreement", "oracle", "platt",
    ]  # fmt: skip
    oracle = table.rows[3]
    assert (oracle[2].value, oracle[2].mark) == (0, "best")
    assert [cell.text for cell in oracle[-4:]] == ["120", "1.000", "1", "20"]
    marks = {row[0].text: row[2].mark for row in differences.rows}
    assert marks["oracle"] == "better"
    assert "verbalised" not in marks
    assert section.figures[0].panels[0].title == "verbalised"
    page = render(report)
    assert "Against the stated confidence" in page
    assert any(path.name.startswith("columns-") for path in write_files(report, tmp_path))


def test_broken_files_are_notes_not_errors(run: Path) -> None:
    stored = (run / COMPARISON).read_text()
    try:
        found = {"tasks": {"words": [{"name": "<b>gone</b>"}, 3]}, "notes": 3}
        (run / COMPARISON).write_text(json.dumps(found | {MADE_FROM: json.loads(stored)[MADE_FROM]}))
        report = make_report(read_runs([run]))
        assert any("<b>gone</b>" in note for note in report.notes)
        assert "<b>gone</b>" not in render(report)
        (run / COMPARISON).write_text(json.dumps({"tasks": 3, MADE_FROM: json.loads(stored)[MADE_FROM]}))
        report = make_report(read_runs([run]))
        assert any("columns.json is not of the documented shape" in note for note in report.notes)
        assert not [section for section in report.sections if section.name == "columns"]
        (run / COMPARISON).write_text(json.dumps(json.loads(stored) | {MADE_FROM: {"records": "others"}}))
        seal_again(run / COMPARISON)
        report = make_report(read_runs([run]))
        assert any("columns.json is left out, for it is stale" in note for note in report.notes)
        assert not [section for section in report.sections if section.name == "columns"]
    finally:
        (run / COMPARISON).write_text(stored)


def test_the_cost_of_a_row_is_that_of_all_tasks_and_partial_columns_are_not_the_best(tmp_path: Path) -> None:
    folder = colour_run(tmp_path / "run", 40)
    path = folder / "records.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:20] + [line.replace('"words"', '"more"') for line in lines[20:]]))
    rows = read_rows(folder)
    right = dict(zip(rows.keys, rows.verdict.astype(float).tolist(), strict=True))
    half = {key: value if n % 4 else None for n, (key, value) in enumerate(right.items())}
    write_column(folder, "half", half, {"source": "test", "cost": {"passes": 160, "tokens": 800}})
    found = compare_columns(folder, resamples=10)
    costs = [cost_each(found.tasks[task][-1].cost, "passes") for task in ("words", "more")]
    assert costs == [2, 2]
    (section,) = [s for s in make_report(read_runs([folder])).sections if s.name == "columns"]
    oracle = section.tables[0].rows[-1]
    assert (oracle[0].text, oracle[2].value, oracle[2].mark) == ("half", 0, "")
    assert [cell.text for cell in oracle[-3:]] == ["0.750", "2", "10"]
