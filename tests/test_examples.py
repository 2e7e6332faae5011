# pyright: basic
"""Every example runs, on tiny real models and a local server; the gradient of the minimal one is the trainer's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from examples import (
    cascade,
    evaluate_server,
    grade_generations,
    measure_your_csv,
    rlcr_minimal,
    train_on_your_file,
    trl_reward,
)
from tests.asking.replayed import Replay, text
from tests.command import rlcr
from tests.evaluate.capitals import CAPITALS
from tests.rounding import rounded
from tests.servers import Call, ModelServer
from tests.tiny import writing_model, writing_tokenizer
from tests.training.gradients import MIXED, error, exact_model
from tests.training.updates import encode, examples, recipe, tiny_tokenizer, update

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_all_are_listed() -> None:
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for path in EXAMPLES.iterdir():
        assert path.suffix not in (".py", ".ipynb") or f"({path.name})" in listed


# --- what needs no model ----------------------------------------------------------------------------


def test_measure_your_csv(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measure_your_csv.main(tmp_path)
    honest, boastful, verdict = capsys.readouterr().out.splitlines()
    assert honest.split()[2] == boastful.split()[2], "they know equally much"
    assert float(honest.split()[-1]) < 0.05 < 0.3 < float(boastful.split()[-1])
    assert verdict.startswith("boasting costs 0.2")
    # The command that it names, on the table that it made.
    options = ("--by", "model", "--plot", "reliability.png", "--resamples", "0")
    assert rlcr("metrics", "answers.csv", *options, cwd=tmp_path).returncode == 0
    assert (tmp_path / "reliability.png").exists()


def test_grade_generations(capsys: pytest.CaptureFixture[str]) -> None:
    grade_generations.main()
    *lines, overall = capsys.readouterr().out.splitlines()
    assert [line.partition("confidence")[0].split()[-1] for line in lines] == [
        "correct",
        "correct",
        "wrong",
        "correct",
    ]
    assert "read leniently: percent" in lines[1]
    assert overall == "accuracy 0.750 brier 0.034 coverage 0.750"


def test_the_notebook_prints_what_it_shows(tmp_path: Path) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    notebook = nbformat.read(EXAMPLES / "first_hour.ipynb", as_version=4)
    stored = [_texts(cell) for cell in notebook.cells]
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert [_texts(cell) for cell in notebook.cells] == stored
    assert (tmp_path / "report.html").exists()


def _texts(cell) -> str:
    """What a cell printed; pictures are left out."""
    outputs = cell.get("outputs", [])
    printed = (out.get("text", "") or out.get("data", {}).get("text/plain", "") for out in outputs)
    return rounded("".join(printed))


# --- with a server, and with tiny models ------------------------------------------------------------


def test_evaluate_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("openai")

    def reply(call: Call) -> str:
        known = next((CAPITALS[country] for country in CAPITALS if f"of {country}?" in call.prompt), "Sydney")
        sure = 0.6 if known == "Sydney" else 0.95
        return f"<think>…</think><answer>{known}</answer><confidence>{sure}</confidence>"

    with ModelServer(reply) as server:
        results = evaluate_server.main(server.url, tmp_path)
    (found,) = results.tasks.values()
    assert found.completions == 6
    assert found.summary.metrics["accuracy"].value == pytest.approx(2 / 3)
    assert "6 answers" in capsys.readouterr().out
    assert "Capital of Australia?" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny model that mostly keeps the tags of RLCR."""
    folder = tmp_path_factory.mktemp("model")
    writing_model("rlcr", strength=9.0, max_position_embeddings=2048).save_pretrained(folder)
    writing_tokenizer().save_pretrained(folder)
    return str(folder)


def test_trl_reward(model: str, tmp_path: Path) -> None:
    trainer = trl_reward.main(
        model, str(tmp_path), num_generations=4, per_device_train_batch_size=4, max_completion_length=16,
        max_steps=2, use_cpu=True, bf16=False, report_to="none", save_strategy="no", learning_rate=1e-3,
    )  # fmt: skip
    rewards = [line["reward"] for line in trainer.state.log_history if "reward" in line]
    assert trainer.state.global_step == 2
    assert rewards
    assert all(-1.0 <= reward <= 1.0 for reward in rewards)


def test_the_reward_is_eight_lines_and_leaves_out_what_nobody_can_tell() -> None:
    good = [{"content": "<think>.</think><answer>4</answer><analysis>.</analysis><confidence>1</confidence>"}]
    assert trl_reward.calibration_reward([good, good], ["4", "5"]) == [1.0, 0.0]
    assert trl_reward.calibration_reward([good], [""]) == [None]
    source = (EXAMPLES / "trl_reward.py").read_text(encoding="utf-8").split("REWARD = ")[1]
    assert len(("REWARD = " + source.partition("def main")[0]).strip().splitlines()) <= 8


def test_train_on_your_file(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trained = train_on_your_file.main(
        model, tmp_path, warm_up=None, method="rlcr", updates=2, prompts=2, group=4, micro_batch=4, lr=0.01,
        max_prompt_tokens=1024, max_completion_tokens=16, eval_every=2, eval_size=4, report_to=[],
        lora=None, credit="all", confidence_entropy=0, confidence_replay=0,
    )  # fmt: skip
    assert json.loads((trained / "rlcr.json").read_text())["method"] == "rlcr"
    assert "400 problems" in capsys.readouterr().out
    assert "RLCR on my own sums" in (trained / "README.md").read_text(encoding="utf-8")
    assert (tmp_path / "report.html").exists()


# --- the whole algorithm ----------------------------------------------------------------------------


def test_its_gradient_is_the_trainers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rlcr_minimal, "REWARD", rlcr_minimal.get_reward("rlcr"))  # the tags of these texts
    tokenizer, model = tiny_tokenizer(), exact_model()
    asked = [example for example in examples(MIXED) for _ in MIXED[example.problem.id]]
    texts = [text for group in MIXED.values() for text in group]
    advantages = rlcr_minimal.advantages_of(
        [text.removesuffix("…") for text in texts], [example.problem for example in asked], group=4
    )
    loss = rlcr_minimal.policy_loss(
        model,
        [example.prompt.ids.tolist() for example in asked],
        [encode(tokenizer, text) for text in texts],
        advantages,
        temperature=0.7,
    )
    loss.backward()
    gradient = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    assert error(gradient, update(recipe(), MIXED, tmp_path).gradient) < 1e-9


def test_it_trains(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With a start that was hardly taught: what it learns is in the file's header."""
    build, short = rlcr_minimal.embedded.build, rlcr_minimal.embedded.Lessons(documents=600, steps=30)
    monkeypatch.setattr(rlcr_minimal.embedded, "build", lambda seed: build(seed, short))
    rlcr_minimal.main(updates=2, prompts=8)
    start, end, note = capsys.readouterr().out.splitlines()[1:]
    assert start.count("|") == end.count("|") == 7
    assert note.startswith("2 updates of 8 x 4 completions")


def test_it_fits_on_a_few_screens() -> None:
    assert rlcr_minimal.__file__
    lines = Path(rlcr_minimal.__file__).read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 150


def test_a_cascade_costs_less_than_the_large_model_and_is_better_than_the_small_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cascade.main([], questions=400)
    *lines, _ = capsys.readouterr().out.splitlines()
    accuracies = [float(line.split("accuracy ")[1].split(",")[0]) for line in lines]
    costs = [float(line.split("cost ")[1].split(" ")[0]) for line in lines]
    assert len(lines) == 4
    assert accuracies == sorted(accuracies)
    assert costs == sorted(costs)
    assert costs[2] < 0.9
    assert accuracies[0] + 0.1 < accuracies[2] < accuracies[3]


def test_a_cascade_asks_the_large_model_only_below_the_threshold() -> None:
    small, large = (Replay({"Q?": [text(answer, q)]}) for answer, q in (("Rome", "0.6"), ("Paris", "0.9")))
    for sure, expected, asked in ((0.5, None, 0), (0.7, "Paris", 1)):
        answer = cascade.cascade(small, large, "Q?", sure)
        assert large.drawn == asked
        assert answer.text == (expected or "Rome")
