"""The paper's claims, one by one: what these runs say of each, with the number and its interval.

A claim is supported when the whole interval lies where the paper says, contradicted when the whole interval
lies elsewhere, and open otherwise; the calibration of a model that gave up decides nothing. What has not been
run is said to be missing. Differences between answers
to the same questions are paired; where only two summaries are kept, they are taken for independent. All runs
are of a model of 135M parameters on small tasks: support here is a check of the mechanism, not of the paper's
scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from results.evidence.collect import Outcome, answers, finished, read_outcome
from results.evidence.plan import FAMILIES, ONE_SEED, TRAINED

from rlcr import metrics

#: The accuracy that may be lost for calibration before it counts as lost.
TOLERANCE = 0.02
#: An accuracy below this is a collapse where the start had several times as much.
COLLAPSED = 0.05


@dataclass(frozen=True)
class Finding:
    """What the runs say of a claim."""

    claim: str
    measured: str
    value: float | None
    low: float | None
    high: float | None
    verdict: str
    """``supported``, ``contradicted``, ``open`` or ``missing``."""


Judge = Callable[[float, float], str]


def findings() -> list[dict[str, Any]]:
    """Every claim that these runs can speak about."""
    found: list[Finding] = []
    for family in TRAINED:
        others = [other for other in FAMILIES if other != family]
        pair = _pair(family)
        found += [
            _difference("RLCR keeps accuracy", pair, family, family, "accuracy", above(-TOLERANCE)),
            _difference("RLCR improves calibration in domain", pair, family, family, "ece", below(0)),
            _difference("RLCR improves calibration in domain", pair, family, family, "brier", below(0)),
            _difference("RLCR improves calibration in domain", pair, family, family, "auroc", above(0)),
            *(
                _difference("RLCR improves calibration out of domain", pair, family, other, "brier", below(0))
                for other in others
            ),
        ]
        start, rlvr = _start(), list(finished(family, "rlvr").values())
        found.append(
            _difference("RLVR grows overconfident", (start, rlvr), family, family, "confidence_gap", above(0))
        )
    for variant, claim in _COLLAPSES.items():
        found.append(_collapse(claim, variant))
    pair = (_start(), list(finished("chains", "masked").values()))
    found += [
        _difference("Masking keeps accuracy", pair, "chains", "chains", "accuracy", above(-TOLERANCE)),
        _difference("Masking keeps accuracy", pair, "chains", "chains", "brier", below(0)),
    ]
    pair = (_one_seed("abstention"), _one_seed("rlcr"))
    found += [
        _difference("Abstention-RL is weaker than RLCR", pair, "chains", "chains", "accuracy", above(0)),
        _difference("Abstention-RL is weaker than RLCR", pair, "chains", "chains", "brier", below(0)),
    ]
    pair = (_one_seed("rlcr"), _one_seed("rlcr-analysis"))
    found.append(_difference("An analysis helps calibration", pair, "chains", "chains", "brier", below(0)))
    found += [_vote(), _analyses(), _sums(), _classifier()]
    return [asdict(one) for one in found]


def above(bound: float) -> Judge:
    """Supported where the whole interval lies above."""
    return lambda low, high: "supported" if low > bound else "contradicted" if high < bound else "open"


def below(bound: float) -> Judge:
    """Supported where the whole interval lies below."""
    return lambda low, high: "supported" if high < bound else "contradicted" if low > bound else "open"


_COLLAPSES = {
    "rlcr-log": "The log score can collapse to abstaining",
    "calibration-only": "Calibration alone collapses",
}


def _start() -> list[Outcome]:
    start = read_outcome("start")
    return [start] if start else []


def _one_seed(variant: str) -> list[Outcome]:
    """The evaluation of a variant with the seed that all of them have."""
    kept = finished("chains", variant)
    return [kept[ONE_SEED]] if ONE_SEED in kept else []


def _pair(family: str) -> tuple[list[Outcome], list[Outcome]]:
    """RLVR and RLCR by the seeds that both have."""
    rlvr, rlcr = (finished(family, variant) for variant in ("rlvr", "rlcr"))
    both = sorted(rlvr.keys() & rlcr.keys())
    return [rlvr[seed] for seed in both], [rlcr[seed] for seed in both]


def _difference(
    claim: str,
    pair: tuple[Sequence[Outcome], Sequence[Outcome]],
    trained: str,
    family: str,
    metric: str,
    judge: Judge,
) -> Finding:
    first, second = pair
    where = family if family == trained else f"{family}, trained on {trained}"
    what = f"{metric}, difference, {where}"
    if not first or not second:
        return Finding(claim, what, None, None, None, "missing")
    compared = metrics.compare_common(answers(first, family), answers(second, family))
    difference = compared.metrics[metric] if compared else None
    if difference is None or difference.value is None or difference.low is None or difference.high is None:
        return Finding(claim, what, None, None, None, "open")
    low, high = difference.low, difference.high
    if metric != "accuracy" and (_gave_up(first, family) or _gave_up(second, family)):
        return Finding(claim, f"{what}; one gave up", difference.value, low, high, "open")
    return Finding(claim, what, difference.value, low, high, judge(low, high))


def _gave_up(outcomes: Sequence[Outcome], family: str) -> bool:
    """Whether hardly an answer is right: that its confidence is then low is no merit."""
    correct, _, _ = answers(outcomes, family)
    return sum(correct) < COLLAPSED * len(correct)


def _collapse(claim: str, variant: str) -> Finding:
    outcomes = list(finished("chains", variant).values())
    if not outcomes:
        return Finding(claim, "accuracy, chains", None, None, None, "missing")
    correct, confidence, question = answers(outcomes, "chains")
    accuracy = metrics.summary(correct, confidence, question=question).metrics["accuracy"]
    low, high = accuracy.low or 0.0, 1.0 if accuracy.high is None else accuracy.high
    judge = below(COLLAPSED)
    return Finding(claim, "accuracy, chains", accuracy.value, low, high, judge(low, high))


def _vote() -> Finding:
    claim, what = "A vote weighted by confidence beats the majority", "accuracy, difference, chains, RLCR"
    votes = read_outcome(f"chains/rlcr-{ONE_SEED}-vote")
    if votes is None:
        return Finding(claim, what, None, None, None, "missing")
    difference = votes["minus_majority"]["confidence-weighted"]
    low, high = difference["ci95"]
    return Finding(claim, what, difference["value"], low, high, above(0)(low, high))


def _analyses() -> Finding:
    """The Brier score of the mean confidence of all analyses of an answer, minus that of one."""
    claim, what = "Ensembled analyses improve the Brier score", "brier, difference, chains"
    kept = read_outcome(f"chains/rlcr-analysis-{ONE_SEED}-analyses")
    if kept is None:
        return Finding(claim, what, None, None, None, "missing")
    [curve] = [one for one in kept["curves"]["chains"] if one["metric"] == "Brier score"]
    one, all_of_them = (
        {"value": curve["value"][at], "ci95": [curve["low"][at], curve["high"][at]]} for at in (0, -1)
    )
    return apart(claim, what, one, all_of_them, below(0))


def _sums() -> Finding:
    """How far the confidences in a question's different answers add up to more than 1, RLCR minus RLVR."""
    claim, what = "RLCR's confidences add up nearer to one", "sum above 1, difference, chains"
    rlvr, rlcr = (read_outcome(f"chains/{variant}-{ONE_SEED}-coherence") for variant in ("rlvr", "rlcr"))
    if rlvr is None or rlcr is None:
        return Finding(claim, what, None, None, None, "missing")
    return apart(claim, what, rlvr["summary"]["mean_excess"], rlcr["summary"]["mean_excess"], below(0))


def _classifier() -> Finding:
    """The Brier score of a classifier's confidence in RLVR's answers, minus that of RLCR's own."""
    claim, what = "A classifier on RLVR does not beat RLCR", "brier, difference, chains"
    columns = read_outcome(f"chains/rlvr-{ONE_SEED}-columns")
    rlcr = read_outcome(f"chains/rlcr-{ONE_SEED}")
    if columns is None or rlcr is None:
        return Finding(claim, what, None, None, None, "missing")
    correct, confidence, question = answers([rlcr], "chains")
    own = metrics.summary(correct, confidence, question=question).metrics["brier"].to_dict()
    [sources] = [sources for task, sources in columns["tasks"].items() if "chains" in task]
    [judged] = [one for one in sources if one["name"] == "classifier"]
    return apart(claim, what, own, judged["metrics"]["brier"], above(0))


def apart(
    claim: str, what: str, first: Mapping[str, Any], second: Mapping[str, Any], judge: Judge
) -> Finding:
    """The second of two independent estimates minus the first; half-widths add in squares."""
    value = second["value"] - first["value"]
    half = math.hypot(*((one["ci95"][1] - one["ci95"][0]) / 2 for one in (first, second)))
    low, high = value - half, value + half
    return Finding(claim, what, value, low, high, judge(low, high))
