"""The report as files: what it reads, what it says is missing, and that texts stay texts."""

from __future__ import annotations

import base64
import csv
import hashlib
import html
import json
import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.report.made import (
    ARTEFACTS,
    made_records,
    made_run,
    made_training,
    problem,
    record,
    write_artefacts,
    write_run,
)

from rlcr.errors import RlcrError
from rlcr.evaluate.compare import compare_runs
from rlcr.metrics.tables import Cell, Heading, estimate_cell, mark_best
from rlcr.report import numbers, samples
from rlcr.report.page import make_report, render, write_files, write_report
from rlcr.report.reading import labels, read_runs


def page_of(*folders: Path, **options: Any) -> str:
    return render(make_report(read_runs(folders), **options))


def embedded(page: str) -> dict[str, Any]:
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert match
    return json.loads(match.group(1))


def words(page: str) -> str:
    """What a reader sees, without the samples."""
    page = re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


# --- numbers ----------------------------------------------------------------------------------------


def test_the_page_shows_the_numbers_of_the_results(runs: dict[str, Path]) -> None:
    text = words(page_of(runs["base"], runs["rlcr"]))
    for name in ("base", "rlcr"):
        results = json.loads((runs[name] / "results.json").read_text())
        for metric in ("accuracy", "auroc", "brier", "ece"):
            for held in (results["macro"], *results["tasks"].values()):
                value, (low, high) = (held["metrics"][metric][part] for part in ("value", "ci95"))
                assert f"{value:.3f} {low:.3f} to {high:.3f}" in text


def test_differences_are_those_of_compare(runs: dict[str, Path]) -> None:
    found = read_runs([runs["base"], runs["rlcr"]])
    table = numbers.differences(found.evals, ["gsm8k", "trivia"])
    expected = compare_runs(runs["base"], runs["rlcr"]).tasks
    assert len(table.rows) == 2
    for row in table.rows:
        for cell, metric in zip(row[3:7], ("accuracy", "auroc", "brier", "ece"), strict=True):
            difference = expected[row[2].text].metrics[metric]
            assert (cell.value, cell.low, cell.high) == (difference.value, difference.low, difference.high)


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
    table = numbers.differences(read_runs([tmp_path / "a", tmp_path / "b"]).evals, ["t"])
    assert table.rows[0][-1].value == 5
    assert any("same id and content" in note for note in table.notes)


def test_a_run_without_results_is_measured_from_its_records(tmp_path: Path) -> None:
    records, asked = made_records("rlcr", "t", 60, samples=2)
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
    assert told.headline.tables[0].title == "trivia"
    assert make_report(read_runs([runs["base"]])).headline.tables[0].title == "All tasks: average of 2 tasks"
    with pytest.raises(RlcrError, match="no run has it; the tasks are gsm8k, trivia"):
        make_report(read_runs([runs["base"]]), ["nothing"])


def test_the_best_is_marked_and_so_are_ties() -> None:
    columns = (Heading("run"), Heading("a", "up"), Heading("b", "down"))
    rows = [
        (Cell(name), estimate_cell(a), estimate_cell(b))
        for name, a, b in (("x", 0.5, 0.2), ("y", 0.5, 0.1), ("z", 0.4, None))
    ]
    marks = [[cell.mark for cell in row] for row in mark_best(columns, rows)]
    assert marks == [["", "best", ""], ["", "best", "best"], ["", "", ""]]


def test_the_average_over_missing_tasks_is_not_marked_best(tmp_path: Path) -> None:
    made_run(tmp_path / "both", "rlcr", {"a": 30, "b": 30})
    made_run(tmp_path / "one", "rlcr", {"a": 30})
    table = make_report(read_runs([tmp_path / "both", tmp_path / "one"])).headline.tables[0]
    assert not any(cell.mark for cell in table.rows[1])
    assert any("1 of the 2 tasks" in note for note in table.notes)


# --- samples ----------------------------------------------------------------------------------------


def test_all_samples_are_there_if_they_fit(runs: dict[str, Path]) -> None:
    found = samples.select(read_runs([runs["base"], runs["rlcr"]]).evals)
    assert len(found.samples) == found.total == 400
    assert found.rule[0].startswith("All 400 answers")
    assert len(found.problems) == 200


def test_the_rule_of_a_large_run(tmp_path: Path) -> None:
    made_run(tmp_path / "rlvr", "rlvr", {"t": 400})
    made_run(tmp_path / "rlcr", "rlcr", {"t": 400})
    evals = read_runs([tmp_path / "rlvr", tmp_path / "rlcr"]).evals
    size = 200_000
    found = samples.select(evals, size)
    assert 0 < len(found.samples) < found.total
    assert len(samples.safe_json([found.samples, found.problems])) < size * 1.02
    # Every unscorable one is there, and the most confident of the wrong ones.
    lost = sum(int((run.rows.verdict == -1).sum()) for run in evals)
    assert sum(s["v"] == -1 for s in found.samples) == lost
    assert "unscorable: all" in " ".join(found.rule)
    wrong = [
        s["c"] for s in found.samples if s["v"] == 0 and s["r"] == 0 and s["c"] is not None and s["c"] >= 0.8
    ]
    assert np.mean([c == 1.0 for c in wrong]) > 0.8
    # Every question is there for both runs.
    both = [{s["r"] for s in found.samples if s["q"] == q} for q in range(len(found.problems))]
    assert all(len(runs) == 2 for runs in both)
    # And the rest is spread over the run.
    numbers_of = sorted(int(found.problems[s["q"]]["i"].split("/")[1]) for s in found.samples)
    assert numbers_of[0] < 40
    assert numbers_of[-1] > 360


def test_parts_are_those_of_the_parser(tmp_path: Path) -> None:
    text = "Well. <think>a</think> so <answer>4</answer><analysis>b <answer>5</answer></analysis><confidence>0.7</confidence> bye"
    write_run(tmp_path / "run", [record("q", "t", text=text)], [problem("q", "2+2?", "4")])
    (sample,) = samples.select(read_runs([tmp_path / "run"]).evals).samples
    tags = [tag for tag, _ in sample["p"]]
    assert tags == ["", "think", "", "answer", "analysis", "confidence", ""]
    assert dict(sample["p"])["answer"] == "4"
    assert dict(sample["p"])["analysis"] == "b <answer>5</answer>"


NASTY = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>&amp;\u2028\u2029<!--\x00\ud800"


def test_texts_stay_texts(tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)>"
    folder = tmp_path / name.replace("/", "")
    records = [
        record(NASTY, NASTY, text=NASTY, answer=NASTY, reason=NASTY, verdict="unscorable"),
        record("q", NASTY, verdict="wrong"),
    ]
    write_run(folder, records, [problem(NASTY, NASTY, NASTY)], method=NASTY)
    curve = {"name": NASTY, "n": [1, 2], "value": [0.1, 0.2]}
    write_artefacts(folder, {"voting.json": {"tasks": {NASTY: [curve]}}})
    page = page_of(folder)
    outside = re.sub(r"<script>.*?</script>|<style>.*?</style>", "", page, flags=re.DOTALL)
    assert "<img" not in outside
    assert outside.count("<script") == 1  # the data
    assert "\u2028" not in page.split('id="data">')[1].split("</script>")[0]
    data = embedded(page)
    assert max(s["a"] for s in data["samples"]) == NASTY.replace("\ud800", "\ufffd")
    page.encode()  # no half characters
    write_files(make_report(read_runs([folder])), tmp_path / "files")
    assert (tmp_path / "files" / "headline.tex").exists()


def test_the_policy_allows_the_page_and_nothing_else(runs: dict[str, Path]) -> None:
    page = page_of(runs["rlcr"])
    match = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert match
    policy = html.unescape(match.group(1))
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    for tag in ("script", "style"):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert not re.findall(
        r"\s(?:src|srcset|style|on[a-z]+)=", re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    )
    assert set(re.findall(r'href="([^"#][^"]*)"', page)) == {"data:,"}


def test_long_texts_are_cut_with_a_note(tmp_path: Path) -> None:
    write_run(tmp_path / "run", [record("q", "t", text="x" * 100_000)], [problem("q", "?" * 50_000, "4")])
    found = samples.select(read_runs([tmp_path / "run"]).evals)
    assert "[… 76,000 characters are left out here …]" in found.samples[0]["p"][0][1]
    assert "26,000 characters" in found.problems[0]["x"]
    assert "24,000 characters" in found.rule[0]


# --- missing parts ----------------------------------------------------------------------------------


def no_results(folder: Path) -> None:
    (folder / "results.json").unlink()


def no_records(folder: Path) -> None:
    (folder / "records.jsonl").unlink()


def empty_records(folder: Path) -> None:
    (folder / "records.jsonl").write_text("")
    (folder / "results.json").unlink()


def no_problems(folder: Path) -> None:
    (folder / "problems.jsonl").unlink()


def no_settings(folder: Path) -> None:
    (folder / "run.json").unlink()
    (folder / "results.json").unlink()


def torn(folder: Path) -> None:
    path = folder / "records.jsonl"
    path.write_bytes(path.read_bytes()[:-100] + b"\n[1]\nnot JSON\n\xff\xfe\n{}\n")


def junk_files(folder: Path) -> None:
    for name in ("results.json", "run.json", "voting.json", "coherence.json"):
        (folder / name).write_bytes(b"\x80\x00junk")
    (folder / "analyses.json").write_text("[" * 100_000)


def wrong_shapes(folder: Path) -> None:
    shapes = {
        "voting.json": {"tasks": {"t": [{"n": [1, 2], "value": [0.1]}]}},
        "analyses.json": {"tasks": {"t": [{"n": [1], "value": [0.1], "low": [1, 2]}]}},
        "selective.json": {"tasks": {"t": {"checks": [{"threshold": 3}]}}},
        "coherence.json": {"tasks": []},
        "classifier_sizes.json": {"tasks": {"t": [{"metrics": 3}]}},
        "results.json": {"settings": [], "tasks": {"t": 3}, "macro": {"tasks": ["t"]}},
    }
    write_artefacts(folder, shapes)


def empty_shapes(folder: Path) -> None:
    write_artefacts(folder, {name: {"tasks": {}} for name in ARTEFACTS})


def extra_files(folder: Path) -> None:
    (folder / "notes.txt").write_text("hello")
    (folder / "more").mkdir()
    (folder / "more" / "records.jsonl").write_text("x")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (no_results, "no results.json: finish the run with --resume"),
        (no_records, "no records.jsonl: no figure of its confidences and no samples"),
        (empty_records, "records.jsonl has no record yet"),
        (no_problems, "questions and gold answers cannot be shown"),
        (no_settings, "no run.json"),
        (torn, "lines are not records (the first is line 40)"),
        (junk_files, "voting.json is not a JSON object; left out"),
        (wrong_shapes, "voting.json is not of the documented shape: t: n and value must be equally long"),
        (empty_shapes, "Not drawn: the file holds no curve"),
        (extra_files, "All 40 answers of the runs are here"),
    ],
)
def test_what_is_missing_is_said(tmp_path: Path, spoil: Callable[[Path], None], said: str) -> None:
    made_run(tmp_path / "run", "rlcr", {"t": 40})
    spoil(tmp_path / "run")
    text = words(page_of(tmp_path / "run"))
    assert said in text
    assert "nan" not in text.split()
    write_files(make_report(read_runs([tmp_path / "run"])), tmp_path / "files")


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([record(f"q{n}", "t") for n in range(5)], "AUROC n/a"),
        ([record(f"q{n}", "t", verdict="wrong", confidence=0.0) for n in range(5)], "ECE 0.000"),
        ([record(f"q{n}", "t", verdict="unscorable") for n in range(5)], "none of its 5 answers could be scored"),
        ([record(f"q{n}", "t", confidence=None) for n in range(5)], "none of its 5 scored answers states a confidence"),
        ([record("q", "t")], "n = 1"),
    ],
)  # fmt: skip
def test_one_class_one_sample_no_confidence(tmp_path: Path, records: list[dict[str, Any]], said: str) -> None:
    results = records[0]["verdict"] != "unscorable"
    write_run(tmp_path / "run", records, [problem(r["id"], "?", "4") for r in records], results=results)
    report = make_report(read_runs([tmp_path / "run"]))
    assert said in words(render(report))
    write_files(report, tmp_path / "files")


def test_trainings_alone_without_evaluations_or_updates(tmp_path: Path) -> None:
    made_training(tmp_path / "whole", updates=400, evals=0)
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "training.json").write_text('{"settings": {"task": "arms"}}')
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "updates.jsonl").write_text(
        '{"update": 1, "reward": 0.5, "auroc": null, "parts": 3}\n{"up'
    )
    report = make_report(read_runs([tmp_path / "whole", tmp_path / "begun", tmp_path / "one"]))
    text = words(render(report))
    assert "No run was evaluated" in text
    assert "begun: no updates.jsonl" in text
    assert "Each point is the mean of up to 4 updates" in text
    assert "no training has finished a held-out evaluation" in text
    write_files(report, tmp_path / "files")
    only = make_report(read_runs([tmp_path / "begun"]))
    assert "Not drawn: no update was logged" in words(render(only))


def test_a_training_shows_its_curves_and_held_out_evaluations(runs: dict[str, Path]) -> None:
    report = make_report(read_runs([runs["training"]]))
    assert [run.label for run in report.evals] == ["training, update 150"]
    (section,) = (s for s in report.sections if s.name == "training")
    training, held_out = section.figures
    titles = [panel.title for panel in training.panels]
    assert titles[:5] == [
        "Reward",
        "Reward: format",
        "Reward: correctness",
        "Reward: calibration",
        "Accuracy",
    ]
    assert {"ECE", "Confidence: spread", "Completion length"} <= set(titles)
    assert [len(line.x) for line in held_out.panels[0].layers if hasattr(line, "marks")] == [3]  # type: ignore[union-attr]
    assert len(section.tables[0].rows) == 3


# --- the command ------------------------------------------------------------------------------------


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "rlcr", "report", *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, check=False)


def test_the_command_writes_the_page_and_the_files(runs: dict[str, Path], tmp_path: Path) -> None:
    out, files = tmp_path / "deep" / "report.html", tmp_path / "files"
    done = command(runs["rlcr"], runs["rlvr"], "--out", out, "--figures", files)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == [str(out), str(files)]
    assert out.read_text().startswith("<!doctype html>")
    names = {path.name for path in files.iterdir()}
    figures = (
        "reliability-all-tasks",
        "reliability-task-gsm8k",
        "risk-coverage",
        "scoring-rules",
        "voting",
        "confidence-sums",
    )
    assert {f"{name}{kind}" for name in figures for kind in (".png", ".svg", ".pdf")} <= names
    assert {
        f"{name}{kind}"
        for name in ("headline", "differences", "task-trivia")
        for kind in (".md", ".tex", ".csv")
    } <= names
    with open(files / "headline.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    results = json.loads((runs["rlcr"] / "results.json").read_text())
    assert float(rows[0]["Brier"]) == results["macro"]["metrics"]["brier"]["value"]
    assert float(rows[0]["Brier low"]) == results["macro"]["metrics"]["brier"]["ci95"][0]


def test_mistakes_are_one_line(runs: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    for arguments, said in (
        ((tmp_path / "none",), "none: no such folder"),
        ((tmp_path / "empty",), "empty: not a run (it has none of run.json"),
        ((tmp_path / "file",), "file: not a folder"),
        ((runs["rlcr"], runs["rlcr"]), "named twice"),
        ((runs["rlcr"], "--trained-on", "x"), "--trained-on x: no run has it"),
        ((runs["rlcr"], "--out", tmp_path), "is a folder; the report is one file"),
    ):
        done = command(*arguments)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1
        assert said in done.stderr


def test_the_report_never_imports_torch() -> None:
    code = "import sys, rlcr.report.page; print('torch' in sys.modules, 'matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_labels_tell_folders_apart(tmp_path: Path) -> None:
    assert labels([Path("x/a/eval"), Path("x/b/eval")]) == ["a", "b"]
    assert labels([Path("x/eval"), Path("x/b/eval")]) == ["x", "b"]
    assert labels([Path("x/a"), Path("x/b"), Path("y/b")]) == ["x/a", "x/b", "y/b"]


def test_a_training_and_the_evaluation_of_its_model_have_one_colour(tmp_path: Path) -> None:
    folders = []
    for name in ("one", "two"):
        folders.append(made_training(tmp_path / name / "train", updates=3, evals=0))
        run = made_run(tmp_path / name / "eval", "rlcr", {"toy": 20})
        stored = json.loads((run / "run.json").read_text())
        stored["settings"]["model"] = str(tmp_path / name / "train" / "model")
        (run / "run.json").write_text(json.dumps(stored))
    other = made_training(tmp_path / "three" / "train", updates=3, evals=0)
    found = read_runs([*reversed(folders), other, tmp_path / "one" / "eval", tmp_path / "two" / "eval"])
    assert {run.label: run.colour for run in found.trainings} == {"one": 0, "two": 1, "three": 2}
    assert [run.label for run in found.evals] == ["one", "two"]


def test_write_report_leaves_what_was_there(runs: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("old")
    with pytest.raises(RlcrError):
        write_report([tmp_path / "none"], tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text() == "old"


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
    assert [cell.text for cell in row[5:]][1:] == ["75.0%", "0", "4"]
    assert [s["v"] for s in report.selection.samples].count(1) == 1
    assert sum("fc" in s for s in report.selection.samples) == 3


ODD: list[Any] = [None, 3, -1e308, 10**400, "x", [], {}, True, [1, 2, 3], {"a": None}, "\ud800", 1.5]


def spoil(value: Any, rng: random.Random) -> Any:
    """The value with one place of it replaced by something else, or left out."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(list(value))
        if rng.random() < 0.15:
            return {name: part for name, part in value.items() if name != key}
        return value | {key: spoil(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.85:
        at = rng.randrange(len(value))
        return [*value[:at], spoil(value[at], rng), *value[at + 1 :]]
    return rng.choice(ODD)


@pytest.mark.parametrize("seed", range(4))
def test_no_file_makes_it_fall(tmp_path: Path, seed: int) -> None:
    """Whatever the files hold, there is a page or one clear error."""
    rng = random.Random(seed)
    made_run(tmp_path / "run", "rlcr", {"a": 12, "b": 8})
    made_run(tmp_path / "fine", "base", {"a": 12, "b": 8})
    write_artefacts(tmp_path / "run")
    made_training(tmp_path / "training", updates=12, evals=2)
    whole = {path: path.read_text() for path in tmp_path.rglob("*.json*")}
    for _ in range(4):
        for path, text in whole.items():
            if "fine" in path.parts or rng.random() < 0.4:
                path.write_text(text)
            elif path.suffix == ".jsonl":
                lines = [json.dumps(spoil(json.loads(line), rng)) for line in text.splitlines()]
                path.write_text("\n".join(lines) + "\n")
            else:
                path.write_text(json.dumps(spoil(json.loads(text), rng)))
        page = page_of(tmp_path / "run", tmp_path / "fine", tmp_path / "training")
        page.encode()
        embedded(page)
