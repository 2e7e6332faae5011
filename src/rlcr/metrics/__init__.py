"""Calibration metrics: arrays of right/wrong and of confidence in, numbers with intervals out.

    summary(correct, confidence)      every metric with a bootstrap interval
    compare(...)                      paired differences between two systems on the same questions
    macro_average(...)                unweighted mean over tasks (the paper's "O.O.D. averaged")
    accuracy, auroc, brier, ece, ...  one number each

Which file answers what: `inputs` what is accepted, `kernel` how a metric is computed, `smooth` the smooth
ECE, `scores` the one-number functions, `bootstrap` how intervals are made, `intervals` every metric with its
interval, `measurement` samples group by group, `within` discrimination within questions, `recalibration` and
`likelihood` confidences, `tables` how all of it is written.

Choices that change numbers, and the paper's side of each:

- ECE: `binning="paper"` is the default and matches the published numbers to the last digit. Its float edges
  put 0.3, 0.6 and 0.7 in the bin below them; `binning="decimal"` does not, and `summary` reports both.
- AUROC: ties get half credit; with a single class it is None, never 0.
- Intervals: percentile bootstrap of whole questions. `Estimate.half_width` is the paper's +- number.
- Beyond the paper: Brier skill, Murphy decomposition, smooth ECE, NLL, AURC, over- and underconfidence,
  because ECE alone is won by a constant that says the base rate.
"""

from rlcr.metrics.bootstrap import Difference, Estimate
from rlcr.metrics.intervals import (
    Comparison,
    MacroAverage,
    Summary,
    compare,
    compare_common,
    macro_average,
    macro_difference,
    summary,
)
from rlcr.metrics.kernel import BINNINGS, METRICS, Binning
from rlcr.metrics.scores import (
    Murphy,
    ReliabilityCurve,
    RiskCoverage,
    accuracy,
    aurc,
    auroc,
    brier,
    brier_skill,
    confidence_gap,
    ece,
    expected_reward,
    mean_confidence,
    murphy,
    nll,
    overconfidence,
    reliability_curve,
    risk_coverage,
    smooth_ece,
    underconfidence,
)

__all__ = [
    "BINNINGS",
    "METRICS",
    "Binning",
    "Comparison",
    "Difference",
    "Estimate",
    "MacroAverage",
    "Murphy",
    "ReliabilityCurve",
    "RiskCoverage",
    "Summary",
    "accuracy",
    "aurc",
    "auroc",
    "brier",
    "brier_skill",
    "compare",
    "compare_common",
    "confidence_gap",
    "ece",
    "expected_reward",
    "macro_average",
    "macro_difference",
    "mean_confidence",
    "murphy",
    "nll",
    "overconfidence",
    "reliability_curve",
    "risk_coverage",
    "smooth_ece",
    "summary",
    "underconfidence",
]
