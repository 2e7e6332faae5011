"""Runs of which a part is missing, odd or broken: the page says so, and there always is one."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.report.pages import embedded, page_of, words
from tests.report.run_folders import (
    ARTEFACTS,
    problem,
    record,
    simulated_run,
    simulated_training,
    write_artefacts,
    write_run,
)

from rlcr.report.page import make_report, render, write_files
from rlcr.report.reading import read_runs
from rlcr.runs.record import FORMAT


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
        (torn, "lines are damaged (the first is line 40)"),
        (junk_files, "voting.json is left out: not UTF-8 text"),
        (wrong_shapes, "voting.json is not of the documented shape: t: n and value must be equally long"),
        (empty_shapes, "Not drawn: the file holds no curve"),
        (extra_files, "All 40 answers are here"),
    ],
)
def test_what_is_missing_is_said(tmp_path: Path, spoil: Callable[[Path], None], said: str) -> None:
    simulated_run(tmp_path / "run", "rlcr", {"t": 40})
    spoil(tmp_path / "run")
    text = words(page_of(tmp_path / "run"))
    assert said in text
    assert "nan" not in text.split()
    write_files(make_report(read_runs([tmp_path / "run"])), tmp_path / "files")


def test_damaged_lines_are_warned_of_at_the_top(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [record("q0", "t")], [problem("q0", "What is 0?", "0")])
    with open(folder / "records.jsonl", "a") as file:
        file.write("{}\n")
    page = page_of(folder)
    (warnings,) = re.findall(r'<details class="warnings">(.*?)</details>', page, re.DOTALL)
    said = "run: records.jsonl: 1 line is damaged (line 2); left out of every number, and"
    assert said in words(warnings)
    assert "damaged" not in words(page.partition('id="runs"')[2])  # once is enough
    # What there is one of is said so.
    text = words(page)
    assert "1 evaluation, 1 answer ·" in text
    assert "The only answer is here." in text


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([record(f"q{n}", "t") for n in range(5)], "gets 100.0% of 5 answers right"),
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
    simulated_run(tmp_path / "run", "rlcr", {"a": 12, "b": 8})
    simulated_run(tmp_path / "fine", "base", {"a": 12, "b": 8})
    write_artefacts(tmp_path / "run")
    simulated_training(tmp_path / "training", updates=12, evals=2)
    whole = {path: path.read_text() for path in tmp_path.rglob("*.json*")}
    for _ in range(4):
        for path, text in whole.items():
            if "fine" in path.parts or rng.random() < 0.4:
                path.write_text(text)
            elif path.suffix == ".jsonl":
                lines = [json.dumps(spoil(json.loads(line), rng)) for line in text.splitlines()]
                path.write_text("\n".join(lines) + "\n")
            else:
                spoiled = spoil(json.loads(text), rng)
                if path.name == "run.json" and isinstance(spoiled, dict):
                    spoiled["format"] = FORMAT  # another one is refused
                path.write_text(json.dumps(spoiled))
        page = page_of(tmp_path / "run", tmp_path / "fine", tmp_path / "training")
        page.encode()
        embedded(page)
