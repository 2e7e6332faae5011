"""All metrics with 1,000 bootstrap resamples, against the same loop written with scikit-learn calls.

Ours computes everything `summary` reports, smooth ECE included. The peer's loop draws rows and calls
roc_auc_score, brier_score_loss and log_loss, and numpy for what scikit-learn lacks: accuracy, Brier skill,
ECE (both binnings), Murphy parts, AURC (ties as they come), mean confidence, over- and underconfidence. It
has no smooth ECE; that is a ratio of its own, with relplot.smECE added to the loop.

The peer runs a few of the 1,000 iterations and is scaled up: every iteration is the same work. Both sides
take turns in one process; the ratio is the median over turns. `--million` adds a run with 1,000,000 rows.
"""

import argparse
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from relplot import smECE
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from rlcr import metrics

ROWS, RESAMPLES, TURNS = 4326, 1000, 5
PEER_ITERATIONS, RELPLOT_ITERATIONS = 40, 4
GOAL = 30


def sample(n: int, *, verbalised: bool, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    confidence = rng.random(n) ** 0.5
    if verbalised:
        confidence = np.round(confidence * 20) / 20
    return (rng.random(n) < confidence**1.5).astype(int), confidence


def peer_metrics(correct: np.ndarray, confidence: np.ndarray) -> None:
    """One iteration of the loop a careful user would write."""
    roc_auc_score(correct, confidence)
    brier = brier_score_loss(correct, confidence)
    log_loss(correct, np.clip(confidence, 1e-3, 1 - 1e-3))
    accuracy, mean_confidence = correct.mean(), confidence.mean()
    _ = 1 - brier / (accuracy * (1 - accuracy)), mean_confidence - accuracy
    paper = np.minimum(np.digitize(confidence, np.linspace(0, 1, 11)) - 1, 9)
    decimal = np.minimum((np.rint(confidence * 1e6).astype(int) * 10) // 1_000_000, 9)
    for bins in (decimal, paper):
        count = np.bincount(bins, minlength=10)
        gap = np.bincount(bins, confidence - correct, minlength=10)
        _ = np.abs(gap).sum(), np.maximum(gap, 0).sum(), np.maximum(-gap, 0).sum()
    right = np.bincount(paper, correct, minlength=10)
    _ = (gap**2 / np.maximum(count, 1)).sum(), ((right - accuracy * count) ** 2 / np.maximum(count, 1)).sum()
    errors = np.cumsum(1 - correct[np.argsort(-confidence)])
    _ = (errors / np.arange(1, len(correct) + 1)).mean()


def peer_loop(correct: np.ndarray, confidence: np.ndarray, iterations: int, *, smooth: bool = False) -> None:
    rng = np.random.default_rng(0)
    for _ in range(iterations):
        drawn = rng.integers(len(correct), size=len(correct))
        peer_metrics(correct[drawn], confidence[drawn])
        if smooth:
            smECE(confidence[drawn], correct[drawn])


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def peak_mb(work: Callable[[], object]) -> float:
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def run() -> dict[str, float]:
    """Seconds, ratios and peak memory, for verbalised (steps of 0.05) and for all-different confidences."""
    found: dict[str, float] = {}
    for kind in ("verbalised", "continuous"):
        rows = sample(ROWS, verbalised=kind == "verbalised")

        def ours(rows: tuple[np.ndarray, np.ndarray] = rows) -> None:
            metrics.summary(*rows, resamples=RESAMPLES)

        ours()
        peer_loop(*rows, 2, smooth=True)
        turns = []
        for _ in range(TURNS):
            mine = seconds(ours)
            peer = seconds(lambda: peer_loop(*rows, PEER_ITERATIONS)) * RESAMPLES / PEER_ITERATIONS  # noqa: B023
            full = seconds(lambda: peer_loop(*rows, RELPLOT_ITERATIONS, smooth=True))  # noqa: B023
            turns.append((mine, peer, peer / mine, full * RESAMPLES / RELPLOT_ITERATIONS / mine))
        names = ("ours_s", "sklearn_loop_s", "ratio", "ratio_with_relplot")
        found |= {f"{kind}_{name}": float(x) for name, x in zip(names, np.median(turns, axis=0), strict=True)}
        found[f"{kind}_peak_mb"] = peak_mb(ours)
    return found


def run_million() -> dict[str, float]:
    """Seconds and peak memory with 1,000,000 rows; memory on a few resamples, as it does not grow."""
    found: dict[str, float] = {}
    for kind in ("verbalised", "continuous"):
        rows = sample(1_000_000, verbalised=kind == "verbalised")
        found[f"million_{kind}_s"] = seconds(lambda: metrics.summary(*rows, resamples=RESAMPLES))  # noqa: B023
        found[f"million_{kind}_peak_mb"] = peak_mb(lambda: metrics.summary(*rows, resamples=5))  # noqa: B023
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--million", action="store_true", help="also 1,000,000 rows (a minute or two)")
    found = run() | (run_million() if parser.parse_args().million else {})
    print(f"metrics: n = {ROWS}, {RESAMPLES} resamples, median of {TURNS} turns")
    scaled = f"{PEER_ITERATIONS} iterations ({RELPLOT_ITERATIONS} with relplot) scaled to {RESAMPLES}"
    print(f"peer: the same loop with scikit-learn calls, {scaled}")
    for name, value in found.items():
        goal = f"  (goal: at least {GOAL})" if name.endswith("_ratio") else ""
        print(f"  {name:32} {value:10.2f}{goal}")


if __name__ == "__main__":
    main()
