# pyright: basic
"""A training that learns nothing says so: while it runs, in its files, on its card and page, and at its end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.tiny import writing_model, writing_tokenizer
from typer.testing import CliRunner, Result

from rlcr.cli.commands import app
from rlcr.errors import RlcrError
from rlcr.report.page import make_report, render
from rlcr.report.reading import read_runs
from rlcr.sample.loading import load
from rlcr.training.collapse import CollapseWatch
from rlcr.training.teaching import outcome, why_nothing

RECIPE = """\
model: {model}
task: {task}
method: rlvr
reward: rlvr
prompts: 2
group: 2
micro_batch: 4
lr: 0.01
schedule: constant
updates: 3
max_prompt_tokens: 1024
max_completion_tokens: 12
temperature: 0.1
device: cpu
gradient_checkpointing: false
save_every: 2
report_to: []
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that always answers 4, on problems whose answer is always 4: there is nothing to learn."""
    folder = tmp_path_factory.mktemp("easy")
    writing_model("rlvr", strength=30.0, max_position_embeddings=2048).save_pretrained(folder / "start")
    writing_tokenizer().save_pretrained(folder / "start")
    rows = [{"id": str(n), "question": f"[{n}] 2 + 2?", "gold": ["4"], "verifier": "exact"} for n in range(4)]
    task = folder / "easy.jsonl"
    task.write_text("".join(json.dumps(row | {"instruction": "", "extras": {}}) + "\n" for row in rows))
    path = folder / "mine.yaml"
    path.write_text(RECIPE.format(model=folder / "start", task=task))
    return path


def train(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["train", *map(str, arguments)])


def test_a_training_that_learns_nothing_says_so_everywhere(recipe: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = train(recipe, "--out", out)
    assert done.exit_code == 0, done.exception
    updates = [json.loads(line) for line in (out / "updates.jsonl").read_text().splitlines()]
    assert [(line["accuracy"], line["learned_from"], line["grad_norm"]) for line in updates] == [
        (1, 0, 0)
    ] * 3
    why = "every answer is right, and earns the same: take harder problems"
    assert done.stderr.count(f"warning: update 1 taught nothing: {why}") == 1
    assert "update 2 taught nothing" not in done.stderr
    nothing = f"NOTHING WAS LEARNED: none of its 3 updates taught anything ({why})"
    assert done.stdout.splitlines()[-1] == f"trained: {out / 'model'}; {nothing}"
    facts = json.loads((out / "training.json").read_text())
    assert facts["updates"] == {"made": 3, "taught": 0}
    (warning,) = facts["warnings"]
    assert warning == {"update": 1, "warning": f"update 1 taught nothing: {why}"}
    card = (out / "model" / "README.md").read_text()
    assert "0 of 3 updates (0%) taught anything" in card
    assert nothing in card
    page = render(make_report(read_runs([out])))
    assert "NOTHING WAS LEARNED: 3 of 3 updates taught nothing" in page
    assert f"update 1 taught nothing: {why}" in page
    # The claim itself: the weights are those it started from.
    before, after = (
        load(place, device="cpu")[0].state_dict() for place in (recipe.parent / "start", out / "model")
    )
    assert all(torch.equal(before[name], after[name]) for name in before)
    # Taken up again, it says it again, and notes it once.
    again = train(recipe, "--out", out, "--resume")
    assert nothing in again.stdout
    assert len(json.loads((out / "training.json").read_text())["warnings"]) == 1


def test_all_cut_off_stops_at_the_first_update_with_its_cause(recipe: Path, tmp_path: Path) -> None:
    error = train(recipe, "max_completion_tokens=2", "--out", tmp_path / "run").exception
    assert isinstance(error, RlcrError)  # which is exit status 2
    assert "every one ran into the limit of 2 tokens: raise max_completion_tokens" in str(error)


def line(update: int, **other: Any) -> dict[str, Any]:
    usual = {
        "completions": 8,
        "unscorable": 0,
        "unscorable_reason": None,
        "truncated": 0.0,
        "well_formed": 1.0,
    }
    return {"update": update, "learned_from": 0, "zero_variance_groups": 1.0, "accuracy": 0.5} | usual | other


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ({"well_formed": 0.0, "accuracy": 0.0}, "teach the tags first (`rlcr warm-up`), or use a prompt with an"),
        ({"well_formed": 0.0, "truncated": 1.0, "accuracy": 0.0}, "raise max_completion_tokens"),
        ({"accuracy": 0.0}, "every answer is wrong"),
        ({"accuracy": 1.0}, "every answer is right"),
        ({"unscorable": 8, "unscorable_reason": "no gold", "accuracy": None}, "could be graded (no gold)"),
        ({"zero_variance_groups": 0.5}, "look at credit and mask_truncated"),
        ({}, "raise temperature or group"),
    ],
)  # fmt: skip
def test_the_likely_cause(numbers: dict[str, Any], said: str) -> None:
    assert said in why_nothing(line(1, **numbers))


def test_the_first_is_warned_of_and_again_after_ten_that_taught() -> None:
    watch = CollapseWatch()

    def said(update: int, learned_from: int) -> bool:
        return any(
            "taught nothing" in text for text in watch.observe(line(update, learned_from=learned_from))
        )

    assert not said(1, 8)
    assert [said(n, 0) for n in (2, 3, 4)] == [True, False, False]
    assert [said(n, 8 * (n % 2)) for n in range(5, 12)] == [False] * 7
    assert not any(said(n, 8) for n in range(12, 22))
    assert said(22, 0)


def test_what_is_said_of_a_whole_run() -> None:
    assert outcome([line(1, learned_from=3), line(2, learned_from=1)]) == ""
    assert outcome([line(1, learned_from=3), line(2, accuracy=0.0)]).startswith(
        "1 of 2 updates taught nothing"
    )
    # A log of before, which did not count completions.
    old = {"update": 1, "zero_variance_groups": 1.0, "accuracy": 1.0}
    assert "none of its 1 updates" in outcome([old])
    assert outcome([old | {"zero_variance_groups": 0.5}]) == ""
