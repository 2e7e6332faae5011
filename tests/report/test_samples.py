"""The samples on the page: which ones are chosen, and that texts stay texts."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from pathlib import Path

import numpy as np
from tests.report.pages import embedded, page_of
from tests.report.run_folders import problem, record, simulated_run, write_artefacts, write_run

from rlcr.report import samples
from rlcr.report.page import make_report, write_files
from rlcr.report.reading import read_runs


def test_all_samples_are_there_if_they_fit(runs: dict[str, Path]) -> None:
    found = samples.select(read_runs([runs["base"], runs["rlcr"]]).evals)
    assert len(found.samples) == found.total == 400
    assert found.rule[0].startswith("All 400 answers")
    assert len(found.problems) == 200


def test_the_rule_of_a_large_run(tmp_path: Path) -> None:
    simulated_run(tmp_path / "rlvr", "rlvr", {"t": 400})
    simulated_run(tmp_path / "rlcr", "rlcr", {"t": 400})
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
