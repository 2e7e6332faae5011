"""Files derived from a run say so when they no longer hold, wherever they are read."""

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from tests.confidence.colour_runs import colour_run, raw, write_run
from tests.editing import seal_again

from rlcr.confidence.comparison import compare_columns
from rlcr.confidence.sources import Options, add_column
from rlcr.errors import RlcrError
from rlcr.evaluate.results import load_results
from rlcr.evaluate.run import rescore
from rlcr.many import selective
from rlcr.many.coherence import coherence
from rlcr.many.selective import select
from rlcr.many.vote import vote
from rlcr.problem import Problem
from rlcr.report.page import make_report, render
from rlcr.report.reading import read_runs
from rlcr.runs.stamps import MADE_FROM, stale_files
from rlcr.runs.store import open_run

DERIVED = ["voting.json", "selective.json", "coherence.json", "columns.json"]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = colour_run(tmp_path / "run", 40, samples=4)
    derive(folder)
    return folder


def derive(folder: Path, confidence: str = "verbalised") -> None:
    vote(folder, confidence=confidence, subsets=20)
    select(folder, 0.5, confidence=confidence)
    coherence(folder, confidence=confidence)
    compare_columns(folder, resamples=20)


def change_a_gold(folder: Path) -> None:
    """As a data set that was mended: rescoring then changes verdicts."""
    path = folder / "problems.jsonl"
    path.write_text(path.read_text().replace('"yes"', '"no"', 1))


def test_rescoring_makes_every_derived_file_stale_until_it_is_made_again(
    run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert stale_files(open_run(run)) == {}
    rescore(run)
    assert stale_files(open_run(run)) == {}, "the same verdicts: nothing has changed"
    change_a_gold(run)
    with caplog.at_level(logging.WARNING):
        rescore(run)
    assert list(stale_files(open_run(run))) == DERIVED
    for name in DERIVED:
        assert f"{name} is stale: answers, verdicts or confidences of the run have changed" in caplog.text
    assert f"`rlcr vote {run}` with the same options makes it again" in caplog.text
    derive(run)
    assert stale_files(open_run(run)) == {}


def test_the_report_leaves_out_what_is_stale_and_says_so(run: Path) -> None:
    before = render(make_report(read_runs([run])))
    assert "confidence-weighted" in before
    assert "stale" not in before
    change_a_gold(run)
    rescore(run)
    report = make_report(read_runs([run]))
    for name in DERIVED:
        assert any(f"{name} is left out, for it is stale" in note for note in report.notes), name
    page = render(report)
    assert "Missing or out of date for run: run <code>rlcr vote RUN</code>." in page
    assert "confidence-weighted" not in page


def test_a_file_made_of_a_column_is_stale_when_the_column_is(run: Path) -> None:
    add_column(run, "agreement")
    add_column(run, "platt", Options(of="agreement"))
    derive(run, "agreement-platt")
    assert stale_files(open_run(run)) == {}
    path = run / "confidence" / "agreement.jsonl"
    path.write_text(path.read_text().replace("1.0, ", "0.5, ", 1))
    seal_again(path)
    why = stale_files(open_run(run))
    assert list(why) == ["results.json", *DERIVED]
    assert "confidence/agreement-platt.jsonl, of which it was made, is stale" in why["voting.json"]


def test_a_stamp_that_names_files_elsewhere_or_itself_is_only_stale(run: Path) -> None:
    os.mkfifo(run.parent / "pipe")  # whoever opened it would wait for ever
    add_column(run, "agreement")
    derive(run, "agreement")
    path = run / "voting.json"
    stored = json.loads(path.read_text())
    for name in ("../pipe", "/dev/zero", "gone.jsonl"):
        stored[MADE_FROM][name] = "0" * 16
        path.write_text(json.dumps(stored))
        seal_again(path)
        assert f"{name}, of which it was made, has changed" in stale_files(open_run(run))["voting.json"]
        del stored[MADE_FROM][name]
    column = run / "confidence" / "agreement.json"
    made = json.loads(column.read_text())
    made[MADE_FROM]["confidence/agreement.jsonl"] = stored[MADE_FROM]["confidence/agreement.jsonl"]
    column.write_text(json.dumps(made))
    seal_again(column)
    path.write_text(json.dumps(stored))
    seal_again(path)
    assert "voting.json" not in stale_files(open_run(run))


def test_another_verifier_makes_votes_stale_though_no_verdict_changes(tmp_path: Path) -> None:
    """It decides which answers are equal: 1/2 and 0.5 are one vote or two."""
    problem = Problem("q", "How much?", ("5",), "exact")
    texts = [f"<think>t</think><answer>{a}</answer><confidence>0.5</confidence>" for a in ("1/2", "0.5", "5")]
    run = write_run(tmp_path / "run", [raw("q", n, text) for n, text in enumerate(texts)], [problem])
    vote(run, subsets=5)
    verdicts = [record.verdict for record in open_run(run).records()]
    rescore(run, verifier="math")
    assert [record.verdict for record in open_run(run).records()] == verdicts
    assert "voting.json" in stale_files(open_run(run))


def test_records_that_change_while_a_file_is_made_make_it_stale(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow_selection(*arguments: Any, **options: Any) -> selective.TaskSelection:
        change_a_gold(run)
        rescore(run)
        return selection(*arguments, **options)

    selection = selective.task_selection
    monkeypatch.setattr(selective, "task_selection", slow_selection)
    select(run, 0.5)
    assert "selective.json" in stale_files(open_run(run))


def test_results_of_other_records_are_not_read(run: Path) -> None:
    """As a crash between the writing of the records and that of the results leaves them."""
    rescore(run)
    assert load_results(run)
    path = run / "records.jsonl"
    path.write_text(path.read_text().replace('"verdict": "wrong"', '"verdict": "correct"'))
    seal_again(path)
    with pytest.raises(RlcrError, match=r"results.json: stale: answers, .*`rlcr rescore .*` writes it again"):
        load_results(run)
    assert any("results.json is left out, for it is stale" in note for note in read_runs([run]).notes)
    rescore(run)
    assert load_results(run)
    assert not any("results.json" in note for note in read_runs([run]).notes)


def test_the_report_names_columns_that_were_added_or_made_again(run: Path) -> None:
    add_column(run, "agreement")
    assert any("columns.json lacks agreement" in note for note in make_report(read_runs([run])).notes)
    change_a_gold(run)
    rescore(run)
    compare_columns(run, resamples=20)
    assert any("columns.json lacks agreement" in note for note in make_report(read_runs([run])).notes)
    add_column(run, "agreement")
    compare_columns(run, resamples=20)
    assert not any("agreement" in note for note in make_report(read_runs([run])).notes)


def test_a_file_without_a_stamp_is_not_trusted(run: Path) -> None:
    (run / "voting.json").write_text('{"tasks": {}}')
    assert "it does not say which records" in stale_files(open_run(run))["voting.json"]
