"""The authors' stored classifier outputs are a column like any other, and give the published numbers."""

import json
from pathlib import Path

import pytest
from tests.published import PUBLISHED_NAMES, RUNS, outputs, published, stored_rows
from typer.testing import CliRunner

from rlcr.cli.commands import app
from rlcr.confidence.comparison import compare_columns
from rlcr.evaluate.results import load_results


def rlcr(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("run", RUNS)
def test_the_authors_classifier_as_a_column(shared_data: Path, tmp_path: Path, run: str) -> None:
    source, folder = outputs(shared_data, run), tmp_path / "run"
    rlcr(
        "import", source, "--completion", "RLVR-Classifier-output_0", "--gold", "answer", "--question", "problem",
        "--correct", "RLVR-Classifier-evals", "--format", "rlvr", "--task", run, "--out", folder,
    )  # fmt: skip
    for method in ("RLVR-Classifier", "Answer-Prob"):
        field = f"{method}-confidence_levels"
        # The files have no id of ours: rows are told apart by their number, as the import names them.
        table = tmp_path / f"{method.lower()}.jsonl"
        table.write_text(_numbered(stored_rows(shared_data, run), field, run))
        rlcr("confidence", "add", "file", folder, "--file", table, "--field", field)
    expected = published(shared_data, run, "RLVR-Classifier")
    stored = load_results(folder)["tasks"][run]["confidences"]["rlvr-classifier"]["metrics"]
    for ours, theirs in PUBLISHED_NAMES.items():
        assert stored[ours]["value"] == pytest.approx(expected[theirs], abs=1e-9), ours
    measured = json.loads(
        rlcr("metrics", folder, "--confidence", "rlvr-classifier", "--resamples", 10, "--json")
    )
    assert measured["metrics"]["ece"]["value"] == pytest.approx(expected["ece"], abs=1e-9)
    names = [result.name for result in compare_columns(folder, resamples=10).tasks[run]]
    assert names == ["verbalised", "answer-prob", "rlvr-classifier"]


def _numbered(rows: list[dict], field: str, run: str) -> str:
    return "".join(
        json.dumps({"id": f"{run}/{number}", field: row[field]}) + "\n" for number, row in enumerate(rows)
    )
