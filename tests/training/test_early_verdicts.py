# pyright: basic
"""Verdicts that are found while others are still sampled: the same ones."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from tests.training.gradients import MIXED, error
from tests.training.updates import ChosenSampler, recipe, update

from rlcr.problem import Problem
from rlcr.training import early_verdicts
from rlcr.training.early_verdicts import EarlyVerdicts
from rlcr.verify import verify

HALF = Problem("half", "What is 1/2?", ("1/2",), "math")
TOWN = Problem("town", "Capital of France?", ("Paris",), "exact")


def test_verdicts_are_those_of_verify() -> None:
    problems = [HALF, HALF, HALF, HALF, TOWN, TOWN]
    answers = ["0.5", r"\frac{1}{3}", None, "0.5", "Paris", "Rome"]
    with EarlyVerdicts("strict") as early:
        early.begin(HALF, "0.5")
        early.begin(HALF, "0.5")
        early.begin(HALF, None)
        early.begin(TOWN, "Paris")
        assert list(early._begun) == [("half", "0.5")]  # what takes long, once
        assert early.verify(problems, answers, grading="strict") == verify(problems, answers)


def test_what_was_not_started_is_given_up(monkeypatch: Any) -> None:
    go, begun = threading.Event(), []

    def slow(problems: Any, answers: Any, *, grading: Any) -> Any:
        begun.extend(answers)
        go.wait(10)
        return verify(problems, answers, grading=grading)

    monkeypatch.setattr(early_verdicts, "verify", slow)
    monkeypatch.setattr(early_verdicts, "_THREADS", 1)
    with EarlyVerdicts("strict") as early:
        for number in range(5):
            early.begin(HALF, str(number))
    go.set()
    early._threads.shutdown(wait=True)
    assert begun in ([], ["0"])


def test_an_update_with_early_verdicts_is_the_same(tmp_path: Path, monkeypatch: Any) -> None:
    plain = update(recipe(), MIXED, tmp_path / "plain")
    events: list[str] = []
    begin, sample = EarlyVerdicts.begin, ChosenSampler.sample

    def noting(self: Any, problem: Problem, answer: str | None) -> None:
        events.append("begun")
        begin(self, problem, answer)

    def sampling(self: Any, requests: Any, given: Any) -> Any:
        for completion in sample(self, requests, given):
            yield completion
            events.append("sampled")

    monkeypatch.setattr(early_verdicts, "_SLOW", ("exact",))
    monkeypatch.setattr(EarlyVerdicts, "begin", noting)
    monkeypatch.setattr(ChosenSampler, "sample", sampling)
    early = update(recipe(), MIXED, tmp_path / "early", verifies_early=True)
    assert events == ["begun", "sampled"] * 8
    assert [r.reward for r in early.rollouts] == [r.reward for r in plain.rollouts]
    assert error(early.gradient, plain.gradient) == 0
