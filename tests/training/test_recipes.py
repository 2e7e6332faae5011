"""Recipes: what the files say, how they become settings, and what is refused before a model is loaded."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import rlcr.training.recipes
from rlcr.cli import training
from rlcr.errors import RlcrError
from rlcr.problem import Problem
from rlcr.training.recipes import RECIPES, load_recipe, parse_override
from rlcr.training.recipes.checks import (
    check_micro_batch,
    check_out,
    check_problems,
    check_start,
    prompt_of,
    reward_of,
)
from rlcr.training.recipes.reading import read
from rlcr.training.recipes.settings import Recipe

FOLDER = Path(rlcr.training.recipes.__file__).parent
Write = Callable[[str], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a recipe of the user's own; gives its path."""

    def write_recipe(text: str, name: str = "my.yaml") -> str:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return str(tmp_path / name)

    return write_recipe


def refused(name: str, overrides: dict[str, Any] | None = None) -> str:
    with pytest.raises(RlcrError) as error:
        load_recipe(name, overrides)
    return str(error.value)


# --- the files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_resolves(name: str) -> None:
    found = load_recipe(name)
    assert found.name == name
    assert found.recipe.about
    # Every setting is there once, each with an origin.
    names = [setting.name for setting in found.settings]
    assert len(set(names)) == len(names)
    assert {n.split(".")[0] for n in names} == set(Recipe.model_fields)
    origins = {setting.origin for setting in found.settings}
    assert all(o in ("recipe", "default") or re.fullmatch(r"like [a-z0-9-]+", o) for o in origins)


@pytest.mark.parametrize("name", RECIPES)
def test_every_number_in_a_recipe_has_its_source(name: str) -> None:
    text = read(FOLDER / f"{name}.yaml", name)
    for key, place in text.places.items():
        value: Any = text.values
        for part in key.split("."):
            value = value[part]
        if isinstance(value, int | float) and not isinstance(value, bool):
            assert place.source.startswith(("paper", "authors", "ours")), f"{name}: {key}"


@pytest.mark.parametrize("name", RECIPES)
def test_ours_read_the_same_with_plain_yaml(name: str) -> None:
    # Whoever opens one of our files with another tool gets the same numbers.
    path = FOLDER / f"{name}.yaml"
    assert yaml.safe_load(path.read_text(encoding="utf-8")) == read(path, name).values


def test_the_runs_of_the_paper_are_all_there() -> None:
    wanted = {f"hotpotqa-{n}" for n in ("rlcr", "rlvr", "rlcr-log", "rlcr-spherical", "calibration-only",
                                        "calibration-masked", "abstention")}  # fmt: skip
    wanted |= {"bigmath-rlcr", "bigmath-rlvr", "bigmath-sft-rlcr", "arms-brier", "arms-log"}
    wanted |= {f"{model}-{n}" for model in ("olmo2", "qwen3", "smollm2") for n in ("rlcr", "rlvr")}
    wanted |= {f"tiny-arms-{n}" for n in ("rlvr", "brier", "log", "calibration-only")}
    wanted |= {f"{t}-{n}-authors-config" for t in ("hotpotqa", "bigmath") for n in ("rlcr", "rlvr")}
    assert wanted <= set(RECIPES)


def test_the_numbers_of_the_paper() -> None:
    hotpot, math = load_recipe("hotpotqa-rlcr").recipe, load_recipe("bigmath-rlcr").recipe
    assert (hotpot.lr, hotpot.max_completion_tokens, hotpot.size, hotpot.method) == (
        1e-6,
        1536,
        20_000,
        "rlcr-long",
    )
    assert (math.lr, math.max_completion_tokens, math.size, math.method) == (5e-6, 4096, 15_000, "rlcr")
    for recipe in (hotpot, math):
        assert (recipe.completions, recipe.group, recipe.temperature) == (2048, 32, 0.7)
        assert (recipe.schedule, recipe.warmup, recipe.epochs) == ("constant_with_warmup", 0.1, 1)
        assert (recipe.loss, recipe.kl, recipe.entropy, recipe.credit) == ("update", 0, 0, "all")
    assert hotpot.total_updates(20_000) == 312


def test_the_numbers_of_the_authors_configs() -> None:
    for name in ("hotpotqa-rlcr", "hotpotqa-rlvr"):
        paper, config = load_recipe(name).recipe, load_recipe(f"{name}-authors-config").recipe
        changed = {"about": config.about, "warmup": 0.05, "loss": "micro-batch"}
        assert config == paper.model_copy(update=changed)
    for name in ("bigmath-rlcr", "bigmath-rlvr", "bigmath-sft-rlcr"):
        config = load_recipe(f"{name}-authors-config").recipe
        assert (config.completions, config.micro_batch, config.size, config.epochs) == (2304, 6, 30_000, 0.5)
        assert (config.schedule, config.warmup, config.mask_truncated) == ("linear", 0.2, True)
        assert config.loss == "micro-batch"


@pytest.mark.parametrize(
    ("rlcr", "rlvr"),
    [(n, n.replace("rlcr", "rlvr")) for n in RECIPES if n.endswith("-rlcr") and "sft" not in n],
)
def test_rlvr_is_rlcr_but_for_prompt_and_reward(rlcr: str, rlvr: str) -> None:
    one, other = load_recipe(rlcr).recipe, load_recipe(rlvr).recipe
    changed: dict[str, Any] = {"about": other.about, "method": "rlvr", "reward": "rlvr"}
    if one.credit == "expected":  # which needs a confidence; its learning rate is no good without one
        changed |= {"credit": "all", "confidence_entropy": 0, "confidence_replay": 0}
        changed |= {"method": "rlvr-short", "lr": 4e-4, "updates": 48}
    assert other == one.model_copy(update=changed)


def test_prompts_and_rewards_of_the_baselines() -> None:
    masked = load_recipe("hotpotqa-calibration-masked").recipe
    assert (masked.credit, masked.after) == ("analysis+confidence", "hotpotqa-rlvr")
    assert set(reward_of(masked).weights) == {"format", "calibration"}
    abstention = load_recipe("hotpotqa-abstention").recipe
    assert (prompt_of(abstention).name, abstention.method, abstention.after) == (
        "abstain",
        "abstention",
        None,
    )
    # The toy has no analysis: the reward takes the tag set of the prompt.
    assert reward_of(load_recipe("arms-brier").recipe).format == "confidence"


def test_the_recipes_are_in_the_wheel(tmp_path: Path) -> None:
    builder = pytest.importorskip("hatchling.builders.wheel")
    from zipfile import ZipFile

    root = Path(__file__).parents[2]
    (wheel,) = builder.WheelBuilder(str(root)).build(directory=str(tmp_path))
    names = set(ZipFile(wheel).namelist())
    assert {f"rlcr/recipes/{name}.yaml" for name in RECIPES} <= names


# --- origins, likeness, overrides -------------------------------------------------------------------


def test_each_setting_says_where_it_comes_from(write: Write) -> None:
    mine = write("like: hotpotqa-rlvr\nlr: 2e-6  # my own trials\nlora: {rank: 4}  # small\n")
    found = load_recipe(mine, {"group": 16, "lora.alpha": 8})
    got = {name: (s.value, s.origin, s.source) for s in found.settings for name in [s.name]}
    assert got["lr"] == (2e-6, "recipe", "my own trials")
    assert got["lora.rank"] == (4, "recipe", "small")
    assert got["lora.alpha"] == (8.0, "override", "")
    assert got["lora.dropout"] == (0.0, "default", "")
    assert got["reward"] == ("rlvr", "like hotpotqa-rlvr", "paper, B.2")
    assert got["temperature"] == (0.7, "like hotpotqa-rlcr", "paper, B.2")
    assert got["group"] == (16, "override", "")
    assert got["weight_decay"] == (0.0, "default", "")
    assert found.name == "my"


def test_likeness_has_one_level(write: Write, tmp_path: Path) -> None:
    write("like: hotpotqa-rlcr\nlr: 1e-6\n", "base.yaml")  # type: ignore[call-arg]
    mine = write("like: base.yaml\n")
    assert refused(mine) == (
        f"{mine}, line 1: base.yaml is itself like hotpotqa-rlcr; one level only: be like hotpotqa-rlcr instead"
    )
    alone = yaml.safe_load((FOLDER / "hotpotqa-rlcr.yaml").read_text(encoding="utf-8"))
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(alone | {"prompts": 32}), encoding="utf-8")
    assert load_recipe(mine).recipe.prompts == 32
    # Every recipe of ours keeps to it.
    for name in RECIPES:
        like = read(FOLDER / f"{name}.yaml", name).values.get("like")
        assert like is None or "like" not in read(FOLDER / f"{like}.yaml", like).values


def test_a_description_is_not_that_of_a_run_with_another_model_or_task(write: Write) -> None:
    same = load_recipe(write("like: hotpotqa-rlcr\nlr: 1e-5\n"))
    assert "Qwen2.5-7B" in same.recipe.about
    for change in ("model: my/model", "task: gsm8k\nsize: null"):
        other = load_recipe(write(f"like: hotpotqa-rlcr\nmethod: rlcr\n{change}\n"))
        assert (other.recipe.about, other.setting("about").origin) == ("", "default")
    assert load_recipe("hotpotqa-rlcr", {"model": "my/model"}).recipe.about == ""
    own = load_recipe(write("like: hotpotqa-rlcr\nabout: Mine\nmodel: my/model\n"))
    assert own.recipe.about == "Mine"
    assert load_recipe("hotpotqa-calibration-masked", {"model": "runs/rlvr/model"}).recipe.about


def test_nested_settings_by_dotted_names(write: Write) -> None:
    assert load_recipe("hotpotqa-rlcr", {"lora.rank": 8}).recipe.lora.rank == 8  # type: ignore[union-attr]
    mine = write("like: bigmath-rlcr\nlora: {rank: 4}\nweights: {format: 1}\n")
    assert load_recipe(mine, {"lora": None}).recipe.lora is None
    assert load_recipe(mine, {"weights": None}).recipe.weights == {}
    found = load_recipe(mine, {"weights.calibration": 2, "task_settings.min_solve_rate": 0.1}).recipe
    assert found.weights == {"format": 1, "calibration": 2}
    assert found.task_settings == {"max_solve_rate": 0.70, "min_solve_rate": 0.1}
    assert reward_of(found).weights == {"format": 1, "correctness": 0.5, "calibration": 2}


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e-6", 1e-6), ("1E5", 1e5), (".5", 0.5), ("010", 10), ("-3", -3), ("off", "off"), ("no", "no"),
     ("true", True), ("null", None), ("", None), ("a=b", "a=b"), ("'1'", "1"), ("1:30", "1:30"), ("{a: 1}", {"a": 1})],
)  # fmt: skip
def test_values_are_yaml_without_its_old_traps(text: str, value: Any) -> None:
    got = parse_override(f"key={text}")
    assert got == ("key", value)
    assert type(got[1]) is type(value)


def test_an_override_must_be_a_pair() -> None:
    for text in ("lr", "=3", "lr=[1"):
        with pytest.raises(RlcrError):
            parse_override(text)


# --- what is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("like: hotpotqa-rlcr\n\nlr: -1\n", "lr: must be greater than 0, got -1 ({}, line 3)"),
        ("like: hotpotqa-rlcr\nlearning_rate: 1\n", "unknown setting learning_rate ({}, line 2): did you mean lr?"),
        ("like: hotpotqa-rlcr\nlora:\n  rang: 4\n", "unknown setting lora.rang ({}, line 3): did you mean rank?"),
        ("like: hotpotqa-rlcr\nlora:\n  rank: 0\n", "lora.rank: must be greater than or equal to 1, got 0 ({}, line 3)"),
        ("like: hotpotqa-rlcr\nlr: 1\nlr: 2\n", "{}, line 3: lr is set twice"),
        ("like: hotpotqa-rlcr\nlr: [1\n", "{}, line 3: not YAML: expected ',' or ']', but got '<stream end>'"),
        ("like: [a]\n", "{}, line 1: like must be the name of a recipe or a file, got ['a']"),
        ("just text\n", "{}: expected lines of the form `setting: value`"),
        ("", "{}: expected lines of the form `setting: value`"),
        ("model: m\ntask: arms\nmethod: rlcr\nreward: rlcr\n", "lr: missing; every recipe must say it ({})"),
        ("like: hotpotqa-rlcr\ntask: hotpot\n", "{}: unknown task 'hotpot': did you mean hotpotqa?"),
    ],
)  # fmt: skip
def test_a_bad_file_gives_file_and_line(write: Write, text: str, message: str) -> None:
    mine = write(text)
    assert refused(mine).startswith(message.format(mine))


def test_a_file_that_is_like_nothing_known(write: Write) -> None:
    mine = write("like: hotpotqa-rlrc\n")
    assert refused(mine).startswith(f"{mine}, line 1: like: no recipe named 'hotpotqa-rlrc': did you mean")
    assert refused("hotpotqa-rlc").startswith("no recipe named 'hotpotqa-rlc': did you mean hotpotqa-rlcr?")
    assert refused("nowhere/my.yaml") == "nowhere/my.yaml: no such file"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"lr": -1, "group": 1}, "group: must be greater than or equal to 2, got 1 (override)\nlr: must be greater than 0"),
        ({"lr": float("nan")}, "lr: must be a finite number, got nan (override)"),
        ({"schedule": "step"}, "schedule: must be 'constant', 'constant_with_warmup', 'linear' or 'cosine', got 'step'"),
        ({"adam_betas": [0.9]}, "adam_betas: has too few values, got [0.9] (override)"),
        ({"difficulty.keep": [0.2, 0.8]}, "difficulty.run: missing (hotpotqa-rlcr.yaml)"),
        ({"lora.targets": 3}, "lora.targets: must be a valid string or must be a valid list, got 3 (override)"),
        ({"temprature": 1}, "unknown setting temprature (override): did you mean temperature?"),
        ({"xyz": 1}, "unknown setting xyz (override): `rlcr recipes show hotpotqa-rlcr` lists all settings"),
        ({"weights.accuracy": 1}, "hotpotqa-rlcr: reward rlcr has no part 'accuracy': known: format, correctness, calibration"),
        ({"weights.format": float("inf")}, "weights.format: must be a finite number"),
        ({"reward": "brier"}, "hotpotqa-rlcr: unknown reward 'brier'"),
        ({"method": "rlcrlong"}, "hotpotqa-rlcr: unknown method 'rlcrlong': did you mean rlcr-long?"),
        ({"split": "dev"}, "hotpotqa-rlcr: task: hotpotqa-modified has no split 'dev'"),
        ({"eval_task": "nothing"}, "hotpotqa-rlcr: unknown task 'nothing'"),
        ({"task": "gone.jsonl"}, "hotpotqa-rlcr: task: no such file: gone.jsonl"),
        ({"task_settings.arms": 3}, "hotpotqa-rlcr: hotpotqa-modified has no setting 'arms'"),
        ({"reward": "rlvr"}, "hotpotqa-rlcr: prompt rlcr-long (method rlcr-long) asks for think, answer, analysis, confidence, but reward rlvr pays for think, answer"),
        ({"method": "rlvr"}, "hotpotqa-rlcr: prompt rlvr (method rlvr) asks for think, answer, but reward rlcr pays"),
        ({"prompt": "rlvr"}, "hotpotqa-rlcr: prompt rlvr asks for think, answer, but method rlcr-long"),
        ({"method": "rlvr", "reward": "rlvr", "credit": "decoupled"}, "hotpotqa-rlcr: credit decoupled acts on the confidence, but format rlvr has only think, answer"),
        ({"reward": "calibration-only", "credit": "decoupled"}, "hotpotqa-rlcr: credit decoupled needs a correctness reward"),
        ({"confidence_entropy": 0.01}, "hotpotqa-rlcr: confidence_entropy needs credit=expected; with credit=all use entropy"),
        ({"size": 63}, "hotpotqa-rlcr: size: 63 problems are fewer than the 64 prompts of one update: lower prompts"),
        ({"device": "gpu"}, "hotpotqa-rlcr: device: unknown device 'gpu': "),
        ({"device": "cuda:1"}, "hotpotqa-rlcr: device=cuda:1: set CUDA_VISIBLE_DEVICES=1 and device=cuda"),
        ({"dtype": "bfloat16"}, "hotpotqa-rlcr: dtype=bfloat16: steps of lr=1e-06 round away in weights held in bfloat16; dtype=auto holds weights in float32 and computes in bfloat16 on a GPU, or train adapters, which stay in float32 (lora.rank=16)"),
        ({"dtype": "float16", "lora.rank": 8}, "hotpotqa-rlcr: dtype=float16: small gradients become 0, since no loss is scaled here; dtype=auto"),
        ({"eval_split": "train"}, "hotpotqa-rlcr: eval_every: split train of hotpotqa-modified is what is trained on; name another with eval_split"),
        ({"eval_split": "dev"}, "hotpotqa-rlcr: eval_task: hotpotqa-modified has no split 'dev'"),
        ({"micro_batch": 48}, "hotpotqa-rlcr: 64 prompts x 32 = 2048 completions cannot be cut into micro-batches of 48 on 1 device: the nearest that fits is micro_batch=32"),
    ],
)  # fmt: skip
def test_bad_settings_are_one_clear_line_each(overrides: dict[str, Any], message: str) -> None:
    assert refused("hotpotqa-rlcr", overrides).startswith(message)


def test_what_is_trained_on_is_not_held_out(tmp_path: Path) -> None:
    built = tmp_path / "built.jsonl"
    built.touch()
    changes = {"task": str(built), "task_settings": None, "eval_every": 5}
    assert f"eval_every: {built} is what is trained on; name other" in refused("smollm2-rlcr", changes)
    load_recipe("smollm2-rlcr", changes | {"eval_task": "arms"})


def test_half_precision_under_adapters_is_fine() -> None:
    load_recipe("hotpotqa-rlcr", {"dtype": "bfloat16", "lora.rank": 8})


def test_kl_does_not_go_with_an_adapter(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").touch()
    load_recipe("hotpotqa-rlcr", {"model": str(tmp_path)})
    assert "which cannot be an adapter; merge it first" in refused(
        "hotpotqa-rlcr", {"model": str(tmp_path), "kl": 0.1}
    )


def test_micro_batches_on_several_devices() -> None:
    recipe = load_recipe("hotpotqa-rlcr").recipe
    check_micro_batch(recipe, 4)
    with pytest.raises(RlcrError, match="choose prompts so that 3 divides"):
        check_micro_batch(recipe, 3)


def test_a_run_after_another_needs_its_model(write: Write) -> None:
    with pytest.raises(
        RlcrError,
        match="hotpotqa-calibration-only starts from the model that hotpotqa-rlvr trained: give model=RUN/model",
    ):
        check_start(load_recipe("hotpotqa-calibration-only"))
    with pytest.raises(
        RlcrError, match="bigmath-sft trained .`rlcr sft-data` and `rlcr sft` make it.: give model="
    ):
        check_start(load_recipe("bigmath-sft-rlcr"))
    check_start(load_recipe("hotpotqa-calibration-only", {"model": "runs/rlvr/model"}))
    check_start(load_recipe(write("like: hotpotqa-calibration-only\nmodel: runs/rlvr/model\n")))
    check_start(load_recipe("hotpotqa-rlcr"))


def test_problems_that_cannot_be_learned_from() -> None:
    good = Problem("1", "?", ("4",), "math")
    check_problems([good])
    for bad, message in (
        ([], "no problems to train on"),
        ([good, Problem("2", "?", (), "math")], "1 of 2 problems have no gold answer, such as 2"),
        ([Problem("3", "?", (" ",), "math")], "1 of 1 problems have no gold answer"),
        (
            [Problem("4", "?", ("x",), "judge")],
            "problem 4 is graded by judge, which cannot reward in training",
        ),
    ):
        with pytest.raises(RlcrError, match=message):
            check_problems(bad)


def test_the_output_folder(tmp_path: Path) -> None:
    check_out(tmp_path / "new")
    with pytest.raises(RlcrError, match="nothing to resume"):
        check_out(tmp_path / "new", resume=True)
    (tmp_path / "file").touch()
    with pytest.raises(RlcrError, match="not empty, and no training was begun in it; choose another"):
        check_out(tmp_path)
    (tmp_path / "training.json").touch()
    with pytest.raises(RlcrError, match="not empty; --resume continues"):
        check_out(tmp_path)
    check_out(tmp_path, resume=True)
    with pytest.raises(RlcrError, match="names a folder"):
        check_out(tmp_path / "file")


# --- commands ---------------------------------------------------------------------------------------


def rlcr_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rlcr", *arguments], capture_output=True, text=True, timeout=120
    )


def test_listing_and_showing() -> None:
    listing = rlcr_command("recipes").stdout
    assert [line.split()[0] for line in listing.splitlines()] == list(RECIPES)
    shown = rlcr_command("recipes", "show", "hotpotqa-rlvr", "lr=2e-6").stdout
    assert re.search(r"^lr +2e-06 +override$", shown, re.M)
    assert re.search(r"^temperature +0.7 +like hotpotqa-rlcr +paper, B.2$", shown, re.M)
    assert re.search(r"^reward +0.5 format \+ 0.5 correctness$", shown, re.M)


def test_training_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    used = tmp_path / "used"
    used.mkdir()
    (used / "x").touch()
    for arguments, message in (
        (["smollm2-rlcr"], "give --out RUN"),
        (["smollm2-rlcr", "--out", str(used)], "not empty"),
        (["hotpotqa-calibration-only", "--out", str(tmp_path / "run")], "give model=RUN/model"),
        (["smollm2-rlcr", "lr=1", "lr=2", "--dry-run"], "lr is given twice"),
    ):
        done = rlcr_command("train", *arguments)
        assert done.returncode == 2
        assert message in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_training_without_its_libraries(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda package: None if package in ("torch", "trl") else object()
    )
    with pytest.raises(
        RlcrError, match=r'training needs torch, trl, which are not installed: .*pip install "rlcr\[train\]"'
    ):
        training.train("smollm2-rlcr", out=tmp_path / "run")


def test_an_interrupted_run_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rlcr.training.train_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        training.train("smollm2-rlcr", out=tmp_path / "run")
    assert f"the same command with --resume continues {tmp_path / 'run'}" in capsys.readouterr().err
