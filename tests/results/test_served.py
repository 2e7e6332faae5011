"""What was found with a real vLLM is what the docs say, and it holds what it promises."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOUND = json.loads((ROOT / "results" / "served.json").read_text())


def test_nothing_was_lost_and_nothing_came_twice() -> None:
    for step in ("eval", "failover"):
        assert FOUND[step]["records"] == FOUND[step]["different"] == 800
    assert FOUND["failover"]["tried_again_by_nginx"] > 0
    assert len(FOUND["failover"]["answered_by"]) == 2


def test_votes_add_up() -> None:
    for name, samples in (("one", 1), ("vote", 8)):
        assert FOUND["ask"][name]["samples"] == samples
    assert 1 < FOUND["ask"]["adaptive"]["samples"] <= 8


def test_the_docs_state_these_numbers() -> None:
    text = (ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")
    for step in ("eval", "failover"):
        found = FOUND[step]
        line = next(line for line in text.splitlines() if line.startswith(f"| `{step}`"))
        for number in (f"{found['tokens']:,}", f"{found['accuracy']:.3f}", f"{found['ece']:.3f}"):
            assert number in line, (step, number)
    failover = FOUND["failover"]
    line = next(line for line in text.splitlines() if line.startswith("| `failover`"))
    assert f"{failover['tried_again_by_nginx']} of {failover['requests']} requests" in line
