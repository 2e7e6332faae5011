"""The plan of the evidence: steps that can be made in their order, by commands and recipes that exist."""

import subprocess
import sys
from pathlib import Path

import pytest
from results.evidence import tasks
from results.evidence.__main__ import chosen_steps, run
from results.evidence.plan import SEEDS, TASKS, Step, recipe_of, steps

from rlcr.training.recipes import load_recipe, parse_override

STEPS = list(steps("somewhere/smollm2"))
REPOSITORY = Path(__file__).parents[2]


def test_every_step_comes_after_what_it_needs_and_nothing_is_made_twice() -> None:
    before: set[str] = set()
    for step in STEPS:
        assert before.issuperset(step.needs), step.name
        before.add(step.name)
    assert len(before) == len(STEPS) == len({step.makes for step in STEPS})
    trained = sum(len(seeds) for variants in SEEDS.values() for seeds in variants.values())
    assert sum(step.command[:2] == ("rlcr", "train") for step in STEPS) == trained


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the recipes and small problem files: which problems they hold does not matter here."""
    folder = tmp_path_factory.mktemp("repository")
    (folder / "results").symlink_to(REPOSITORY / "results")
    problems = tasks.chains({"test": 1, "validation": 1, "warm-up": 1, "train": 1})
    tasks.write(folder / TASKS, dict.fromkeys(SEEDS, problems))
    return folder


@pytest.mark.parametrize(
    "step", [s for s in STEPS if s.command[1] in ("train", "warm-up")], ids=lambda step: step.name
)
def test_recipes_take_the_settings_of_their_step(
    step: Step, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    _, _, recipe, *settings = step.command
    overrides = dict(parse_override(setting) for setting in settings if "=" in setting)
    resolved = load_recipe(recipe, overrides).recipe
    others = {"start-analysis": "rlcr", "start-abstaining": "rlvr-short"}
    assert resolved.method == next(
        (others[name] for name in (step.name, *step.needs) if name in others), "rlcr-short"
    )
    if step.command[1] == "train":
        assert resolved.warm_up is None
        # What the start was taught is what is trained.
        [start] = [one for one in STEPS if one.name in step.needs]
        taught = load_recipe(start.command[2]).recipe
        assert resolved.model == str(start.makes)
        assert (taught.method, taught.prompt) == (resolved.method, resolved.prompt)
        assert taught.max_completion_tokens == resolved.max_completion_tokens


@pytest.mark.parametrize("family", SEEDS)
def test_what_is_trained_on_is_written_by_tasks(
    family: str, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    assert load_recipe(recipe_of(family)).recipe.task == str(TASKS / family / "train.jsonl")


def make(path: Path, *needs: str, fails: bool = False) -> Step:
    code = "import sys; sys.exit(3)" if fails else f"open({str(path)!r}, 'w')"
    (path.parent / f"step_{path.name}.py").write_text(code)
    return Step(path.name, (f"step_{path.name}",), path, needs)


def test_what_is_missing_is_run_and_what_failed_holds_up_only_what_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "evidence").mkdir(parents=True)
    chosen = [
        make(tmp_path / "a"),
        make(tmp_path / "b", fails=True),
        make(tmp_path / "c", "a"),
        make(tmp_path / "d", "b"),
    ]
    assert run(chosen, 2, float("inf")) == ["b"]
    assert [step.done for step in chosen] == [True, False, True, False]
    make(tmp_path / "b")
    assert run(chosen, 1, float("inf")) == []
    assert all(step.done for step in chosen)
    assert [step.name for step in chosen_steps(chosen, "d")] == ["b", "d"]


def test_the_list_runs_nothing(tmp_path: Path) -> None:
    call = [sys.executable, "-m", "results.evidence", "--list", "--only", "reading/rlcr-9"]
    environment = {
        "RLCR_SMOLLM2": "somewhere",
        "PATH": "",
        "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'src'}",
    }
    printed = subprocess.run(call, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    names = [line.split("  ", 1)[1].strip() for line in printed.stdout.splitlines()]
    assert names == [
        "tasks",
        "start",
        "reading/rlcr-9",
        "eval reading/rlcr-9",
        "samples reading/rlcr-9",
        "vote reading/rlcr-9",
        "coherence reading/rlcr-9",
    ]
    assert not list(tmp_path.iterdir())
