# pyright: basic
"""A verifier of the user's own: only if allowed, in training and on held-out problems, with clear mistakes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.tiny import writing_model, writing_tokenizer
from tests.training.tiny_recipe import RECIPE

import rlcr
from rlcr.errors import RlcrError
from rlcr.problem import Problem
from rlcr.runs.store import open_run
from rlcr.training.recipes import load_recipe
from rlcr.training.rollouts import read_rollouts
from rlcr.verify import CORRECT, WRONG, verify
from rlcr.verify.own import load_own

CODE = """\
def long(answer, problem):
    if answer == "x":
        return None
    if answer == "?":
        raise ValueError("what?")
    return len(answer) > 2

def number(answer, problem):
    return 0.5

everything = lambda answer, problem: True
"""


@pytest.fixture
def own_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "my_rules.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop("my_rules", None)


@pytest.mark.usefixtures("own_code")
def test_its_verdicts() -> None:
    verifier, digest = load_own("my_rules:long")
    problem = Problem("p", "", ("1",), "my_rules:long")
    found = verify([problem] * 5, ["abc", "a", None, "x", "?"], own={"my_rules:long": verifier})
    assert found[:2] == [CORRECT, WRONG]
    assert [verdict.outcome for verdict in found] == ["correct", "wrong", "wrong", "unscorable", "unscorable"]
    assert found[3].reason == "my_rules:long could not tell"
    assert found[4].reason == "the verifier failed: ValueError: what?"
    assert len(digest) == 64


@pytest.mark.usefixtures("own_code")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("my_rules.long", "not of the form my_module:function"),
        ("no_such_rules:long", "no_such_rules cannot be imported .*ModuleNotFoundError"),
        ("my_rules:lang", "my_rules has no function 'lang': did you mean long"),
    ],
)
def test_what_cannot_be_found(name: str, words: str) -> None:
    with pytest.raises(RlcrError, match=words):
        load_own(name)


@pytest.mark.usefixtures("own_code")
def test_something_other_than_a_verdict_ends_the_run() -> None:
    verifier, _ = load_own("my_rules:number")
    with pytest.raises(RlcrError, match="returned .* instead of True, False or None"):
        verify([Problem("p", "", ("1",), "my_rules:number")], ["1"], own={"my_rules:number": verifier})


@pytest.mark.usefixtures("own_code")
def test_training_and_held_out_evaluation_use_it_if_allowed(tmp_path: Path) -> None:
    writing_model(strength=9.0, max_position_embeddings=2048).save_pretrained(tmp_path / "start")
    writing_tokenizer().save_pretrained(tmp_path / "start")
    text = RECIPE.format(model=tmp_path / "start") + "verifier: my_rules:everything\n"
    (tmp_path / "mine.yaml").write_text(text)
    settings: dict[str, Any] = {"updates": 1, "eval_every": 1, "eval_size": 2}
    with pytest.raises(RlcrError, match="my_rules:everything is code of your own: --run-code"):
        rlcr.train("mine.yaml", out="run", **settings)
    assert not (tmp_path / "run").exists()
    rlcr.train("mine.yaml", out="run", run_code=True, **settings)
    formed = [rollout for rollout in read_rollouts(Path("run") / "rollouts") if rollout.well_formed]
    assert {rollout.verdict for rollout in formed} == {"correct"}
    held_out = [record for record in open_run(Path("run/evals/update-000001")).records() if record.answer]
    assert {record.verifier for record in held_out} == {"my_rules:everything"}
    assert {record.verdict for record in held_out} == {"correct"}
    # Another rule is another run.
    Path("my_rules.py").write_text(CODE + "# changed\n")
    with pytest.raises(RlcrError, match="verifier_code was"):
        rlcr.train("mine.yaml", out="run", run_code=True, resume=True, **settings)


def test_the_name_is_checked_with_the_recipe() -> None:
    with pytest.raises(RlcrError, match="'exact' is not of the form my_module:function"):
        load_recipe("hotpotqa-rlcr", {"verifier": "exact"})
