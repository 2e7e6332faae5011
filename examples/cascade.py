"""A model cascade: a small model answers where it is sure enough, a large one is asked otherwise.

    python examples/cascade.py                      what a cascade saves, measured on two stored runs
    python examples/cascade.py SMALL LARGE [PRICE]  the same for runs of yours, of the same questions

The thresholds are chosen as by `rlcr select`, on one half of the small model's questions; cost and accuracy
are those of the other half. Without runs of yours it makes two, of simulated answers: a small model that
knows what it does not know, and a large one that is right more often and costs ten times as much a token.

What it prints for the runs that it makes, on 1,000 questions:

    threshold 0.00: 100% by the small model, accuracy 0.597, cost 0.10 of the large model's
    threshold 0.31:  79% by the small model, accuracy 0.681, cost 0.31 of the large model's
    threshold 0.69:  52% by the small model, accuracy 0.805, cost 0.58 of the large model's
    threshold 1.01:   0% by the small model, accuracy 0.865, cost 1.10 of the large model's
    the large model alone: accuracy 0.865, cost 1.00

In an application, `cascade` below is all of it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import rlcr
from rlcr.asking.clients import Client
from rlcr.evaluate.importing import TableColumns, import_run
from rlcr.many.halves import halves
from rlcr.many.selective import threshold
from rlcr.response import FORMATS
from rlcr.runs.record import Record
from rlcr.runs.store import open_run
from rlcr.sample import Sampler

#: What a token of the large model costs in tokens of the small one.
PRICE = 10.0
#: How much of its mistakes the small model must leave out where it answers.
FEWER_MISTAKES = (1 / 3, 2 / 3)
#: A threshold that no confidence reaches.
NEVER = 1.01


def cascade(
    small: Client | Sampler, large: Client | Sampler, question: str, sure: float | Path
) -> rlcr.Answer:
    """Ask the small model; ask the large one where that is not sure: a number, or a run's selective.json."""
    answer = rlcr.ask(small, question, threshold=sure)
    return rlcr.ask(large, question) if answer.abstained else answer


@dataclass(frozen=True)
class Outcome:
    """What a threshold would have done."""

    sure: float
    by_small: float
    accuracy: float
    cost: float

    def __str__(self) -> str:
        return (
            f"threshold {self.sure:.2f}: {self.by_small:4.0%} by the small model,"
            f" accuracy {self.accuracy:.3f}, cost {self.cost:.2f} of the large model's"
        )


def measure(
    small: dict[str, Record], large: dict[str, Record], questions: list[str], enough: float, price: float
) -> Outcome:
    """The cascade on stored answers: the small model's tokens for all questions, the large one's for some."""
    sure = {name: (small[name].confidence or 0.0) >= enough for name in questions}
    right = [bool((small if sure[name] else large)[name].correct) for name in questions]
    spent = [tokens(small[name]) + (0 if sure[name] else price * tokens(large[name])) for name in questions]
    whole = sum(price * tokens(large[name]) for name in questions)
    return Outcome(enough, float(np.mean(list(sure.values()))), float(np.mean(right)), sum(spent) / whole)


def tokens(record: Record) -> int:
    """Of a response; its words, where they were not counted."""
    return record.tokens or len(record.text.split())


def first_answers(folder: Path) -> dict[str, Record]:
    """The first answer to each question that could be scored."""
    return {r.id: r for r in open_run(folder).records() if r.sample == 0 and r.correct is not None}


def made_run(folder: Path, *, questions: int, skill: float, seed: int) -> Path:
    """A run of a model that knows what it does not know. Questions are as hard for every model."""
    hard = np.random.default_rng(0).normal(size=questions)
    rng = np.random.default_rng(seed)
    table = folder.with_suffix(".jsonl")
    lines = []
    for number in range(questions):
        chance = 1 / (1 + np.exp(2 * (hard[number] - skill) + rng.normal(scale=0.5)))
        answer = "right" if rng.random() < chance else "wrong"
        parts = {"think": "so " * 40, "answer": answer, "analysis": "hm " * 10, "confidence": f"{chance:.2f}"}
        text = FORMATS["rlcr"].render(**parts)
        lines.append({"id": f"q{number}", "question": f"Question {number}?", "gold": "right", "text": text})
    table.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    import_run(table, folder, TableColumns("text", "gold", "question", "id"), task="made")
    return folder


def study(small_run: Path, large_run: Path, price: float = PRICE) -> list[Outcome]:
    """The small model alone, a threshold for each promise, and the large model for every question."""
    small, large = first_answers(small_run), first_answers(large_run)
    shared = sorted(small.keys() & large.keys())
    chosen, held_out = ([shared[place] for place in half] for half in halves(shared))
    right = np.array([float(bool(small[name].correct)) for name in chosen])
    stated = np.array([-1.0 if small[name].confidence is None else small[name].confidence for name in chosen])
    mistakes = 1 - float(right.mean())
    promises = [1 - mistakes * (1 - fewer) for fewer in FEWER_MISTAKES]
    found = [threshold(right, stated, promise) for promise in promises]
    thresholds = [0.0, *(one for one in found if one is not None), NEVER]
    return [measure(small, large, held_out, one, price) for one in thresholds]


def main(given: list[str], *, questions: int = 2000) -> None:
    """Measure two runs, or make them."""
    runs, price = given[:2], float(given[2]) if len(given) > 2 else PRICE
    with tempfile.TemporaryDirectory() as folder:
        if runs:
            small, large = map(Path, runs)
        else:
            small = made_run(Path(folder) / "small", questions=questions, skill=0.4, seed=1)
            large = made_run(Path(folder) / "large", questions=questions, skill=1.4, seed=2)
        outcomes = study(small, large, price)
    for outcome in outcomes:
        print(outcome)
    print(f"the large model alone: accuracy {outcomes[-1].accuracy:.3f}, cost 1.00")


if __name__ == "__main__":
    main(sys.argv[1:])
