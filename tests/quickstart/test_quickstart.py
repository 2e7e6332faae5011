"""The quickstart, shortened: one way, a model that is taught for seconds, two updates."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")

from tests import forks

from rlcr import RlcrError, quickstart
from rlcr.metrics.tables import aligned_markdown
from rlcr.quickstart.table import exact_table
from rlcr.tasks.arms import Arms
from rlcr.tasks.arms_optimum import exact_evaluation, optimum
from rlcr.training.embedded import Lessons

SHORT: dict[str, Any] = {
    "ways": quickstart.WAYS[1:2],
    "lessons": Lessons(documents=2000, steps=60),
    "overrides": {"updates": 2, "prompts": 8, "micro_batch": 32},
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RLCR_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def done(tmp_path_factory, cache):
    """A run that was interrupted in its training, and resumed."""
    out = tmp_path_factory.mktemp("quickstart") / "out"
    out.mkdir()

    def interrupt(name: str, share: float, word: str) -> None:
        if name == "rlcr":
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        # Six processes of its own, which need not import torch each.
        patch.setattr(quickstart, "_RLCR", (*forks.python(forks.TRAINING), "-m", "rlcr"))
        with pytest.raises(KeyboardInterrupt):
            quickstart.run(out, watch=interrupt, **SHORT)
        assert not (out / "report.html").exists()
        return quickstart.run(out, **SHORT)


def test_what_it_leaves(done):
    out = done.folder
    for name in ("start", "rlcr"):
        assert len((out / name / "sequences" / "records.jsonl").read_text().splitlines()) == 3906
        assert len((out / name / "eval" / "records.jsonl").read_text().splitlines()) == 1000
    assert len((out / "rlcr" / "train" / "updates.jsonl").read_text().splitlines()) == 2
    summary = json.loads((out / "quickstart.json").read_text())
    assert summary["seed"] == 0
    assert summary["seconds"] > 0
    assert summary["exact"]["rlcr"]["share"] == done.exact["rlcr"].share
    assert summary["optimum"]["reward"] == pytest.approx(0.1166, abs=5e-5)
    assert (out / "figures" / "exact.csv").exists()
    page = done.report.read_text()
    assert "Exact values, over every sequence of draws" in page
    assert "paper, RLCR-Brier (7B)" in page
    # One set of names: what happened, the table, the answers and the training speak of the same run.
    headline = page.split("<h1>")[1].split("</h1>")[0]
    assert "RLCR (Brier)" in headline
    assert '{"name":"RLCR (Brier)"' in page
    assert 'class="value">rlcr<' not in page


def test_a_second_run_does_nothing_again(done):
    def files() -> dict[Path, int]:
        every = done.folder.rglob("*")
        return {path: path.stat().st_mtime_ns for path in every if path.name != "report.html"}

    kept = {path: time for path, time in files().items() if path.suffix in (".jsonl", ".safetensors")}
    again = quickstart.run(done.folder, **SHORT)
    assert again.exact == done.exact
    assert kept.items() <= files().items()
    assert again.seconds >= done.seconds


def test_another_seed_in_the_same_folder_is_refused(done):
    with pytest.raises(RlcrError, match="holds the quickstart of seed 0"):
        quickstart.run(done.folder, seed=1, **SHORT)


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("dear to somebody")
    for fresh in (False, True):
        with pytest.raises(RlcrError, match="not a quickstart's"):
            quickstart.run(tmp_path, fresh=fresh, **SHORT)
    assert (tmp_path / "thesis.tex").read_text() == "dear to somebody"


def test_a_failing_training_says_why(tmp_path, cache):
    with pytest.raises(RlcrError, match="`rlcr train tiny-arms-brier .* failed: .*prompts"):
        quickstart.run(
            tmp_path / "out", ways=SHORT["ways"], lessons=SHORT["lessons"], overrides={"prompts": -1}
        )


def test_the_table_on_a_terminal():
    best = optimum(Arms())
    exact = exact_evaluation(Arms(), (best.answers_S, best.confidences_S))
    lines = aligned_markdown(exact_table({"start": exact})).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert lines[0].split("|")[1].strip() == ""
    assert [cell.strip() for cell in lines[2].split("|")[1:-1]][:2] == ["start", "0.330"]
    assert lines[2].split()[2:] == lines[3].split()[2:]


def test_help_names_the_options():
    shown = subprocess.run(
        [sys.executable, "-m", "rlcr", "quickstart", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert all(option in shown for option in ("--out", "--seed", "--fresh"))
