"""Strict parse and Brier reward of 10,000 completions, against the time math-verify needs for their answers.

The parser must never be the bottleneck of a training step: at least 20 times faster than verification.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from typing import Any

from rlcr import FORMATS, get_reward, parse
from rlcr.verify import Verdict

COMPLETIONS = 10_000
TOKENS = 300  # words of running text are a little more than a token each
ROUNDS = 5


def make_completions() -> tuple[list[str], list[tuple[str, str]]]:
    """Completions of about 300 tokens with the kinds of answer that mathematics data has, and their golds."""
    rng = random.Random(0)
    words = ["so", "the", "sum", "of", "first", "terms", "divided", "by", "number", "gives", "us", "value"]
    kinds: list[Callable[[], tuple[str, str]]] = [
        lambda: (str(rng.randrange(1000)), str(rng.randrange(1000))),
        lambda: (f"\\frac{{{rng.randrange(1, 50)}}}{{{rng.randrange(2, 50)}}}", f"{rng.random():.3f}"),
        lambda: (f"{rng.randrange(20)}\\sqrt{{{rng.randrange(30)}}}", f"\\sqrt{{{rng.randrange(900)}}}"),
        lambda: (f"x^2 + {rng.randrange(9)}x", f"x({rng.randrange(9)} + x)"),
    ]
    texts, pairs = [], []
    for index in range(COMPLETIONS):
        gold, answer = kinds[index % len(kinds)]()
        think, analysis = (" ".join(rng.choices(words, k=TOKENS // 2)) for _ in range(2))
        parts = {"think": think, "answer": answer, "analysis": analysis, "confidence": f"{rng.random():.2f}"}
        texts.append(FORMATS["rlcr"].render(**parts))
        pairs.append((gold, answer))
    return texts, pairs


def run() -> dict[str, Any]:
    """Interleaved rounds; the ratio is of medians."""
    from math_verify import parse as read_math
    from math_verify import verify as compare

    texts, pairs = make_completions()
    reward = get_reward("rlcr")
    verdicts = [Verdict("correct"), Verdict("wrong")] * (COMPLETIONS // 2)

    def ours(lot: slice) -> None:
        reward.reward([parse(text) for text in texts[lot]], verdicts[lot])

    def peer(lot: slice) -> None:
        for gold, answer in pairs[lot]:
            compare(read_math(f"${gold}$"), read_math(f"${answer}$"))

    peer(slice(0, 20))  # the first call imports and builds grammars
    seconds: dict[str, list[float]] = {"ours": [], "math-verify": []}
    size = COMPLETIONS // ROUNDS
    for turn in range(ROUNDS):
        lot = slice(turn * size, (turn + 1) * size)
        for name, job in (("ours", ours), ("math-verify", peer)):
            started = time.perf_counter()
            job(lot)
            seconds[name].append((time.perf_counter() - started) * ROUNDS)
    ours_s, peer_s = statistics.median(seconds["ours"]), statistics.median(seconds["math-verify"])
    return {
        "what": f"strict parse + Brier reward of {COMPLETIONS:,} completions of {TOKENS} tokens",
        "peer": "math-verify, both sides parsed and compared, same completions",
        "ours_s": round(ours_s, 4),
        "peer_s": round(peer_s, 3),
        "ratio": round(peer_s / ours_s, 1),
        "wanted_ratio": 20,
    }


if __name__ == "__main__":
    print(run())
