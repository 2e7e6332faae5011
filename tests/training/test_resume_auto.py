# pyright: basic
"""`--resume=auto`, as a requeued job needs it; and a run that keeps the arguments of its chat template."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.tiny import CHATML, writing_model, writing_tokenizer

from rlcr import cli
from rlcr.cli import training
from rlcr.errors import RlcrError
from rlcr.prompts import render_messages
from rlcr.sample.loading import load_tokenizer
from rlcr.training.measurements import read_updates

RECIPE = """\
model: {model}
chat_template: {{enable_thinking: false}}
task: arms
size: 4
method: rlcr
reward: rlcr
prompts: 2
group: 2
micro_batch: 4
lr: 0.01
schedule: constant
entropy: 0.02
updates: 1
max_prompt_tokens: 1024
max_completion_tokens: 12
dtype: float32
device: cpu
gradient_checkpointing: false
save_every: 1
report_to: []
"""
THINKING = "{% if enable_thinking is defined and not enable_thinking %}no {% endif %}" + CHATML


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    writing_model(strength=9.0, max_position_embeddings=2048).save_pretrained(tmp_path / "start")
    writing_tokenizer(chat_template=THINKING).save_pretrained(tmp_path / "start")
    (tmp_path / "mine.yaml").write_text(RECIPE.format(model=tmp_path / "start"))
    return str(tmp_path / "mine.yaml")


def test_it_begins_what_was_not_begun_and_continues_what_was(recipe: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    (out / ".lock").touch()  # of a job that was killed while it began
    training.train(recipe, out=out, resume_auto=True)
    first = read_updates(out / "updates.jsonl")
    assert len(first) == 1
    training.train(recipe, out=out, resume_auto=True)
    assert read_updates(out / "updates.jsonl") == first
    # What it is not meant for is refused as before.
    with pytest.raises(RlcrError, match="cannot be resumed with other settings: lr was 0.01, is 0.02"):
        training.train(recipe, ["lr=0.02"], out=out, resume_auto=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").touch()
    with pytest.raises(RlcrError, match="not empty"):
        training.train(recipe, out=tmp_path / "other", resume_auto=True)
    # The trained model is asked as it was trained, whoever serves it.
    hello = [{"role": "user", "content": "Hello"}]
    start, trained = (load_tokenizer(str(folder)) for folder in (tmp_path / "start", out / "model"))
    assert render_messages(hello, trained) == "no " + render_messages(hello, start)


def test_the_value_reaches_the_command(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["rlcr", "train", recipe, "--resume=auto", "--dry-run", "--out", str(tmp_path / "new")]
    monkeypatch.setattr(sys, "argv", line)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    assert "4 problems of arms" in capsys.readouterr().out
