"""Grading again: its name stays with the run, and everything derived from the answer changes with it."""

from pathlib import Path

import pytest
from tests.evaluate.capitals import capitals, country_of, needy_reply, records_of
from tests.servers import Call, ModelServer

from rlcr.evaluate import Settings, evaluate, rescore
from rlcr.evaluate.methods import FORCED_ANSWER, FORCED_CONFIDENCE
from rlcr.evaluate.results import load_results


def test_resuming_a_rescored_run_keeps_the_name_of_its_grading(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with ModelServer(needy_reply) as server:
        settings = Settings(server.url, (capitals(tmp_path, 1),), "base")
        evaluate(settings, run)
        rescore(run, grading="paper")
        again = evaluate(settings, run, resume=True)
    assert again.settings["grading"] == load_results(run)["settings"]["grading"] == "paper"
    assert rescore(run).settings["grading"] == "paper"
    assert rescore(run, grading="strict").settings["grading"] == "strict"


def test_answer_probability_is_that_of_the_answer_that_is_graded(tmp_path: Path) -> None:
    def reply(call: Call) -> str:
        if call.prompt.endswith(FORCED_CONFIDENCE):
            return " 70"
        if call.prompt.endswith(FORCED_ANSWER):
            return " Madrid.\n\nThat"
        # The paper reads the last block anywhere, we the last one outside other blocks.
        return {
            "Spain": "no tags",
            "Italy": "<answer>Rome</answer><think>or <answer>New York</answer>?</think><confidence>1</confidence>",
        }.get(country_of(call.prompt), "<answer>Paris</answer><confidence>1</confidence>")

    with ModelServer(reply) as server:
        evaluate(Settings(server.url, (capitals(tmp_path, 1),), "base"), tmp_path / "run")

    def probabilities() -> dict[str, tuple[str, float]]:
        found = {r["id"].split("/")[1][:5]: r for r in records_of(tmp_path / "run")}
        return {name: (r["answer"], r["answer_probability"]) for name, r in found.items()}

    strict = probabilities()
    assert strict["Spain"] == ("Madrid", pytest.approx(0.904837, abs=1e-5))  # its first token: e^-0.1
    assert strict["Italy"][0] == "Rome"
    rescore(tmp_path / "run", grading="paper")
    paper = probabilities()
    assert paper["Spain"] == strict["Spain"]
    assert paper["Franc"] == strict["Franc"]
    assert paper["Italy"][0] == "New York"
    assert paper["Italy"][1] not in (None, strict["Italy"][1])
