"""Right and wrong answers with their confidences, and each metric as a plain function of them."""

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from rlcr import metrics


def sample(n: int, seed: int = 0, *, rounded: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Correctness and overconfident confidences, all different or in steps of 0.05."""
    rng = np.random.default_rng(seed)
    confidence = rng.random(n) ** 0.5
    if rounded:
        confidence = np.round(confidence * 20) / 20
    return (rng.random(n) < confidence**2).astype(int), confidence


CASES = [sample(n, seed, rounded=rounded) for seed, n in enumerate((7, 60, 300)) for rounded in (True, False)]
#: For hypothesis: lists of (correct, confidence).
answers = st.lists(
    st.tuples(st.integers(0, 1), st.one_of(st.floats(0, 1), st.integers(0, 20).map(lambda i: i / 20))),
    min_size=1,
    max_size=40,
)
#: Every metric of a summary, by name, through the public function that computes it alone.
PLAIN: dict[str, Callable[[np.ndarray, np.ndarray], float | None]] = {
    "accuracy": lambda c, q: metrics.accuracy(c),
    "auroc": metrics.auroc,
    "brier": metrics.brier,
    "ece": metrics.ece,
    "ece_decimal": lambda c, q: metrics.ece(c, q, binning="decimal"),
    "smooth_ece": metrics.smooth_ece,
    "expected_reward": metrics.expected_reward,
    "brier_skill": metrics.brier_skill,
    "reliability": lambda c, q: metrics.murphy(c, q).reliability,
    "resolution": lambda c, q: metrics.murphy(c, q).resolution,
    "uncertainty": lambda c, q: metrics.murphy(c, q).uncertainty,
    "within_bin": lambda c, q: metrics.murphy(c, q).within_bin,
    "nll": metrics.nll,
    "aurc": metrics.aurc,
    "mean_confidence": lambda c, q: metrics.mean_confidence(q),
    "confidence_gap": metrics.confidence_gap,
    "overconfidence": metrics.overconfidence,
    "underconfidence": metrics.underconfidence,
    "coverage": lambda c, q: 1.0,
}
