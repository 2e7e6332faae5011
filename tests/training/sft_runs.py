"""What tests of `rlcr sft` and of `rlcr warm-up` share: examples, the file they are read from, and a stop in the middle."""

import json
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from rlcr.problem import Problem
from rlcr.prompts import load_prompt, messages

COMPLETION = (
    "<think>the sum of {n} and 30</think>\n<answer>{m}</answer>\n<analysis>I am quite sure</analysis>"
)


def rows(number: int = 8) -> list[dict[str, Any]]:
    """Sums and their right answers, as `rlcr sft-data` writes them."""
    prompt = load_prompt("rlvr")  # short, so that the tests are quick
    return [
        {
            "id": f"sum/{n}",
            "method": "rlcr",
            "messages": messages(
                prompt, Problem(str(n), f"What is the sum of {n} and 30? 🙂", ("",), "math")
            ),
            "completion": COMPLETION.format(n=n, m=n + 30),
        }
        for n in range(number)
    ]


def write_data(folder: Path, lines: list[dict[str, Any]]) -> str:
    """Write the examples where `rlcr sft` looks for them; the folder."""
    folder.mkdir(exist_ok=True)
    (folder / "sft.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(folder)


def write_sums(path: Path) -> Path:
    """Sums of two numbers, a question each, with steps that even a tiny model can learn to write."""
    sums = [(a, b) for a in range(12) for b in range(12)]
    lines = [{"question": f"{a} + {b}?", "answer": a + b, "steps": "the sum"} for a, b in sums]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


class StopAt(TrainerCallback):
    """An interruption after a number of updates."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self.step:
            raise KeyboardInterrupt
