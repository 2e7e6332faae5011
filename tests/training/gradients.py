# pyright: basic
"""Completions to learn from, a model in double precision, and how far two gradients are apart."""

from __future__ import annotations

import random
from typing import Any

import torch
from tests.tiny import tiny_model
from tests.training.double import in_double
from tests.training.updates import response

#: Two groups of right, wrong, malformed and cut-off responses.
MIXED = {
    "a": [
        response(confidence="0.9"),
        response("41", "0.7", think="the sum of the numbers is then divided by two, so 日本語 🙂"),
        "no tags at all",
        response(analysis="the answer seems right, I am quite " * 5, confidence="0.25"),
    ],
    "b": [
        response("é", "0.1"),
        response(confidence="1.0"),
        "<think>cut off in the middle of the sum…",
        response("7", "0.95", analysis=""),
    ],
}
#: The same, where all responses of the second group earn the same.
EQUAL = {**MIXED, "b": [response()] * 4}


def texts_of(groups: int, size: int) -> dict[str, list[str]]:
    """Groups of responses of different lengths, a fifth of them malformed."""
    rng = random.Random(7)
    return {
        f"p{g}": [
            response(rng.choice(["42", "41"]), f"{rng.random():.2f}", think="so " * rng.randrange(12))
            if rng.random() < 0.8
            else "nothing " * rng.randrange(1, 9)
            for _ in range(size)
        ]
        for g in range(groups)
    }


def exact_model(**settings: Any) -> Any:
    """The tiny model that ``update`` trains unless told otherwise, in float64."""
    return in_double(tiny_model(max_position_embeddings=2048, **settings))


def error(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> float:
    """The largest difference, relative to the largest gradient of its tensor."""
    assert found.keys() == wanted.keys()
    return max(
        ((found[name] - wanted[name]).abs().max() / wanted[name].abs().max().clamp(min=1e-12)).item()
        for name in wanted
    )
