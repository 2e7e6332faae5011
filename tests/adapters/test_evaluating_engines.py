"""Adapters of engines that evaluate, called as each engine calls them; and the copies of examples."""

import asyncio
import math
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.adapters.engines import adapter_of
from tests.command import rlcr as command

import rlcr
from rlcr.adapters import lm_eval
from rlcr.adapters.example import EXAMPLES, copy_example
from rlcr.errors import RlcrError


def text(answer: str, confidence: str = "0.8") -> str:
    return rlcr.FORMATS["rlcr"].render(think="…", answer=answer, analysis="…", confidence=confidence)


QUESTIONS = [  # samples and gold
    ([text("Paris"), text("Rome", "0.4")], "Paris"),
    ([text("Rome", "0.9"), "no tags"], "Paris"),
    ([text("Paris", "80%"), text("Paris", "")], ["Paris", "Lutetia"]),
    ([text("Rome", "0.2"), text("x")], ""),
]


def expected() -> dict[str, Any]:
    scores = rlcr.score([texts for texts, _ in QUESTIONS], [gold for _, gold in QUESTIONS])
    return {name: scores.measurement.overall.metrics[name] for name in ("accuracy", "auroc", "brier", "ece")}


def test_lm_eval_has_the_metrics_of_rlcr_score() -> None:
    process = lm_eval.make_process_results(gold="answer")
    results = [process({"answer": gold}, [texts]) for texts, gold in QUESTIONS]
    assert set(results[0]) == {"accuracy", "auroc", "brier", "ece"}
    for name, estimate in expected().items():
        assert getattr(lm_eval, name)([result[name] for result in results]) == estimate.value


def test_lm_eval_takes_a_single_response_and_says_nan_for_nothing() -> None:
    process = lm_eval.make_process_results(choices="options", question="q", verifier="choice")
    item = process({"gold": "B", "options": ["bank", "mall"], "q": "Where?"}, [text("mall")])["accuracy"]
    assert item == [[True, 0.8]]
    assert lm_eval.accuracy([item]) == 1.0
    assert math.isnan(lm_eval.auroc([item]))
    assert math.isnan(lm_eval.brier([[[None, 0.5]]]))
    with pytest.raises(RlcrError, match=r"no column 'gold' \(gold\)"):
        process({"options": [], "q": ""}, [text("mall")])


def test_lm_evals_example_grades_each_doc_by_its_verifier(tmp_path: Path) -> None:
    copy_example("lm_eval", tmp_path / "new")
    utils = runpy.run_path(str(tmp_path / "new" / "utils.py"))
    doc = {"question": "Where?", "gold": ["A) bank"], "verifier": "choice", "instruction": "A letter."}
    doc["extras"] = {"choices": {"A": "bank", "B": "mall"}}
    assert utils["process_results"](doc, [[text("A"), text("mall")]])["ece"] == [[True, 0.8], [False, 0.8]]
    assert utils["doc_to_text"](doc).endswith("\n\nWhere?\n\nA letter.\n")
    plain = {"question": "2 + 2?", "gold": ["1/2"], "verifier": "math", "instruction": "", "extras": None}
    assert utils["process_results"](plain, [text("0.5")])["ece"] == [[True, 0.8]]
    assert utils["doc_to_text"](plain).endswith("\n\n2 + 2?\n")


def inspect_state(completion: object, **fields: Any) -> SimpleNamespace:
    message = SimpleNamespace(role="assistant", content=completion)
    output = SimpleNamespace(choices=[message], message=message)
    given = {"output": output, "input_text": "Capital?", "metadata": {}, "choices": []}
    return SimpleNamespace(**{**given, **fields})


def test_inspect_scores_and_measures_as_rlcr_does() -> None:
    with adapter_of("inspect_ai") as adapter:
        score = adapter.calibrated()
        scored = []
        for number, (texts, gold) in enumerate(QUESTIONS):
            target = [gold] if isinstance(gold, str) else gold
            for one in texts:
                found = asyncio.run(score(inspect_state(one), target))
                scored.append(SimpleNamespace(score=found, sample_id=number))
        assert [math.isnan(one.score.value) for one in scored] == [False] * 6 + [True] * 2
        assert scored[-1].score.explanation == "the problem has no gold"
        measured = adapter.calibration()([one for one in scored if not math.isnan(one.score.value)])
        for name, estimate in expected().items():
            found = (measured[name], measured[f"{name}_low"], measured[f"{name}_high"])
            assert found == (estimate.value, estimate.low, estimate.high)
        assert measured["coverage"] == pytest.approx(4 / 6)


def test_inspect_rejoins_thoughts_and_reads_choices() -> None:
    with adapter_of("inspect_ai") as adapter:
        score = adapter.calibrated(verifier="choice")
        thought = SimpleNamespace(type="reasoning", reasoning="…", text="<think>…</think>")
        rest = SimpleNamespace(type="text", text=text("mall").removeprefix("<think>…</think>"))
        options = [SimpleNamespace(value="bank"), SimpleNamespace(value="mall")]
        found = asyncio.run(score(inspect_state([thought, rest], choices=options), ["B"]))
        assert (found.value, found.metadata["well_formed"]) == (1.0, True)
        by_letter = {"choices": {"A": "bank", "B": "mall"}}  # as the tasks of rlcr have them
        assert asyncio.run(score(inspect_state(text("mall"), metadata=by_letter), ["B"])).value == 1.0
        other = inspect_state(text("1/2"), metadata={"verifier": "math"})
        assert asyncio.run(score(other, ["0.5"])).value == 1.0
        silent = inspect_state("", output=SimpleNamespace(choices=[]))
        assert math.isnan(asyncio.run(score(silent, ["B"])).value)


@pytest.mark.parametrize("name", list(EXAMPLES))
def test_an_example_is_whole(name: str, tmp_path: Path) -> None:
    files = copy_example(name, tmp_path / "new")
    assert {"README.md", "problems.jsonl"} < {path.name for path in files}
    for path in files:
        if path.suffix == ".py":
            compile(path.read_text(encoding="utf-8"), path, "exec")
    prepare = tmp_path / "new" / "prepare.py"
    if prepare.exists():
        subprocess.run([sys.executable, prepare], cwd=prepare.parent, check=True)
        assert list(prepare.parent.glob("train.*"))


def test_an_example_replaces_nothing_and_has_a_name(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(RlcrError, match="exists and is not an empty folder"):
        copy_example("trl", tmp_path)
    with pytest.raises(RlcrError, match="no example for 'verI': did you mean verl?"):
        copy_example("verI", tmp_path / "new")


def test_the_command_names_the_files(tmp_path: Path) -> None:
    done = command("adapters", "example", "openrlhf", "--out", tmp_path / "new")
    assert done.returncode == 0
    assert str(tmp_path / "new" / "reward_func.py") in done.stdout


def test_the_folder_of_an_example_is_an_option(tmp_path: Path) -> None:
    refused = command("adapters", "example", "trl", tmp_path / "new")
    assert (refused.returncode, f"with --out {tmp_path / 'new'}" in refused.stderr) == (2, True)
    made = command("adapters", "example", "trl", "--out", tmp_path / "new")
    assert (made.returncode, (tmp_path / "new").is_dir()) == (0, True)
