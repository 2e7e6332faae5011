"""Results in a notebook: tables that are escaped, and data frames with the same numbers."""

import math
import sys
from pathlib import Path

import pytest
from tests.report.run_folders import simulated_run

from rlcr import metrics
from rlcr.errors import RlcrError
from rlcr.evaluate.compare import compare_runs
from rlcr.evaluate.results import measure_records
from rlcr.runs.store import open_run

CORRECT, CONFIDENCE = [1, 0, 1, 1, 0], [0.9, 0.4, 0.8, None, 0.7]


def test_a_summary_shows_itself() -> None:
    found = metrics.summary(CORRECT, CONFIDENCE)
    shown = found._repr_html_()
    assert shown.count("<tr>") == 1 + len(found.metrics)
    assert f"{found.metrics['brier'].value:.3f}" in shown
    pytest.importorskip("pandas")
    frame = found.to_frame().set_index("metric")
    assert list(frame.index) == list(found.metrics)
    for name, estimate in found.metrics.items():
        row = frame.loc[name]
        for column, value in (
            ("value", estimate.value),
            ("value low", estimate.low),
            ("value high", estimate.high),
        ):
            assert math.isnan(row[column]) if value is None else row[column] == value, (name, column)
    assert frame.loc["accuracy", "answers"] == 5
    assert frame.loc["ece", "answers"] == 4


def test_a_comparison_shows_itself() -> None:
    pytest.importorskip("pandas")
    found = metrics.compare([1, 0, 1], [0.9, 0.4, 0.6], [1, 1, 1], [0.8, 0.7, 0.7])
    frame = found.to_frame().set_index("metric")
    assert frame.loc["brier", "difference"] == found.metrics["brier"].value
    assert frame.loc["brier", "p"] == found.metrics["brier"].p_value
    average = metrics.macro_average(
        {"a": metrics.summary(CORRECT, CONFIDENCE), "b": metrics.summary([1, 0], [1, 0])}
    )
    assert (
        average.to_frame().set_index("metric").loc["accuracy", "value"] == average.metrics["accuracy"].value
    )


def test_results_of_runs(tmp_path: Path) -> None:
    task = "<script>alert(1)</script>"
    folders = [simulated_run(tmp_path / name, name, {task: 12, "b": 8}) for name in ("base", "rlcr")]
    run = open_run(folders[0])
    results = measure_records(run.records(), run.settings, resamples=100)
    compared = compare_runs(*folders, resamples=100)
    for shown in (results._repr_html_(), compared._repr_html_()):
        assert "<script>" not in shown
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
    pytest.importorskip("pandas")
    frame = results.to_frame()
    assert frame["task"].tolist()[-1] == "average"
    first = frame[(frame["task"] == task) & (frame["confidence"] == "verbalised")].iloc[0]
    assert first["Brier"] == results.tasks[task].summary.metrics["brier"].value
    assert first["Brier low"] < first["Brier"] < first["Brier high"]
    differences = compared.to_frame().set_index("task")
    assert differences.loc["b", "ECE"] == compared.tasks["b"].metrics["ece"].value


def test_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    found = metrics.summary(CORRECT, CONFIDENCE)
    assert found._repr_html_().startswith("<table>")
    with pytest.raises(
        RlcrError, match="a data frame needs pandas, which is not installed: pip install pandas"
    ):
        found.to_frame()
