"""Runs that are made by code, and samplers that say again what is stored in them."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path

import numpy as np

from rlcr.evaluate.importing import TableColumns, import_run
from rlcr.response import FORMATS
from rlcr.sample import Completion, Request, Sampling

METHOD = "rlcr-no-analysis"
FORMAT = "confidence"


def text(answer: str, confidence: str) -> str:
    return FORMATS[FORMAT].render(think="…", answer=answer, confidence=confidence)


def simulated_texts(
    questions: int, samples: int, seed: int, *, overconfident: float = 0.0, easy: float = 2.0
) -> dict[str, list[str]]:
    """Responses to questions whose right answer is "right", with confidences that are what they say, or too high."""
    rng = np.random.default_rng(seed)
    accuracy = np.clip(rng.beta(easy, 1.2, questions), 0.02, 0.98)
    texts = {}
    for number in range(questions):
        chance = rng.beta(accuracy[number] * 6, (1 - accuracy[number]) * 6, samples)
        right = rng.random(samples) < chance
        stated = np.round(chance + overconfident * (1 - chance), 2)
        texts[f"Question {number} of {seed}?"] = [
            text("right" if good else f"wrong {rng.integers(3)}", f"{q:.2f}")
            for good, q in zip(right, stated, strict=True)
        ]
    return texts


def stored_run(folder: Path, texts: Mapping[str, list[str]]) -> Path:
    """A finished run of these responses."""
    table = folder.with_suffix(".jsonl")
    rows = [{"question": name, "out": some, "gold": "right"} for name, some in texts.items()]
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    import_run(table, folder, TableColumns("out", "gold", "question"), format=FORMAT)
    return folder


class Replay:
    """A sampler that knows every question by heart."""

    name = fingerprint = "replay"

    def __init__(self, texts: Mapping[str, list[str]]) -> None:
        self._texts = texts
        self.drawn = 0

    def sample(self, requests: Iterable[Request], sampling: Sampling) -> Generator[Completion, None, None]:
        for request in requests:
            stored = self._texts[request.messages[-1]["content"]]
            for sample in range(request.first_sample, request.first_sample + request.n):
                self.drawn += 1
                yield Completion(request.key, sample, stored[sample], "stop", completion_tokens=10)
