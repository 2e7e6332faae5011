"""Columns on disk: written whole, read alike, told apart from records that have changed."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.confidence.colour_runs import colour_run, raw, write_run
from typer.testing import CliRunner

from rlcr.cli.commands import app
from rlcr.confidence.sources import Options, add_column, add_columns
from rlcr.errors import RlcrError
from rlcr.evaluate import rescore, write_results
from rlcr.evaluate.compare import compare_runs
from rlcr.evaluate.importing import TableColumns, import_run
from rlcr.evaluate.results import load_results
from rlcr.problem import Problem
from rlcr.runs import columns
from rlcr.runs.columns import (
    COLUMNS,
    column_names,
    fresh_columns,
    provenance,
    read_column,
    write_column,
)
from rlcr.runs.store import open_run


def test_what_the_records_hold_comes_first_and_a_written_column_reads_back(tmp_path: Path) -> None:
    run = open_run(colour_run(tmp_path / "run", 10))
    assert column_names(run) == ["verbalised", "answer-probability"]
    stated = read_column(run, "verbalised")
    assert stated == {r.key: r.confidence for r in run.records()}
    halved = {key: None if value is None else value / 2 for key, value in stated.items()}
    write_column(run, "halved", halved, {"source": "test", "cost": {}})
    assert column_names(run.folder) == ["verbalised", "answer-probability", "halved"]
    assert read_column(run, "halved") == halved
    first = (run.folder / COLUMNS / "halved.jsonl").read_text().splitlines()[0]
    assert first.startswith('{"id": "words/0-0", "sample": 0, ')
    assert provenance(run, "halved")["completions"] == 20


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("verbalised", {}, "is in the records of every run"),
        ("../up", {}, "a name is letters"),
        ("x", {("words/0-0", 7): 0.5}, "which the run does not hold"),
        ("x", {("words/0-0", 0): 1.5}, "1.5 for ('words/0-0', 0) is not from 0 to 1"),
    ],
)
def test_what_is_no_column_is_refused(tmp_path: Path, name: str, values: dict, message: str) -> None:
    run = open_run(colour_run(tmp_path / "run", 2))
    with pytest.raises(RlcrError) as error:
        write_column(run, name, values, {"source": "test", "cost": {}})
    assert message in str(error.value)
    assert not (run.folder / COLUMNS).exists()


def test_a_broken_or_missing_column_is_one_line_that_says_where(tmp_path: Path) -> None:
    run = open_run(colour_run(tmp_path / "run", 2))
    with pytest.raises(RlcrError, match="no confidence column 'agreemint'"):
        read_column(run, "agreemint")
    path = write_column(run, "bad", read_column(run, "verbalised"), {"source": "test", "cost": {}})
    whole = path.read_text()
    for text, message in (
        ('{"id": "a", "sample": 0, "confidence": 2}\n', "bad.jsonl, line 1: expected"),
        (whole[: whole.rindex('{"id"')], "3 lines, where 4 were written"),
    ):
        path.write_text(text)
        with pytest.raises(RlcrError, match=message):
            read_column(run, "bad")
        # A broken column does not keep the others from being measured.
        write_results(run)
        assert "bad" not in load_results(run.folder)["tasks"]["words"]["confidences"]
    path.write_text(whole)
    assert read_column(run, "bad") == read_column(run, "verbalised")
    path.with_suffix(".json").write_text("{}")
    with pytest.raises(RlcrError, match="it does not say which records it was made from"):
        read_column(run, "bad")
    result = CliRunner().invoke(app, ["confidence", "list", str(run.folder)])
    assert result.exit_code == 0
    assert "bad: stale" in result.stdout


def test_columns_are_measured_with_the_run_and_left_out_once_verdicts_change(tmp_path: Path) -> None:
    folder = colour_run(tmp_path / "run", 20)
    add_columns(folder, ["agreement", "answer-probability-min"])
    stored = load_results(folder)["tasks"]["words"]["confidences"]
    assert {"agreement", "answer-probability-min", "answer-probability"} <= stored.keys()
    # Other golds: what was right is wrong.
    problems = (folder / "problems.jsonl").read_text()
    (folder / "problems.jsonl").write_text(problems.replace('"yes"', '"no"'))
    rescore(folder)
    fresh, stale = fresh_columns(open_run(folder))
    assert (fresh, list(stale)) == ({}, ["agreement", "answer-probability-min"])
    with pytest.raises(RlcrError, match="stale: answers, verdicts or confidences .* add agreement"):
        read_column(folder, "agreement")
    result = CliRunner().invoke(app, ["metrics", str(folder), "--confidence", "agreement"])
    assert "stale" in str(result.exception)
    with pytest.raises(RlcrError, match="stale"):
        add_column(folder, "platt", Options(of="agreement"))
    assert load_results(folder)["tasks"]["words"]["confidences"].keys() == {"answer-probability"}


def test_metrics_and_compare_take_any_column(tmp_path: Path) -> None:
    folder = colour_run(tmp_path / "run", 20)
    right = {r.key: float(bool(r.correct)) for r in open_run(folder).records()}
    write_column(folder, "oracle", right, {"source": "test", "cost": {}})
    result = CliRunner().invoke(
        app, ["metrics", str(folder), "--confidence", "oracle", "--resamples", "10", "--json"]
    )
    assert json.loads(result.stdout)["metrics"]["brier"]["value"] == 0
    same = compare_runs(folder, folder, confidence="oracle", resamples=10)
    assert same.tasks["words"].metrics["brier"].value == 0
    assert CliRunner().invoke(app, ["metrics", str(folder), "--confidence", "x"]).exit_code


def test_token_probabilities_of_the_exact_span(tmp_path: Path) -> None:
    problem = Problem("a", "?", ("yes",), "exact")
    text = "<think>t</think><answer>yes</answer><confidence>1</confidence>"
    some = raw(
        "a", 0, text, answer_logprobs={"strict": [-0.5, -1.5]}, logprob=-6.0, response_tokens=12, tokens=40
    )
    none = raw("a", 1, "<think>t</think>", answer_logprobs={}, logprob=None)
    folder = write_run(tmp_path / "run", [some, none], [problem])
    for name, expected in (
        ("answer-probability-min", 0.22313),
        ("answer-probability-product", 0.135335),
        ("response-likelihood", 0.606531),
    ):
        add_column(folder, name)
        assert read_column(folder, name) == {("a", 0): pytest.approx(expected, abs=1e-5), ("a", 1): None}
    silent = write_run(tmp_path / "silent", [replace(none, sample=0)], [problem])
    with pytest.raises(RlcrError, match="no log-probabilities in its records"):
        add_column(silent, "response-likelihood")


def test_a_file_is_a_column_by_ids(tmp_path: Path) -> None:
    folder = colour_run(tmp_path / "run", 3)
    table = tmp_path / "mine.jsonl"
    table.write_text('{"name": "words/0-1", "p": [0.25, 0.75]}\n{"name": "other", "p": 0.5}\n')
    options = Options(file=table, field="p", id_field="name")
    added = add_column(folder, "file", options)
    assert (added.name, added.provenance["missing"]) == ("mine", 4)
    assert read_column(folder, "mine")["words/0-1", 1] == 0.75
    table.write_text('{"name": "other", "p": 0.5}\n')
    with pytest.raises(RlcrError, match="none of its ids"):
        add_column(folder, "file", options)


def test_unknown_sources_and_unfinished_runs_are_refused(tmp_path: Path) -> None:
    folder = colour_run(tmp_path / "run", 3)
    with pytest.raises(RlcrError, match="did you mean agreement"):
        add_column(folder, "agreemint")
    records = (folder / "records.jsonl").read_text().splitlines(keepends=True)
    (folder / "records.jsonl").write_text("".join(records[:-1]))
    with pytest.raises(RlcrError, match="unfinished"):
        add_column(folder, "agreement")


def test_what_was_made_before_a_failure_is_said_and_measured(tmp_path: Path) -> None:
    folder = colour_run(tmp_path / "run", 12, model=str(tmp_path / "gone"))
    with pytest.raises(RlcrError) as caught:
        add_columns(folder, ["agreement", "probe", "platt"])  # nothing is where the run's model should be
    assert str(caught.value).endswith(
        "Made before that, kept and measured: agreement; not made: probe, platt"
    )
    (task,) = load_results(folder)["tasks"].values()
    assert list(task["confidences"]) == ["answer-probability", "agreement"]
    with pytest.raises(RlcrError, match="source classifier: give --classifier"):
        add_columns(folder, ["hybrid", "classifier"])
    assert not (folder / "confidence" / "hybrid.jsonl").exists()


def test_results_of_old_columns_survive_a_second_writing(tmp_path: Path) -> None:
    folder = colour_run(tmp_path / "run", 10)
    add_column(folder, "agreement")
    first = load_results(folder)
    write_results(open_run(folder))
    assert load_results(folder) == first


def test_a_column_of_a_column_is_stale_with_it(tmp_path: Path) -> None:
    folder = colour_run(tmp_path / "run", 60)
    add_columns(folder, ["agreement"])
    add_column(folder, "platt", Options(of="agreement"))
    add_column(folder, "isotonic", Options(of="agreement-platt"))
    assert not fresh_columns(open_run(folder))[1]
    other = {key: 1 - (value or 0) for key, value in read_column(folder, "agreement").items()}
    write_column(folder, "agreement", other, {"source": "test", "cost": {}})
    for name in ("agreement-platt", "agreement-platt-isotonic"):
        with pytest.raises(RlcrError, match="of which it was made, (has changed|is stale)"):
            read_column(folder, name)
    with pytest.raises(RlcrError, match="not made of itself"):
        add_column(folder, "platt", Options(of="agreement"), "agreement")


def test_another_stated_confidence_or_grading_makes_a_column_stale(tmp_path: Path) -> None:
    folder = colour_run(tmp_path / "run", 10)
    add_column(folder, "hybrid")
    path = folder / "records.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    before = path.read_text()
    lines[0]["confidence"] = 0.123
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert list(fresh_columns(open_run(folder))[1]) == ["hybrid"]
    path.write_text(before)
    assert not fresh_columns(open_run(folder))[1]
    open_run(folder).regrade(
        path.read_text().splitlines(keepends=True), {"grading": "paper", "verifier": None, "judge": None}
    )
    assert list(fresh_columns(open_run(folder))[1]) == ["hybrid"]


def test_an_interrupted_writing_leaves_no_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = open_run(colour_run(tmp_path / "run", 2))
    stated = read_column(run, "verbalised")
    write_column(run, "mine", stated, {"source": "test", "cost": {}})
    with monkeypatch.context() as patched:
        patched.setattr(columns, "_lines", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            write_column(run, "mine", dict.fromkeys(stated, 0.5), {"source": "test", "cost": {}})
    assert "mine" not in column_names(run)


def _interrupt(_: Any) -> Any:
    raise KeyboardInterrupt


def test_a_file_tells_samples_apart_by_a_column_or_not_at_all(tmp_path: Path) -> None:
    folder = colour_run(tmp_path / "run", 3)
    table = tmp_path / "mine.jsonl"
    rows = [
        {"id": "words/0-1", "sample": sample, "confidence": value} for sample, value in ((1, 0.75), (0, 0.25))
    ]
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    add_column(folder, "file", Options(file=table))
    column = read_column(folder, "mine")
    assert (column["words/0-1", 0], column["words/0-1", 1]) == (0.25, 0.75)
    for row in rows:
        del row["sample"]
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(RlcrError, match="line 2, column id: 'words/0-1', sample 0, was there before"):
        add_column(folder, "file", Options(file=table))


def test_options_that_a_source_does_not_look_at_are_refused(tmp_path: Path) -> None:
    folder = colour_run(tmp_path / "run", 3)
    with pytest.raises(RlcrError, match="--of is for temperature, platt, isotonic, not for agreement"):
        add_column(folder, "agreement", Options(of="platt"))
    with pytest.raises(RlcrError, match="is in the records already"):
        add_column(folder, "answer-probability")


def test_metrics_of_a_run_wants_verdicts_and_nothing_of_a_table(tmp_path: Path) -> None:
    folder = colour_run(tmp_path / "run", 3)

    def told(*options: str) -> str:
        result = CliRunner().invoke(app, ["metrics", str(folder), "--resamples", "0", *options])
        assert isinstance(result.exception, RlcrError)
        return str(result.exception)

    assert "leave out --correct" in told("--correct", "ok")
    assert "--by task: no problem has it" in told("--by", "task")
    path = folder / "records.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-1]))
    assert "unfinished" in told()
    last = json.loads(lines[-1])
    del last["verdict"]
    path.write_text("".join([*lines[:-1], json.dumps(last) + "\n"]))
    assert "line 6: not a record of this version of rlcr" in told()
    with pytest.raises(RlcrError, match="not a record of this version"):
        add_column(folder, "agreement")


@pytest.mark.parametrize("stored", [None, 1, 4])
def test_a_run_of_another_format_is_refused_in_one_line(tmp_path: Path, stored: int | None) -> None:
    folder = colour_run(tmp_path / "run", 3)
    run = json.loads((folder / "run.json").read_text())
    run = run | {"format": stored} if stored else {name: run[name] for name in ("settings", "graded")}
    (folder / "run.json").write_text(json.dumps(run))
    for command in (
        ["rescore", str(folder)],
        ["metrics", str(folder)],
        ["vote", str(folder)],
        ["report", str(folder)],
    ):
        result = CliRunner().invoke(app, command)
        assert isinstance(result.exception, RlcrError)
        assert f"a run of format {stored or 1}, and this version of rlcr reads format 3" in str(
            result.exception
        )


def test_the_verdicts_of_a_table_are_not_replaced_unasked(tmp_path: Path) -> None:
    table, folder = tmp_path / "table.jsonl", tmp_path / "run"
    rows = [{"q": f"{n}?", "gold": "a", "text": "<answer>b</answer>", "right": n % 2} for n in range(4)]
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    import_run(table, folder, TableColumns("text", "gold", "q", correct="right"), format="rlvr")
    with pytest.raises(RlcrError, match="its verdicts are those of column right"):
        rescore(folder)
    assert sum(bool(record.correct) for record in open_run(folder).records()) == 2
    with pytest.raises(RlcrError, match="was imported and does not say what made it: give --model"):
        add_column(folder, "probe")
    rescore(folder, verifier="exact")
    rescore(folder)
    assert not any(record.correct for record in open_run(folder).records())
