"""Metrics as one would first write them: slow, obvious, and what the fast ones are compared with."""

import numpy as np


def slow_bin(q: float, binning: str, bins: int, everyone: np.ndarray) -> float:
    """The bin of one confidence; ``everyone`` holds all confidences, which decide bins of equal mass."""
    if binning == "paper":
        edges = np.linspace(0, 1, bins + 1)
        return max(b for b in range(bins) if edges[b] <= q)
    if binning == "decimal":
        return min(round(q * 10**6) * bins // 10**6, bins - 1)
    if binning == "distinct":
        return q
    twice_middle = 2 * int((everyone < q).sum()) + int((everyone == q).sum())
    return twice_middle * bins // (2 * len(everyone))


def slow_bins(c: np.ndarray, q: np.ndarray, binning: str, bins: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Correctness and confidence of each bin that is not empty."""
    of = np.array([slow_bin(x, binning, bins, q) for x in q])
    return [(c[of == b], q[of == b]) for b in sorted(set(of.tolist()))]


def slow_ece(c: np.ndarray, q: np.ndarray, binning: str = "paper", bins: int = 10) -> float:
    """The gaps of the bins, weighted by their size."""
    return sum(len(cb) / len(c) * abs(qb.mean() - cb.mean()) for cb, qb in slow_bins(c, q, binning, bins))


def slow_murphy(c: np.ndarray, q: np.ndarray, binning: str, bins: int = 10) -> list[float]:
    """Reliability, resolution, uncertainty and what is left within bins."""
    groups, a = slow_bins(c, q, binning, bins), c.mean()
    reliability = sum(len(cb) * (qb.mean() - cb.mean()) ** 2 for cb, qb in groups) / len(c)
    resolution = sum(len(cb) * (cb.mean() - a) ** 2 for cb, _ in groups) / len(c)
    within = sum(((qb - qb.mean()) ** 2 - 2 * (qb - qb.mean()) * (cb - cb.mean())).sum() for cb, qb in groups)
    return [reliability, resolution, a * (1 - a), within / len(c)]


def slow_aurc(c: np.ndarray, q: np.ndarray) -> float:
    """Walk down the ranks; inside a tie every row is wrong with the tie's error rate."""
    order = np.argsort(-q, kind="stable")
    expected_error = [1 - c[q == q[i]].mean() for i in order]
    return float(np.mean(np.cumsum(expected_error) / np.arange(1, len(c) + 1)))


def slow_auroc(c: np.ndarray, q: np.ndarray) -> float | None:
    """The share of pairs, one right and one wrong, that are in order; a tie is half."""
    pairs = [(a > b) + (a == b) / 2 for a in q[c == 1] for b in q[c == 0]]
    return float(np.mean(pairs)) if pairs else None


def slow_smooth_ece(c: np.ndarray, q: np.ndarray) -> float:
    """The definition: images at +-q + 2k, midpoint rule, bisection."""
    t = (np.arange(1000) + 0.5) / 1000
    values, index = np.unique(q, return_inverse=True)
    mass = np.bincount(index, (q - c) / len(c))
    images = [sign * values + 2 * k for sign in (1, -1) for k in (-1, 0, 1)]

    def g(s: float) -> float:
        kernels = [np.exp(-0.5 * ((t[:, None] - x) / s) ** 2) / (s * np.sqrt(2 * np.pi)) for x in images]
        return float(np.abs(sum(k @ mass for k in kernels)).mean())

    low, high = 0.002, 1.0
    for _ in range(16):
        middle = (low + high) / 2
        low, high = (middle, high) if g(middle) > middle else (low, middle)
    return high
