"""The report as files: trainings, labels and colours, and the command that writes it."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.command import rlcr
from tests.report.pages import words
from tests.report.run_folders import simulated_run, simulated_training

from rlcr.errors import RlcrError
from rlcr.report.naming import labels
from rlcr.report.page import make_report, render, write_files, write_report
from rlcr.report.reading import read_runs


def test_trainings_alone_without_evaluations_or_updates(tmp_path: Path) -> None:
    simulated_training(tmp_path / "whole", updates=400, evals=0)
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "training.json").write_text('{"settings": {"task": "arms"}}')
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "updates.jsonl").write_text(
        '{"update": 1, "reward": 0.5, "auroc": null, "parts": 3}\n{"up'
    )
    report = make_report(read_runs([tmp_path / "whole", tmp_path / "begun", tmp_path / "one"]))
    text = words(render(report))
    assert report.sentence.startswith("whole after 400 updates: reward rises from 0.3")
    assert report.sentence.endswith(
        "begun has made no update yet; one after 1 update: reward stays at 0.500."
    )
    # What is not there has no section, and no place in the contents.
    assert [section.name for section in report.every_section()] == ["results", "training", "rules"]
    assert "Answers" not in text
    assert "begun: no updates.jsonl" in text
    assert "Each point is the mean of up to 4 updates" in text
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
    apart = [panel for panel in training.panels if panel.title.startswith("Sampler and trainer apart")]
    assert [panel.title.partition(": ")[2] for panel in apart] == ["mean", "most", "far"]
    assert apart[0].y.label == "nats per token"
    assert [len(line.x) for line in held_out.panels[0].layers if hasattr(line, "marks")] == [3]  # type: ignore[union-attr]
    assert [len(table.rows) for table in section.tables] == [1, 3]


def test_the_command_writes_the_page_and_the_files(runs: dict[str, Path], tmp_path: Path) -> None:
    out, files = tmp_path / "deep" / "report.html", tmp_path / "files"
    done = rlcr("report", runs["rlcr"], runs["rlvr"], "--out", out, "--figures", files)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == [str(out), str(files)]
    assert out.read_text().startswith("<!doctype html>")
    names = {path.name for path in files.iterdir()}
    figures = (
        "reliability-first",
        "reliability-task-gsm8k",
        "risk-coverage",
        "voting",
        "confidence-sums",
    )
    assert {f"{name}{kind}" for name in figures for kind in (".png", ".svg", ".pdf")} <= names
    assert {
        f"{name}{kind}"
        for name in ("headline", "grid", "differences", "differences-2", "task-trivia")
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
        done = rlcr("report", *arguments)
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
        folders.append(simulated_training(tmp_path / name / "train", updates=3, evals=0))
        run = simulated_run(tmp_path / name / "eval", "rlcr", {"toy": 20})
        stored = json.loads((run / "run.json").read_text())
        stored["settings"]["model"] = str(tmp_path / name / "train" / "model")
        (run / "run.json").write_text(json.dumps(stored))
    other = simulated_training(tmp_path / "three" / "train", updates=3, evals=0)
    found = read_runs([*reversed(folders), other, tmp_path / "one" / "eval", tmp_path / "two" / "eval"])
    assert {run.label: run.colour for run in found.trainings} == {"one": 0, "two": 1, "three": 2}
    assert [run.label for run in found.evals] == ["one", "two"]


def test_write_report_leaves_what_was_there(runs: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("old")
    with pytest.raises(RlcrError):
        write_report([tmp_path / "none"], tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text() == "old"
