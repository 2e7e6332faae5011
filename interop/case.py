"""200 stored completions, and what `rlcr score` and `rlcr metrics` say about them."""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

QUESTIONS, SAMPLES = 100, 2
METRICS = ("accuracy", "auroc", "brier", "ece")


@dataclass(frozen=True)
class Case:
    """Questions with samples, the reward of each as it should be, and the metrics of all of them.

    ``totals`` follow from the lines of `rlcr score` by the formula of the reward, written out here a second
    time; None where unscorable.
    """

    source: str
    golds: list[str]
    completions: list[list[str]]
    verdicts: list[list[str]]
    confidences: list[list[float | None]]
    totals: list[list[float | None]]
    metrics: dict[str, dict[str, Any]]

    def rows(self) -> list[tuple[int, str, str, float | None]]:
        """Question, completion, gold and total of every sample."""
        return [
            (question, text, self.golds[question], total)
            for question, texts in enumerate(self.completions)
            for text, total in zip(texts, self.totals[question], strict=True)
        ]

    def totals_or(self, constant: float | None) -> list[float | None]:
        """The total of every sample, with a constant for what is unscorable."""
        return [constant if total is None else total for _, _, _, total in self.rows()]

    def write(self, path: Path) -> None:
        """As JSON."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Case:
        """What :meth:`write` wrote."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))


def split_thought(text: str) -> tuple[str, str]:
    """What a server with a reasoning parser makes of a text: a thought that comes first, and the rest."""
    thought, closing, rest = text.removeprefix("<think>").partition("</think>")
    return (thought, rest) if text.startswith("<think>") and closing and thought else ("", text)


def make_case(folder: Path) -> Case:
    """Make the completions, and ask the commands about them."""
    given = os.environ.get("RLCR_DATA")
    golds, completions = _stored(Path(given)) if given else _drawn(random.Random(0))
    source = "answers of two models to MATH-500, five golds withheld" if given else "made from seed 0"
    stored, graded, table = folder / "stored.jsonl", folder / "graded.jsonl", folder / "verdicts.jsonl"
    _write(stored, ({"gold": g, "completions": c} for g, c in zip(golds, completions, strict=True)))
    _rlcr(
        "score",
        stored,
        "--completion",
        "completions",
        "--gold",
        "gold",
        "--verifier",
        "math",
        "--out",
        graded,
    )
    lines = [json.loads(line) for line in graded.read_text(encoding="utf-8").splitlines()]
    known = {"correct": True, "wrong": False, "unscorable": None}
    _write(
        table,
        (
            {"question": line["row"], "correct": known[line["verdict"]], "confidence": line["confidence"]}
            for line in lines
        ),
    )
    columns = ("--correct", "correct", "--confidence", "confidence", "--question", "question")
    measured = json.loads(_rlcr("metrics", table, *columns, "--json"))["metrics"]
    grouped: list[list[dict[str, Any]]] = [[] for _ in golds]
    for line in lines:
        grouped[line["row"]].append(line)
    return Case(
        source,
        golds,
        completions,
        [[line["verdict"] for line in group] for group in grouped],
        [[line["confidence"] for line in group] for group in grouped],
        [[_total(line) for line in group] for group in grouped],
        {name: measured[name] for name in METRICS},
    )


def _total(line: dict[str, Any]) -> float | None:
    if not line["well_formed"]:
        return -0.5
    if line["verdict"] == "unscorable":
        return None
    correct = line["verdict"] == "correct"
    return 0.5 + 0.5 * correct - 0.5 * (line["confidence"] - correct) ** 2


def _drawn(rng: random.Random) -> tuple[list[str], list[list[str]]]:
    """Sums with right, wrong, equivalent, badly tagged and unusual answers, and some golds that are empty."""
    golds, completions = [], []
    for number in range(QUESTIONS):
        a, b = rng.randint(2, 60), rng.randint(2, 60)
        golds.append("" if _unknown(number) else rf"\frac{{{a}}}{{{b}}}" if number % 3 == 0 else str(a + b))
        right = (
            [str(a + b), f"{a} + {b}", f"x = {a + b}"]
            if number % 3
            else [f"{a}/{b}", rf"\frac{{{2 * a}}}{{{2 * b}}}"]
        )
        completions.append(
            [_response(rng, right, [str(a - b), "I am not sure", r"\sqrt{2}"]) for _ in range(SAMPLES)]
        )
    return golds, completions


def _response(rng: random.Random, right: Sequence[str], wrong: Sequence[str]) -> str:
    is_right = rng.random() < 0.6
    answer = rng.choice(right if is_right else wrong)
    confidence = f"{min(1.0, max(0.0, rng.gauss(0.75 if is_right else 0.45, 0.2))):.2f}"
    if rng.random() < 0.1:
        confidence = rng.choice(["80%", "very sure", "", "1.5", "nan"])
    parts = [("think", "…"), ("answer", answer), ("analysis", "…"), ("confidence", confidence)]
    if rng.random() < 0.1:
        del parts[rng.randrange(len(parts))]
    return "\n".join(f"<{tag}> {text} </{tag}>" for tag, text in parts)


def _stored(data: Path) -> tuple[list[str], list[list[str]]]:
    path = data / "rlcr_outputs" / "hotpot_models_math-500.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(next(file)) for _ in range(QUESTIONS)]
    golds = ["" if _unknown(number) else row["answer"] for number, row in enumerate(rows)]
    return golds, [[row["RLCR-output_0"], row["Base-output_0"]] for row in rows]


def _unknown(number: int) -> bool:
    """Whether the gold of a question is withheld, so that nobody can score its answers."""
    return number % 20 == 7


def _write(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def _rlcr(*arguments: object) -> str:
    command = [sys.executable, "-m", "rlcr", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
