"""What is kept of a run, and what is computed from it."""

import json
import shutil
import subprocess
import sys
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from results.evidence import collect, page, tasks
from results.evidence.outcomes import TIMES, keep
from results.evidence.page import keep_answers
from results.evidence.plan import FAMILIES, OUTCOMES, START, TASKS, steps
from tests.evaluate.fake_sampler import FakeSampler

from rlcr import metrics
from rlcr.errors import RlcrError
from rlcr.evaluate import Settings, evaluate
from rlcr.runs.store import open_run
from rlcr.sample import Completion, Sampling

STEPS = list(steps("somewhere/smollm2"))
BY_NAME = {step.name: step for step in STEPS}


class Adds(FakeSampler):
    """Answers chain sums."""

    def sample(self, requests: Any, sampling: Sampling) -> Generator[Completion, None, None]:
        for request in requests:
            yield Completion(request.key, 0, added(request.messages[-1]["content"]), "stop")


def added(text: str) -> str:
    """Right where the last number is odd, and surer there."""
    terms = text.rpartition(":")[2].rpartition("=")[0].split()
    right = int(terms[-1]) % 2
    answer = eval(" ".join(terms)) + (0 if right else 1)
    return f"<think>so</think><answer>{answer}</answer><confidence>{0.75 if right else 0.5}</confidence>"


def renamed(family: str, splits: tasks.Splits) -> tasks.Splits:
    """The same problems by other names, for a family whose problems are not the point."""
    return {
        split: [replace(one, problem=replace(one.problem, id=f"{family}/{one.problem.id}")) for one in drawn]
        for split, drawn in splits.items()
    }


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository in which RLVR and RLCR were evaluated with seed 0, by the same answers."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RLCR_SMOLLM2", "somewhere/smollm2")
    problems = tasks.chains({"test": 12, "validation": 1, "warm-up": 1, "train": 1})
    tasks.write(TASKS, {family: renamed(family, problems) for family in FAMILIES})
    for name in ("start", "chains/rlvr-7", "chains/rlcr-7"):
        step = BY_NAME[f"eval {name}"]
        given = step.command[step.command.index("--task") + 1].split(",")
        assert step.out
        evaluate(Settings(model="fake", tasks=tuple(given), method="rlcr-short"), step.out, sampler=Adds([]))
    for name in ("chains/rlvr-7", "chains/rlcr-7"):
        run = START.parents[1] / name
        run.mkdir(parents=True)
        (run / "training.json").write_text(json.dumps({"settings": {"seed": 0}}))
        (run / "updates.jsonl").write_text(
            '{"update": 1, "reward": 0.123456}\n{"update": 2, "reward": null}\n'
        )
    START.parent.mkdir(parents=True)
    (START.parent / "warm-up.json").write_text(json.dumps({"settings": {}, "before": {}, "after": {}}))
    TIMES.write_text('{"step": "chains/rlcr-7", "seconds": 5}\n{"step": "chains/rlcr-7", "seconds": 6.5}\n')
    return tmp_path


def test_an_outcome_holds_what_tables_need(folder: Path) -> None:
    step = BY_NAME["eval chains/rlcr-7"]
    keep(step, STEPS)
    outcome = collect.read_outcome("chains/rlcr-7")
    assert outcome
    assert list(outcome["commands"]) == ["tasks", "start", "chains/rlcr-7", "eval chains/rlcr-7"]
    assert "$RLCR_SMOLLM2" in outcome["commands"]["start"]
    assert outcome["seconds"]["chains/rlcr-7"] == 11.5
    assert outcome["training"]["curves"]["reward"] == [0.1235, None]
    assert len(outcome["data"]) == 3
    kept = outcome["answers"]["chains"]
    assert len(kept["correct"]) == len(kept["confidence"]) == 12
    assert [0.75 if verdict == "1" else 0.5 for verdict in kept["correct"]] == kept["confidence"]
    # What is kept is not run again.
    assert step.kept == OUTCOMES / "chains" / "rlcr-7.json"


def test_numbers_are_those_of_the_records(folder: Path) -> None:
    for name in ("start", "chains/rlvr-7", "chains/rlcr-7"):
        keep(BY_NAME[f"eval {name}"], STEPS)
    found = collect.collect(STEPS)
    outcome = collect.read_outcome("chains/rlcr-7")
    assert outcome
    correct, confidence, _ = collect.answers([outcome], "chains")
    direct = metrics.summary(correct, confidence).metrics["brier"].value
    assert found["tables"]["chains"]["rlcr"]["chains"]["brier"]["value"] == direct
    assert found["differences"]["chains"]["seeds"] == [7]
    assert "eval chains/rlcr-8" in found["missing"]
    assert "eval chains/rlcr-7" not in found["missing"]


def test_what_is_kept_is_not_run_again(folder: Path) -> None:
    for name in ("start", "chains/rlvr-7", "chains/rlcr-7"):
        keep(BY_NAME[f"eval {name}"], STEPS)
    repository = Path(__file__).parents[2]
    environment = {"RLCR_SMOLLM2": "x", "PATH": "", "PYTHONPATH": f"{repository}:{repository / 'src'}"}
    call = [sys.executable, "-m", "results.evidence", "--list", "--only", "chains/rl"]
    printed = subprocess.run(call, env=environment, capture_output=True, text=True, check=True).stdout
    assert "eval chains/rlcr-7\n" not in printed
    assert "eval chains/rlcr-8\n" in printed


def test_the_page_is_made_of_kept_answers_alone(folder: Path) -> None:
    shown = [BY_NAME[f"eval {name}"] for name in ("start", "chains/rlvr-9", "chains/rlcr-9")]
    for step in shown:
        step.makes.parent.parent.mkdir(parents=True, exist_ok=True)
        if not step.done:
            shutil.copytree(BY_NAME["eval chains/rlcr-7"].makes.parent, step.makes.parent)
        assert step.answers
        keep_answers(step.makes.parent, step.answers)
    shutil.rmtree("runs")
    page.make(Path("page"))
    made = Path("page/report.html").read_text(encoding="utf-8")
    for name in ("start", "RLVR", "RLCR"):
        assert name in made
    graded = [record.correct for record in open_run(Path("page/RLCR")).records()]
    assert len(graded) == 12
    assert True in graded
    assert False in graded


def test_a_page_without_answers_says_which_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RlcrError, match=r"start\.jsonl.*make evidence"):
        page.make(Path("page"))
    assert not Path("page").exists()
