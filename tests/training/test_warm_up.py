# pyright: basic
"""`rlcr warm-up` on tiny real models: they learn to keep the tags, from either source; and the stop without it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests import forks
from tests.tiny import tiny_model, writing_model, writing_tokenizer
from tests.training.sft_runs import StopAt, write_sums
from transformers import TrainerCallback

from rlcr.errors import RlcrError
from rlcr.evaluate.methods import FORCED_ANSWER, stored_method
from rlcr.problem import Problem
from rlcr.response import FORMATS, parse
from rlcr.sample import Completion, Request, Sampling
from rlcr.sample.local import LocalSampler
from rlcr.tasks import load
from rlcr.training.preflight.dry_run import dry_run
from rlcr.training.recipes import Resolved, load_recipe
from rlcr.training.recipes.settings import WarmUp
from rlcr.training.run import train_run
from rlcr.training.warm_up import warm_up
from rlcr.training.warm_up_data import NEUTRAL, Worked, choose_source, drawn, render, rows, samples, solutions

RECIPE = """\
model: {model}
task: file
task_settings: {{path: {path}, solution: steps}}
size: 6
method: rlcr-short
prompt: {prompt}
reward: rlcr
prompts: 3
group: 4
micro_batch: 6
temperature: 0.7
lr: 1e-4
updates: 2
max_prompt_tokens: 1024
max_completion_tokens: 40
dtype: float32
device: cpu
gradient_checkpointing: false
save_every: 1
report_to: []
"""
WARM = {"examples": 96, "held_out": 16, "epochs": 4, "lr": 5e-3, "batch": 8}


def save(model: Any, folder: Path) -> str:
    model.save_pretrained(folder)
    writing_tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe whose model has random weights, so that it cannot keep any tags."""
    folder = tmp_path_factory.mktemp("recipe")
    start = tiny_model(vocab_size=len(writing_tokenizer()), initializer_range=0.05)
    path, prompt = folder / "mine.yaml", folder / "prompt.txt"
    prompt.write_text("Add.")  # short, so that the tests are quick
    model, sums = save(start, folder / "start"), write_sums(folder / "sums.jsonl")
    path.write_text(RECIPE.format(model=model, path=sums, prompt=prompt))
    return path


def resolve(recipe: Path, **changes: Any) -> Resolved:
    return load_recipe(recipe, changes)


@pytest.fixture(scope="module")
def finished(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted warm-up."""
    out = tmp_path_factory.mktemp("warm") / "warm"
    said: list[str] = []
    warm_up(resolve(recipe, warm_up=WARM), out, say=said.append)
    (out.parent / "said").write_text("\n".join(said))
    return out


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "model" / "model.safetensors")


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


# --- a warm-up --------------------------------------------------------------------------------------


def test_a_model_that_cannot_keep_the_tags_learns_to(finished: Path) -> None:
    report = json.loads((finished / "warm-up.json").read_text())
    assert report["before"]["responses"] == report["after"]["responses"] == 16
    assert report["before"]["well_formed"] == 0
    assert report["after"]["well_formed"] >= 12
    assert report["settings"]["source"] == "solutions"
    assert report["questions_in_both"] == 0
    assert report["steps"] == 4 * 96 / 8
    first, training, *updates, last = (finished.parent / "said").read_text().splitlines()
    assert first.startswith(
        "before the warm-up, of 16 sampled responses to held-out problems 0 are well-formed"
    )
    assert training == "training on 96 responses made of worked solutions"
    assert [line.partition(",")[0] for line in updates] == [f"update {n} of 48" for n in (10, 20, 30, 40)]
    assert f" {report['after']['well_formed']} are well-formed, {report['after']['right']} of them" in last
    # An ordinary folder that knows how it is to be asked, and a card.
    method = stored_method(str(finished / "model"))
    assert method is not None
    assert method.name == "rlcr-short"
    assert "drawn at random" in (finished / "model" / "README.md").read_text()
    assert not (finished / "checkpoints").exists()
    sampler = LocalSampler.load(finished / "model")
    asked = ({"role": "user", "content": "1 + 2?"},)
    [completion] = sampler.sample([Request("x", asked)], Sampling(max_tokens=40))
    assert completion.completion_tokens


def test_all_weights_may_learn_the_tags_where_rl_trains_adapters(
    recipe: Path, finished: Path, tmp_path: Path
) -> None:
    lora, warm = {"rank": 4, "alpha": 8}, {**WARM, "all_weights": True}
    warm_up(resolve(recipe, warm_up=warm, lora=lora), tmp_path / "all")
    assert same(weights(tmp_path / "all"), weights(finished))
    warm_up(resolve(recipe, warm_up=WARM, lora=lora), tmp_path / "adapters")
    assert not same(weights(tmp_path / "adapters"), weights(finished))


def test_resuming_gives_the_same_weights_bit_for_bit(recipe: Path, finished: Path, tmp_path: Path) -> None:
    out, resolved = tmp_path / "warm", resolve(recipe, warm_up=WARM)
    with pytest.raises(KeyboardInterrupt):
        warm_up(resolved, out, callbacks=[StopAt(30)])
    assert not (out / "model").exists()
    with pytest.raises(RlcrError, match="not empty; --resume continues it"):
        warm_up(resolved, out)
    with pytest.raises(
        RlcrError, match=r"other settings: lr was 0.005, is 0.1; warm_up.lr was 0.005, is 0.1"
    ):
        warm_up(resolve(recipe, warm_up=WARM | {"lr": 0.1}), out, resume=True)
    steps: list[int] = []

    class Count(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            steps.append(state.global_step)

    report = warm_up(resolved, out, resume=True, callbacks=[Count()])
    assert (steps[0], steps[-1]) == (26, 48)  # from the checkpoint after 25
    assert same(weights(out), weights(finished))
    assert report["after"] == json.loads((finished / "warm-up.json").read_text())["after"]
    said: list[str] = []
    assert warm_up(resolved, out, resume=True, say=said.append) == report
    assert not said  # there was nothing left to do
    with pytest.raises(RlcrError, match="not a run"):
        warm_up(resolved, tmp_path / "nowhere", resume=True)


def test_training_warms_up_first_and_not_again(recipe: Path, tmp_path: Path) -> None:
    resolved, out = resolve(recipe, warm_up=WARM), tmp_path / "run"
    result = train_run(resolved, out)
    assert len(result.updates) == 2
    assert result.updates[0]["well_formed"] > 0.5
    model = out / "warm-up" / "model" / "model.safetensors"
    assert not same(load_file(model), weights(out))  # RL went on from it
    written = model.stat().st_mtime_ns
    # As if killed before any checkpoint: the warm-up is reused.
    for path in (out / "checkpoints").glob("*/whole"):
        path.unlink()
    again = train_run(resolved, out, resume=True)
    assert same(weights(out), load_file(again.model / "model.safetensors"))
    assert model.stat().st_mtime_ns == written
    # A model that was trained for these tags needs none.
    warm = resolve(recipe, warm_up=WARM, model=str(out / "warm-up" / "model"))
    assert (
        dry_run(warm).block("Warm-up")
        == f"none: {out / 'warm-up' / 'model'} was trained for these tags before"
    )
    train_run(warm, tmp_path / "other")
    assert not (tmp_path / "other" / "warm-up").exists()
    other = resolve(recipe, warm_up=WARM, model=str(out / "model"), method="rlvr-short", reward="rlvr")
    assert "up to 96 responses" in dry_run(other).block("Warm-up")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"lora": {"rank": 4, "targets": r".*layers\.2\d\..*_proj"}}, "matches nothing in this model"),
        ({"lora": {"rank": 4, "targets": "*proj"}}, "is no regular expression: nothing to repeat"),
        ({"task_settings.solution": "", "warm_up.source": "solutions"}, "have no worked solution"),
    ],
)
def test_what_is_refused_is_refused_before_and_leaves_the_folder(
    changes: dict[str, Any], said: str, recipe: Path, tmp_path: Path
) -> None:
    warm = {"examples": 8, "held_out": 2, "batch": 8, "lr": 1e-6}
    with pytest.raises(RlcrError, match=said):
        train_run(load_recipe(recipe, {"warm_up": warm} | changes), tmp_path / "run")
    assert not (tmp_path / "run" / "warm-up").exists()
    # The next try begins: it ends since such a warm-up teaches nothing.
    with pytest.raises(RlcrError, match="its warm-up was too short"):
        train_run(resolve(recipe, warm_up=warm), tmp_path / "run")


def test_the_dry_run_tells_of_it(recipe: Path) -> None:
    assert dry_run(resolve(recipe)).block("Warm-up").startswith("none (warm_up=null)")
    found = dry_run(resolve(recipe, warm_up=WARM))
    assert found.block("Warm-up").splitlines() == [
        "up to 96 responses made of worked solutions",
        "confidences drawn from 0 to 1",
        "up to 48 updates of 8 at lr 0.005, before RL",
        "16 responses to other problems are sampled before and after",
    ]
    changes = {"warm_up": {"source": "solutions"}, "task_settings.solution": ""}
    found = dry_run(load_recipe(recipe, changes))
    assert found.error.startswith(
        "warm_up.source=solutions: 6 of 6 problems have no worked solution, such as"
    )


def test_two_processes_warm_up_together(recipe: Path, finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "warm"
    settings = [f"warm_up.{name}={WARM[name]}" for name in WARM]
    call = forks.torchrun("-m", "rlcr", "warm-up", str(recipe), *settings, "--out", str(out))
    done = subprocess.run(call, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    report, alone = (json.loads((run / "warm-up.json").read_text()) for run in (out, finished))
    assert done.stdout.count("before the warm-up") == done.stdout.count("after the warm-up") == 1
    assert f"give model={out / 'model'} to `rlcr train`" in done.stdout
    assert report["steps"] == alone["steps"]
    assert report["after"]["well_formed"] >= 12
    assert report.pop("crc")
    # Nothing is left to do, for one process either.
    assert warm_up(resolve(recipe, warm_up=WARM), out, resume=True) == report


# --- responses --------------------------------------------------------------------------------------


def test_solutions_of_each_source_become_well_formed_responses(tmp_path: Path) -> None:
    (tmp_path / "gsm8k").mkdir()
    row = {"question": "Half of 48?", "answer": "Half is 48/2 = <<48/2=24>>24.\nSo it is 24.\n#### 24"}
    (tmp_path / "gsm8k" / "train.jsonl").write_text(json.dumps(row) + "\n")
    [word] = load("gsm8k", "train", data_dir=tmp_path).problems
    assert word.extras["solution"] == "Half is 48/2 = 24.\nSo it is 24."
    [own] = load("file", size=1, path=str(write_sums(tmp_path / "sums.jsonl")), solution="steps").problems
    assert own.extras["solution"] == "the sum"
    found = [word, own]
    for dataset in ("chain_sum", "letter_counting", "spell_backward"):
        found += load("gym", "train", size=20, dataset=dataset).problems
    assert choose_source(WarmUp(), found) == "solutions"
    for method, reward, format in (
        ("rlcr-short", "rlcr", "confidence"),
        ("rlcr", "rlcr", "rlcr"),
        ("rlvr", "rlvr", "rlvr"),
    ):
        chosen = load_recipe("tiny-arms-brier", {"method": method, "reward": reward}).recipe
        lines, left_out = rows(chosen, WarmUp(), solutions(found))
        assert not left_out
        assert [line["id"] for line in lines] == [problem.id for problem in found]
        for line, problem in zip(lines, found, strict=True):
            response = parse(line["completion"], format)
            assert response.well_formed
            assert (response.answer, response.part("think")) == (problem.gold[0], problem.extras["solution"])
            assert line["messages"][-1]["content"].startswith(problem.question)
            assert (response.part("analysis") in NEUTRAL) == (format == "rlcr")
    chain = found[2].extras["solution"].splitlines()
    assert all(eval(step.partition("=")[0]) == int(step.partition("=")[2]) for step in chain)
    assert chain[-1].endswith(f"= {found[2].gold[0]}")


def test_confidences_tell_nothing() -> None:
    warm = WarmUp(confidence=(0.25, 0.75))
    recipe = load_recipe("tiny-arms-brier").recipe
    problems = [Problem(str(n), f"{n}?", (str(n),), "math") for n in range(4000)]
    worked = [Worked(problem, "so", problem.gold[0]) for problem in problems]

    def stated(seed: int, worked: list[Worked]) -> list[float]:
        lines, _ = rows(recipe.model_copy(update={"seed": seed}), warm, worked)
        return [parse(line["completion"], "confidence").confidence or 0.0 for line in lines]

    confidences = stated(1, worked)
    assert set(confidences) <= {n / 100 for n in range(25, 76)}
    assert len(set(confidences)) == 51
    assert np.mean(confidences) == pytest.approx(0.25 + 0.5 * 2 / 3, abs=0.01)  # high ones more often
    # The same whatever they are put beside, and others for another seed.
    assert stated(1, list(reversed(worked))) == confidences
    assert stated(2, worked) != confidences
    # Not even of which problem is next: no correlation from one to the other.
    assert abs(np.corrcoef(confidences[1:], confidences[:-1])[0, 1]) < 0.05
    analyses = [analysis for _, (_, analysis) in zip(range(4000), drawn(1, warm), strict=False)]
    for sentence in NEUTRAL:
        beside = [q for q, analysis in zip(confidences, analyses, strict=True) if analysis == sentence]
        assert np.mean(beside) == pytest.approx(np.mean(confidences), abs=0.02)


def test_what_would_be_read_otherwise_is_left_out() -> None:
    recipe = load_recipe("tiny-arms-brier").recipe
    problem = Problem("1", "1?", ("4",), "math")
    worked = [
        Worked(problem, "so <answer>4", "4"),
        Worked(problem, "so", "4"),
        Worked(problem, "a</think>", "4"),
    ]
    lines, left_out = rows(recipe, WarmUp(), worked)
    assert len(lines) == 1
    assert sum(left_out.values()) == 2
    assert render("rlvr", worked[1], 0.5, "") == "<think>so</think><answer>4</answer>"


class Prose:
    """A model that answers in prose, right about even numbers; and says so when it is made to."""

    name, fingerprint = "prose", ""

    def sample(self, requests: Iterable[Request], sampling: Sampling) -> Generator[Completion, None, None]:
        for request in requests:
            number = int(request.messages[-1]["content"].partition(" ")[0])
            answer = number + 1 if number % 2 == 0 else 0
            forced = request.prefix.endswith(FORCED_ANSWER)
            text = f" {answer}." if forced else " 90" if request.prefix else f"I add one to {number} <think>"
            for sample in range(request.first_sample, request.first_sample + request.n):
                yield Completion(request.key, sample, text, "stop", completion_tokens=1)


def test_right_answers_of_the_model_itself_are_put_into_tags(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    lines = [{"question": f"{n} plus one?", "answer": n + 1} for n in range(10)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    task = {"task": "file", "task_settings": {"path": str(path)}, "size": 10}
    small = {"prompts": 5, "group": 2, "micro_batch": 1, "seed": -3}
    recipe = load_recipe("tiny-arms-brier", task | small).recipe
    task_set = load("file", "train", path=str(path))
    assert choose_source(WarmUp(), task_set.problems) == "samples"
    kept, counts = samples(recipe, task_set, task_set.problems, Prose(), tmp_path, room=8)
    assert [one.problem.question for one in kept] == [f"{n} plus one?" for n in range(0, 10, 2)]
    assert [one.answer for one in kept] == [str(n + 1) for n in range(0, 10, 2)]
    assert kept[0].steps == "I add one to 0"
    assert counts == {"sampled": 40, "right": 20, "repaired": 5}
    found, _ = rows(recipe, WarmUp(), kept)
    assert found[0]["completion"].startswith("<think>I add one to 0</think><answer>1</answer><confidence>0.")


def test_a_model_learns_from_its_own_right_answers(recipe: Path, tmp_path: Path) -> None:
    """It keeps the tags of another format, and knows one answer."""
    model = save(writing_model("rlvr", strength=10.0), tmp_path / "start")
    path = tmp_path / "fours.jsonl"
    lines = [{"question": f"{n} from {n + 4 + n % 2}?", "answer": 4 + n % 2} for n in range(136)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    warm = WARM | {"examples": 128, "held_out": 8, "epochs": 6}
    changes = {"warm_up": warm, "task_settings": {"path": str(path), "solution": ""}}
    report = warm_up(resolve(recipe, **changes, model=model), tmp_path / "warm", say=lambda line: None)
    assert report["settings"]["source"] == "samples"
    assert report["before"]["well_formed"] == 0
    assert report["after"]["well_formed"] >= 6
    taught = [json.loads(line) for line in (tmp_path / "warm" / "sft.jsonl").read_text().splitlines()]
    assert report["responses"]["kept"] == report["responses"]["repaired"] == len(taught)
    assert 55 <= len(taught) <= 70  # half of the answers are 4
    assert {parse(line["completion"], "confidence").answer for line in taught} == {"4"}
    changes["warm_up"] = warm | {"examples": 16}
    silent = resolve(recipe, **changes, max_completion_tokens=30)  # with random weights
    with pytest.raises(RlcrError, match="no response to teach from: 16 problems, 64 sampled, 0 right"):
        warm_up(silent, tmp_path / "none", say=lambda line: None)


def test_too_few_problems(recipe: Path, tmp_path: Path) -> None:
    with pytest.raises(RlcrError, match=r"warm-up \(warm_up.examples=800, warm_up.held_out=100\): file: 900"):
        warm_up(resolve(recipe), tmp_path / "warm")
    with pytest.raises(RlcrError, match="0 of 112 prompts are no longer than max_prompt_tokens = 5"):
        warm_up(resolve(recipe, warm_up=WARM, max_prompt_tokens=5), tmp_path / "warm")
    with pytest.raises(RlcrError, match="longer than 1064 tokens, or its response than 40|than 3; raise"):
        warm_up(resolve(recipe, warm_up=WARM, max_completion_tokens=3), tmp_path / "warm")


def test_settings_are_checked(recipe: Path) -> None:
    for changes, said in [
        ({"warm_up.example": 1}, r"unknown setting warm_up.example \(override\): did you mean examples"),
        ({"warm_up.lr": -1}, "warm_up.lr: must be greater than 0"),
        ({"warm_up.confidence": [0.9, 0.1]}, "warm_up.confidence: 0.9 to 0.1 is empty"),
        ({"warm_up.source": "expert"}, "warm_up.source: must be 'auto', 'solutions' or 'samples'"),
    ]:
        with pytest.raises(RlcrError, match=said):
            load_recipe(recipe, changes)
    assert load_recipe("smollm2-rlcr", {"warm_up": None}).recipe.warm_up is None
    assert load_recipe("smollm2-rlvr").recipe.warm_up == load_recipe("smollm2-rlcr").recipe.warm_up
    assert set(FORMATS) == {"rlvr", "confidence", "rlcr"}  # what is rendered above


# --- without one ------------------------------------------------------------------------------------


@pytest.mark.parametrize("processes", [1, 2])
def test_a_first_update_without_a_well_formed_response_stops(
    processes: int, recipe: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    program = ["-m", "rlcr", "train", str(recipe), "entropy=0.01", "--out", str(out)]
    alone = [*forks.python(forks.TRAINING), *program]
    call = alone if processes == 1 else forks.torchrun(*program, processes=processes)
    done = subprocess.run(call, capture_output=True, text=True, timeout=600, check=False)
    lines = [line for line in done.stderr.splitlines() if line.startswith("rlcr: ")]
    # None waits for another; torchrun may end the second before it has said so.
    assert 1 <= len(lines) <= processes
    assert "rlcr: none of the 12 responses of the first update is well-formed (" in lines[0]
    assert "`rlcr warm-up mine.yaml --out WARM` teaches the model the tags" in lines[0]
    assert done.returncode == (2 if processes == 1 else 1)  # torchrun has a status of its own
    assert not [*out.glob("model"), *out.glob("checkpoints/*"), *out.glob("updates.jsonl")]
    if processes > 1:
        return
    with pytest.raises(RlcrError, match="none of the 12 responses"):
        train_run(resolve(recipe, entropy=0.01), out, resume=True)


def test_a_warm_up_that_was_too_short_is_named(recipe: Path, tmp_path: Path) -> None:
    short = {"examples": 8, "held_out": 2, "batch": 8, "lr": 1e-6}
    with pytest.raises(
        RlcrError, match="is well-formed .*: its warm-up was too short: raise warm_up.examples"
    ):
        train_run(resolve(recipe, warm_up=short), tmp_path / "run")
