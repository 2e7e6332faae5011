# pyright: basic
"""`rlcr runs`: each kind of run is told for what it is, finished or not, whatever a file holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.command import expect_one_line, rlcr
from tests.evaluate.capitals import capitals, good_reply
from tests.servers import Call
from tests.tiny import writing_model, writing_tokenizer
from tests.training.sft_runs import rows, write_data
from tests.training.tiny_recipe import RECIPE

from rlcr import train
from rlcr.errors import RlcrError
from rlcr.evaluate import Settings, evaluate
from rlcr.report.listing import list_runs
from rlcr.runs.store import create_run
from rlcr.sample import Completion
from rlcr.training.sft import Settings as SftSettings
from rlcr.training.sft import train_sft


class Knows:
    """Answers questions about capitals, as many as it has patience for."""

    name, fingerprint = "knows", "1"

    def __init__(self, patience: int = 100) -> None:
        self.patience = patience

    def sample(self, requests, sampling):
        for number, request in enumerate(requests):
            if number == self.patience:
                raise RlcrError("had enough")
            prompt = request.messages[-1]["content"]
            yield Completion(request.key, 0, good_reply(Call(prompt, 0, 0.0, 100)), "stop")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of real runs, some of them unfinished."""
    folder = tmp_path_factory.mktemp("work")
    runs = folder / "runs"
    task = capitals(folder)
    evaluate(Settings("models/knows", (task,), "rlcr"), runs / "eval", sampler=Knows())
    with pytest.raises(RlcrError, match="had enough"):
        evaluate(Settings("models/knows", (task,), "rlcr"), runs / "deep" / "broken", sampler=Knows(7))

    table = folder / "elsewhere.jsonl"
    text = "<think>…</think><answer>4</answer><analysis>…</analysis><confidence>0.9</confidence>"
    table.write_text(json.dumps({"q": "2 + 2?", "a": "4", "text": text}) + "\n")
    columns = ("--question", "q", "--gold", "a", "--completion", "text")
    assert rlcr("import", table, *columns, "--out", runs / "imported").returncode == 0

    writing_model(strength=9.0, max_position_embeddings=2048).save_pretrained(folder / "start")
    writing_tokenizer().save_pretrained(folder / "start")
    (folder / "mine.yaml").write_text(RECIPE.format(model=folder / "start"))
    train(folder / "mine.yaml", out=runs / "trained", updates=2)
    train_sft(
        SftSettings(str(folder / "start"), write_data(folder / "data", rows(2)), epochs=1), runs / "sft"
    )
    return runs


def listed(runs: Path) -> dict[str, tuple[str, str, str, str]]:
    return {
        Path(run.folder).relative_to(runs).as_posix(): (run.kind, run.what, run.progress, run.headline)
        for run in list_runs(runs).runs
    }


def test_real_runs(runs: Path) -> None:
    found = listed(runs)
    assert list(found) == ["deep/broken", "eval", "imported", "sft", "trained"]
    kind, what, progress, headline = found["eval"]
    assert (kind, progress) == ("evaluation", "20 of 20")
    assert what.startswith("knows on capitals")
    assert what.endswith("by rlcr")
    assert headline == "accuracy 0.500, AUROC 1.000, Brier 0.025, ECE 0.150"
    assert found["deep/broken"][2:] == ("0 of 20, 7 more sampled", "no results yet")
    assert found["imported"][0] == "import"
    assert found["imported"][2] == "1 completions"
    assert "accuracy 1.000" in found["imported"][3]
    kind, what, progress, headline = found["trained"]
    assert (kind, what, progress) == ("training", "recipe mine, from start", "2 of 2 updates, finished")
    assert headline.startswith("last update: reward ")
    assert found["sft"][0] == "sft"
    assert found["sft"][2] == "finished"
    assert "at last" in found["sft"][3]


def test_the_command(runs: Path) -> None:
    shown = rlcr("runs", cwd=runs.parent)
    assert shown.returncode == 0, shown.stderr
    lines = {line.split()[0]: line for line in shown.stdout.splitlines()}
    assert list(lines) == [
        "run", "runs/deep/broken", "runs/eval", "runs/imported", "runs/sft", "runs/trained"
    ]  # fmt: skip
    assert "20 of 20" in lines["runs/eval"]
    as_json = json.loads(rlcr("runs", runs / "eval", "--json").stdout)
    assert [run["kind"] for run in as_json["runs"]] == ["evaluation"]


def test_no_runs(tmp_path: Path) -> None:
    expect_one_line(rlcr("runs", cwd=tmp_path), "runs: no such folder; give the one that holds your runs")
    (tmp_path / "file").write_text("")
    expect_one_line(rlcr("runs", tmp_path / "file"), "not a folder; give the one that holds your runs")
    assert "no runs in it" in rlcr("runs", tmp_path).stdout


def write(path: Path, contents: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(contents if isinstance(contents, str) else json.dumps(contents))


def test_other_kinds_and_stages(tmp_path: Path) -> None:
    create_run(tmp_path / "warm", {"kind": "warm-up", "recipe": "smollm2-rlcr", "model": "a/SmolLM2"}, {}, {})
    measured = {"responses": 100, "right": 3}
    write(tmp_path / "warm" / "warm-up.json", {"before": measured | {"well_formed": 0}})
    create_run(
        tmp_path / "expert", {"kind": "sft-data", "model": "m", "expert": "e", "task": "gsm8k"}, {}, {}
    )
    write(tmp_path / "judge" / "classifier.json", {"model": "a/Qwen", "held_out": {"brier": 0.2}})
    write(tmp_path / "quick" / "quickstart.json", {"seed": 3, "exact": {"rlcr": {"share": 0.968}}})
    write(tmp_path / "quick" / "rlcr" / "train" / "training.json", {
        "settings": {"recipe": "r", "model": "m", "epochs": 2, "prompts": 4, "data": {"size": 11}}, "dropped": [{}]
    })  # fmt: skip
    found = listed(tmp_path)
    unfinished = (
        "warm-up",
        "recipe smollm2-rlcr, from SmolLM2",
        "unfinished",
        "well-formed: 0 of 100 before",
    )
    assert found["warm"] == unfinished
    assert found["expert"] == ("sft-data", "m on gsm8k, analysed by e", "unfinished", "")
    assert found["judge"] == ("classifier", "from Qwen", "finished", "held-out Brier 0.200")
    assert found["quick"][2:] == ("unfinished", "RLCR earns 96.8% of the optimum")
    assert found["quick/rlcr/train"][2:] == ("0 of 4 updates", "no update yet")
    write(tmp_path / "warm" / "warm-up.json", {"after": measured | {"well_formed": 98}})
    assert listed(tmp_path)["warm"][2:] == ("finished", "well-formed: 98 of 100 after")


def test_half_of_the_confidences_are_not_shown_as_all(tmp_path: Path) -> None:
    create_run(
        tmp_path / "run", {"tasks": {"a": {"size": 4}}, "samples": 2, "model": "m", "method": "rlcr"}, {}, {}
    )
    metrics = {
        "accuracy": {"value": 0.25},
        "auroc": {"value": None},
        "ece": {"value": 0.1},
        "coverage": {"value": 0.5},
    }
    write(tmp_path / "run" / "results.json", {"tasks": {"a": {"metrics": metrics}}})
    headline = "accuracy 0.250, ECE 0.100 (50% have a confidence)"
    assert listed(tmp_path)["run"] == ("evaluation", "m on a by rlcr", "0 of 8", headline)


@pytest.mark.parametrize(
    "contents", ["", "[1]", "{}", '{"format": 1, "settings": {}}', '{"format": 2, "settings": 3}']
)
@pytest.mark.parametrize("name", ["run.json", "training.json", "classifier.json", "quickstart.json"])
def test_damaged_files_stop_no_listing(name: str, contents: str, tmp_path: Path) -> None:
    write(tmp_path / "odd" / name, contents)
    assert list(listed(tmp_path)) == ["odd"]
    if contents in ("", "[1]"):
        assert listed(tmp_path)["odd"][:2] == ("unreadable", f"{name} is not a JSON object")
