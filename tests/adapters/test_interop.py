"""`make interop`: its stored completions, its comparisons, and its table; the engines themselves are not run here."""

import asyncio
import json
import random
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from interop import table
from interop.__main__ import RESULTS
from interop.case import QUESTIONS, Case, _drawn, _total, split_thought
from interop.checks import Checks
from interop.environments import ENGINES
from interop.examples import command_line
from interop.snippets import snippet

from rlcr.adapters.core import Row, Scorer
from rlcr.adapters.example import EXAMPLES

#: Engines that are met by a few lines of the page, and what it calls them.
SNIPPETS = {
    "nemo_gym": "NeMo-Gym",
    "ms_swift": "ms-swift",
    "tinker_cookbook": "tinker-cookbook",
    "slime": "slime",
}


def test_every_adapter_has_its_engine() -> None:
    assert set(ENGINES) == set(EXAMPLES) | set(SNIPPETS)


@pytest.mark.parametrize(
    ("engine", "title", "several"),
    [
        ("verl", "verl", "actor_rollout_ref.rollout.n=32"),
        ("openrlhf", "OpenRLHF", "--rollout.n_samples_per_prompt 32"),
        ("skyrl_gym", "SkyRL", "generator.n_samples_per_prompt=32"),
    ],
)
def test_the_examples_say_what_makes_a_run_rlcr(
    engine: str, title: str, several: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The settings of the page are those of the script, which hands on what follows the model, too."""
    monkeypatch.chdir(tmp_path)
    given = " ".join(command_line(engine, "MODEL", "its.own=1"))
    section = table.PAGE.read_text(encoding="utf-8").split("## What makes a run RLCR")[1].split("\n## ")[0]
    (row,) = re.findall(rf"^\| {title} \| .*$", section, re.MULTILINE)
    settings = [
        one
        for quoted in re.findall("`([^`]+)`", row)
        for one in re.split(r" (?=--)|(?<!-) (?=\w+\.)", quoted)
    ]
    assert len(settings) >= 3
    for setting in [*settings, several, "MODEL", "its.own=1"]:
        assert setting in given


@pytest.mark.parametrize("name", SNIPPETS.values())
def test_the_lines_of_the_page_are_found_and_compile(name: str) -> None:
    compile(snippet(name), name, "exec")
    assert "rlcr.adapters" in snippet(name)
    with pytest.raises(LookupError, match="no code for nothing"):
        snippet("nothing")


def test_slimes_lines_take_a_sample_or_a_group() -> None:
    lines: dict[str, Any] = {}
    exec(snippet("slime"), lines)
    text = "<think>…</think><answer>4</answer><analysis>…</analysis><confidence>0.8</confidence>"
    one = SimpleNamespace(prompt="2 + 2?", response=text, label="4")
    assert asyncio.run(lines["reward"](None, one)) == pytest.approx(0.98)
    assert asyncio.run(lines["reward"](None, [one, one], evaluation=True)) == pytest.approx([0.98, 0.98])
    # A chat template that opens the thought, and a label with more than the gold.
    opened = text.removeprefix("<think>")
    label = '{"gold": "4.0", "verifier": "math"}'
    begun = SimpleNamespace(prompt="2 + 2?<think>\n", response=opened, label=label)
    assert asyncio.run(lines["reward"](None, begun)) == pytest.approx(0.98)


def test_a_thought_is_split_off_as_by_a_server() -> None:
    assert split_thought("<think>a</think>b</think>") == ("a", "b</think>")
    for whole in ("b", "<think>a", "<think></think>b", "b<think>a</think>"):
        assert split_thought(whole) == ("", whole)


def test_the_table_of_the_docs_is_that_of_the_results() -> None:
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    assert "\n".join(table.lines(results)) in table.PAGE.read_text(encoding="utf-8")


def test_the_completions_are_the_same_every_time_and_of_every_kind() -> None:
    golds, completions = _drawn(random.Random(0))
    assert (golds, completions) == _drawn(random.Random(0))
    assert [len(golds), sum(map(len, completions))] == [QUESTIONS, 200]
    # Integers only, so that no formula has to be compared.
    rows = [Row(text, "7") for texts in completions for text in texts]
    found = Scorer(verifier="exact").score(rows)
    assert {one.well_formed for one in found} == {True, False}
    assert "" in golds


def test_the_formula_of_the_comparison_is_that_of_the_reward() -> None:
    text = "<think>…</think><answer>4</answer><analysis>…</analysis><confidence>0.8</confidence>"
    for gold, verdict in (("4", "correct"), ("5", "wrong"), ("", "unscorable")):
        line = {"well_formed": True, "verdict": verdict, "confidence": 0.8}
        assert Scorer().score_one(text, gold).total == pytest.approx(_total(line), abs=1e-15)
    assert _total({"well_formed": False}) == Scorer().score_one("4", "4").total


def test_a_difference_is_seen(tmp_path: Path) -> None:
    checks = Checks(tmp_path / "out.json", "rlcr")
    checks.equal("same", [1.0, None], [1.0, None])
    checks.equal("far", [1.0], [1.1])
    checks.equal("absent", [None, 1.0], [0.0, 1.0])
    assert [check["passed"] for check in checks.done] == [True, False, False]
    assert json.loads((tmp_path / "out.json").read_text())["checks"] == checks.done
    case = Case("", ["1"], [["a", "b"]], [["wrong", "unscorable"]], [[None, 0.5]], [[-0.5, None]], {})
    assert case.totals_or(0.0) == [-0.5, 0.0]
