"""The authors' stored outputs give their published numbers, through the command line."""

import json
from pathlib import Path

import pytest
from tests.published import METHODS, PUBLISHED_NAMES, RUNS, outputs, published, stored_rows
from typer.testing import CliRunner

from rlcr.cli.commands import app

# Both sides parsed, where the authors parse only the answer: accuracy of the stored MATH-500 completions.
STRICT_ACCURACY = {"Base": 0.592, "RLVR": 0.502, "RLCR": 0.552}


def run_json(*arguments: str) -> dict:
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("run", RUNS)
def test_metrics_reproduce_every_published_number(shared_data: Path, run: str, method: str) -> None:
    columns = ("--correct", f"{method}-evals", "--confidence", f"{method}-confidence_levels")
    got = run_json("metrics", str(outputs(shared_data, run)), *columns, "--resamples", "10")["metrics"]
    expected = published(shared_data, run, method)
    for ours, theirs in PUBLISHED_NAMES.items():
        assert got[ours]["value"] == pytest.approx(expected[theirs], abs=1e-9), ours


@pytest.mark.parametrize(("method", "format"), [("Base", "confidence"), ("RLVR", "rlvr"), ("RLCR", "rlcr")])
def test_paper_grading_reproduces_verdicts_and_confidences_row_by_row(
    shared_data: Path, tmp_path: Path, method: str, format: str
) -> None:
    source, out = outputs(shared_data, "math-500"), tmp_path / "records.jsonl"
    got = run_json(
        "score", str(source), "--completion", f"{method}-output_0", "--gold", "answer", "--format", format,
        "--verifier", "math", "--grading", "paper", "--out", str(out), "--resamples", "10",
    )  # fmt: skip
    expected = published(shared_data, "math-500", method)
    for ours, theirs in PUBLISHED_NAMES.items():
        assert got["metrics"][ours]["value"] == pytest.approx(expected[theirs], abs=1e-9), ours
    stored = stored_rows(shared_data, "math-500")
    records = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert len(records) == len(stored) == 500
    for record, row in zip(records, stored, strict=True):
        assert record["confidence"] == row[f"{method}-confidence_levels"][0]
        assert (record["verdict"] == "correct") == bool(row[f"{method}-evals"][0])
    assert got["strict"]["metrics"]["accuracy"]["value"] == pytest.approx(STRICT_ACCURACY[method], abs=1e-9)
