"""From graded samples to a measurement: all of them, group by group, and the average of the groups.

Samples are kept as columns that grow as they are added, at 25 bytes each, so that a million of them need no
more than a few dozen megabytes before the metrics begin.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcr.errors import RlcrError
from rlcr.metrics.intervals import MacroAverage, Progress, Summary, macro_average, summary
from rlcr.metrics.scores import ReliabilityCurve, reliability_curve

#: Called with the share of the work that is done.
ShareDone = Callable[[float], None]

_MOST_GROUPS = 1000


class GradedSamples:
    """Verdicts and confidences of samples, with the question each belongs to and, if asked for, its group."""

    def __init__(self) -> None:
        self._correct = array("b")
        self._confidence = array("d")
        self._question = array("q")
        self._group = array("q")
        self._group_names: dict[str, int] = {}
        self.unscorable = 0
        self.failed = 0
        """Samples that were asked for and never came."""

    def add(
        self, correct: bool | None, confidence: float | None, *, question: int, group: str | None = None
    ) -> None:
        """Add one sample. One that could not be judged is counted and otherwise left out."""
        code = 0
        if group is not None:
            code = self._group_names.setdefault(group, len(self._group_names))
            if code >= _MOST_GROUPS:
                raise RlcrError(f"more than {_MOST_GROUPS} groups: this column does not name groups")
        if correct is None:
            self.unscorable += 1
            return
        self._correct.append(correct)
        self._confidence.append(math.nan if confidence is None else confidence)
        self._question.append(question)
        self._group.append(code)

    def states_any(self) -> bool:
        """Whether any sample states a confidence."""
        return any(stated == stated for stated in self._confidence)  # NaN differs from itself

    def measure(self, *, resamples: int = 1000, progress: ShareDone | None = None) -> Measurement:
        """All metrics over all samples, and over each group if there is more than one."""
        if not self._correct:
            raise RlcrError(
                f"no sample can be scored ({self.unscorable} unscorable), so there is nothing to measure"
            )
        correct = np.frombuffer(self._correct, dtype=np.int8)
        confidence = np.frombuffer(self._confidence, dtype=np.float64)
        question = np.frombuffer(self._question, dtype=np.int64)
        group = np.frombuffer(self._group, dtype=np.int64)
        steps = 2 if self._group_names else 1  # the groups together are as long as the whole
        tick = (lambda done, total: progress(done / total / steps)) if progress else None
        overall = _summary(correct, confidence, question, resamples, tick)
        by: dict[str, Summary] = {}
        if steps == 2:
            for name, code in sorted(self._group_names.items(), key=lambda item: _natural(item[0])):
                rows = group == code
                if not rows.any():
                    continue  # nothing of it could be scored
                by[name] = _summary(correct[rows], confidence[rows], question[rows], resamples, None)
                if progress:
                    progress((1 + len(by) / len(self._group_names)) / 2)
        return Measurement(
            overall=overall,
            by=by,
            macro=macro_average(by) if by else None,
            unscored_groups=tuple(name for name in self._group_names if name not in by),
            unscorable=self.unscorable,
            failed=self.failed,
            correct=correct,
            confidence=confidence,
        )


def _natural(name: str) -> list[tuple[int, int, str]]:
    """A key by which 10 comes after 9, and names without numbers as usual."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"([0-9]+)", name)]


def _summary(
    correct: NDArray[np.int8],
    confidence: NDArray[np.float64],
    question: NDArray[np.int64],
    resamples: int,
    progress: Progress | None,
) -> Summary:
    # Labels only where a question has several samples: without them resampling is much cheaper.
    labels = question.tolist() if len(np.unique(question)) < len(question) else None
    return summary(correct, confidence, question=labels, resamples=resamples, progress=progress)


@dataclass(frozen=True)
class Measurement:
    """Metrics of all samples, of each group, and the unweighted average over groups."""

    overall: Summary
    by: dict[str, Summary]
    macro: MacroAverage | None
    unscored_groups: tuple[str, ...]
    unscorable: int
    failed: int
    correct: NDArray[np.int8]
    confidence: NDArray[np.float64]

    def to_dict(self) -> dict[str, Any]:
        """As JSON: that of the summary, with what is not in it and, if there are groups, "by" and "macro"."""
        result = self.overall.to_dict() | {"unscorable": self.unscorable, "failed": self.failed}
        if self.macro:
            result["by"] = {name: group.to_dict() for name, group in self.by.items()}
            result["macro"] = self.macro.to_dict()
        return result

    def reliability(self) -> ReliabilityCurve:
        """The reliability curve of all samples that state a confidence."""
        rated = ~np.isnan(self.confidence)
        if not rated.any():
            raise RlcrError("no sample states a confidence, so there is no reliability curve to draw")
        # Decimal bins: a bar over 0.7 to 0.8 should hold the answers of 0.7.
        return reliability_curve(self.correct[rated], self.confidence[rated], binning="decimal")
