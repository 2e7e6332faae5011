"""How sure may one be of a voted answer? Three ways to tell, and how calibrated each is, against N.

    vote share        votes of the majority's answer / N
    weighted share    confidence in the chosen answer / confidence in all answers
    mean confidence   mean confidence of the samples that gave the chosen answer
    calibrated mean   the same, recalibrated by Platt's method on the other half of the questions

The answer is the majority's for the first and the confidence-weighted vote's for the others. Over random
orders of each pool (seeded); ECE has the paper's ten bins. Means are over the samples that state one. Where
none does, or where shares are of confidences that are all 0, a vote has no such confidence: it is left out,
and counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rlcr import metrics
from rlcr.many.curves import curve_to_dict
from rlcr.many.halves import halves
from rlcr.many.pool import Floats, Ints, Pool
from rlcr.many.subsets import Standing, contributions, orders, parts, running, shuffled, votes_and_weight
from rlcr.metrics import Estimate
from rlcr.metrics.bootstrap import Resampled, question_weights, ratio
from rlcr.metrics.kernel import fixed_bins
from rlcr.metrics.recalibration import fit_recalibration

KINDS = ("vote share", "weighted share", "mean confidence", "calibrated mean")
_ORDERS = 32
_BINS = 10


@dataclass(frozen=True)
class VotedConfidence:
    """Brier score and ECE of one kind of confidence against N, and its AUROC at the largest N."""

    name: str
    n: Sequence[int]
    brier: Sequence[Estimate]
    ece: Sequence[Estimate]
    auroc: float | None
    left_out: float
    """The share of the votes at the largest N that have no such confidence."""

    def curves(self) -> list[dict[str, Any]]:
        """As JSON, in the shape that the report draws."""
        return [
            curve_to_dict(self.name, metric, self.n, estimates, ["drawn"] * len(self.n))
            for metric, estimates in (("Brier score", self.brier), ("ECE", self.ece))
        ]


@dataclass(frozen=True)
class Stated:
    """Confidences with the chance of being right and the weight of each, of every question and order."""

    confidence: Floats
    right: Floats
    weight: Floats
    left_out: float = 0.0


def voted_confidence(pool: Pool, most: int, *, seed: int = 0, resamples: int = 1000) -> list[VotedConfidence]:
    """Every kind of confidence in voted answers, at N = 1, 2, 4, … up to ``most``."""
    pool = pool.having(most)
    sizes = sorted({most} | {2**k for k in range(most.bit_length()) if 2**k <= most})
    rows = _votes(pool, sizes, most, seed)
    if np.isnan(pool.confidence_QM).all():
        rows = {"vote share": rows["vote share"]}
    else:
        rows["calibrated mean"] = [_calibrated(pool, votes, seed) for votes in rows["mean confidence"]]
    weights_RQ = question_weights(len(pool), resamples, seed)
    return [
        VotedConfidence(
            kind,
            sizes,
            [_brier(votes, weights_RQ) for votes in rows[kind]],
            [ece_estimate(votes, weights_RQ) for votes in rows[kind]],
            _auroc(rows[kind][-1]),
            rows[kind][-1].left_out,
        )
        for kind in KINDS
        if kind in rows
    ]


def _votes(pool: Pool, sizes: Sequence[int], most: int, seed: int) -> dict[str, list[Stated]]:
    shape = len(sizes), len(pool), _ORDERS
    confidence = {kind: np.full(shape, np.nan) for kind in KINDS[:3]}
    right = {kind: np.zeros(shape) for kind in ("majority", "weighted")}
    weight = {kind: np.zeros(shape) for kind in ("majority", "weighted")}
    moved, order = shuffled(pool, seed)
    longest = pool.group_QM.shape[1]
    added = {
        "majority": contributions(np.zeros(pool.group_QM.shape)),
        "weighted": np.take_along_axis(contributions(pool.confidence_QM), order, axis=1),
    }
    whole_pool = not np.isnan(pool.confidence_QM[pool.real_QM & (pool.group_QM >= 0)]).any()
    for samples, rows in parts(pool, _ORDERS):
        drawn = orders(samples, most, _ORDERS, seed)
        for vote, contribution in added.items():
            for n, standing in enumerate(running(moved.rows(rows), contribution[rows], drawn, whole=True), 1):
                if n not in sizes:
                    continue
                at = sizes.index(n)
                votes, behind = votes_and_weight(standing.best, longest)
                scorable = standing.scorable
                with np.errstate(invalid="ignore", divide="ignore"):
                    right[vote][at, rows] = np.where(scorable > 0, standing.right / scorable, 0)
                    # Where no sample answered there is nothing to be sure of.
                    weight[vote][at, rows] = scorable * (votes > 0)
                    if vote == "majority":
                        confidence["vote share"][at, rows] = votes / n
                        continue
                    whole = votes_and_weight(standing.total, longest)[1]
                    confidence["weighted share"][at, rows] = behind / whole
                    voters = votes if whole_pool else _stating(moved.rows(rows), drawn[:, :n], standing)
                    confidence["mean confidence"][at, rows] = behind / voters
    by_kind: dict[str, list[Stated]] = {}
    for kind, values in confidence.items():
        vote = "majority" if kind == "vote share" else "weighted"
        stated = ~np.isnan(values)
        by_kind[kind] = []
        for at, every in enumerate(weight[vote]):
            kept = every * stated[at]
            lost = 1 - kept.sum() / every.sum() if every.any() else 0.0
            by_kind[kind].append(
                Stated(np.where(stated[at], values[at], 0), right[vote][at], kept, float(lost))
            )
    return by_kind


def _stating(pool: Pool, drawn_SN: Ints, standing: Standing) -> Ints:
    """How many of the samples for the leading answer state a confidence, by question and order."""
    voters = np.zeros(standing.leading.shape, np.int64)
    stated = ~np.isnan(pool.confidence_QM)
    for sample in drawn_SN.T:
        voters += (pool.group_QM[:, sample] == standing.leading) & stated[:, sample]
    return voters


def _calibrated(pool: Pool, votes: Stated, seed: int) -> Stated:
    """Platt's method, each half of the questions by a map learned on the other."""
    calibrated = votes.confidence.copy()
    split = halves(pool.ids, seed)
    for here, other in (split, split[::-1]):
        # Tied votes are neither right nor wrong: nothing is learned from them.
        known = (votes.weight[other] == 1) & np.isin(votes.right[other], (0, 1))
        confidence, right = votes.confidence[other][known], votes.right[other][known].astype(np.int64)
        if len(np.unique(right)) < 2:
            calibrated[here] = right.mean() if len(right) else votes.confidence[here]
        else:
            chance = fit_recalibration("platt", confidence, right).chance(votes.confidence[here].ravel())
            calibrated[here] = chance.reshape(calibrated[here].shape)
    return replace(votes, confidence=calibrated)


def _brier(votes: Stated, weights_RQ: Floats) -> Estimate:
    q, c = votes.confidence, votes.right
    loss_Q = (votes.weight * (q**2 - 2 * q * c + c)).sum(axis=1)
    return ratio(loss_Q, votes.weight.sum(axis=1), weights_RQ).estimate()


def ece_estimate(votes: Stated, weights_RQ: Floats) -> Estimate:
    """↓ ECE in the paper's bins over all orders together, with its interval over questions."""
    questions = len(votes.confidence)
    bin_QS = fixed_bins(votes.confidence, "paper", _BINS) + _BINS * np.arange(questions)[:, None]
    gaps_QS = votes.weight * (votes.confidence - votes.right)
    gap_QB = np.bincount(bin_QS.ravel(), gaps_QS.ravel(), questions * _BINS).reshape(questions, _BINS)
    weight_Q = votes.weight.sum(axis=1)
    with np.errstate(invalid="ignore"):
        value = np.abs(gap_QB.sum(axis=0)).sum() / weight_Q.sum()
        draws_R = np.abs(weights_RQ @ gap_QB).sum(axis=1) / (weights_RQ @ weight_Q)
    return Resampled(float(value), draws_R).estimate()


def _auroc(votes: Stated) -> float | None:
    known = (votes.weight == 1) & np.isin(votes.right, (0, 1))
    if not known.any():
        return None
    return metrics.auroc(votes.right[known].astype(np.int64), votes.confidence[known])


def table(kinds: Sequence[VotedConfidence]) -> dict[str, Mapping[str, Any]]:
    """What each kind is worth at the largest N, as JSON."""
    return {
        kind.name: {
            "n": kind.n[-1],
            "brier": kind.brier[-1].to_dict(),
            "ece": kind.ece[-1].to_dict(),
            "auroc": kind.auroc,
            "left_out": kind.left_out,
        }
        for kind in kinds
    }
