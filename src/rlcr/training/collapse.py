"""Warnings when a run collapses, learns nothing or cannot be graded, with the reason and what to try.

Updates are noisy, so means over many are compared, and a change counts only when it is large *and* far
outside the scatter of the updates themselves: a run with 8 completions an update is not alarmed by its noise.
Each kind of warning is given once, and again only after the run has recovered from it. An update that teaches
nothing is no matter of chance: the first is warned of, and the next after ten that taught.

The state follows from the lines of ``updates.jsonl`` alone: observing them again restores it.

A run that cannot begin is not warned but stopped (:func:`nothing_well_formed`).
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlcr.training.rollouts import Rollout
from rlcr.training.teaching import taught, why_nothing
from rlcr.verify.verdict import unscorable_warning

# Updates in a mean of accuracy or reward. Prompts differ in difficulty, so these are the noisiest.
TREND_WINDOW = 20
# Updates in a mean of a share or of entropy, which are steadier; short, since a collapse is quick.
LEVEL_WINDOW = 10
# A change must be this many standard errors of the difference. In a long run the best of many noisy means
# lies 3 or 4 of its own above the truth and the worst as far below it: up to 5 are reached by chance
# (simulated runs of 1,000 updates with 8 completions: with 5, 8 false alarms in 60; with 6, none in 100).
SURE = 6.0
# Accuracy has fallen when it lost this share of its best: 0.33 to 0.28 on the arms, 0.60 to 0.51 elsewhere.
ACCURACY_LOST = 0.15
# The calibration reward has risen by this much, on the Brier scale from -1 to 0.
CALIBRATION_GAINED = 0.02
# One confidence value has taken over.
ONE_CONFIDENCE = 0.95
# Abstention, or empty answers, have taken over …
TAKEN_OVER = 0.5
# … when they have risen by this much (a model may abstain in half of all cases and be right to) …
TAKEN_OVER_RISE = 0.2
ONE_CONFIDENCE_RISE = 0.05
# … or when it was so from the start and has not changed in this many updates: learning rates are warmed up
# over some 30, before which a model that always says 1.0 has had no chance.
NEVER_CHANGED = 50
# The share of well-formed outputs has fallen: below LOW after it was above HIGH, or by this much.
FORMAT_HIGH, FORMAT_LOW, FORMAT_LOST = 0.95, 0.80, 0.20
# Entropy (nats a token) is gone below this …
ENTROPY_GONE = 0.005
# … or below this share of its start, if it is low in itself: a base model that begins at 2 nats, most of them
# spent on finding the format, is well at 0.1.
ENTROPY_SHARE, ENTROPY_LOW = 0.05, 0.05


def nothing_well_formed(rollouts: Sequence[Rollout]) -> str:
    """What to say where no response of the first update is well-formed; else empty.

    All rewards are equal then, so that the run would go on for ever without learning anything.
    """
    if any(rollout.well_formed for rollout in rollouts):
        return ""
    [(fault, times)] = Counter(rollout.fault for rollout in rollouts).most_common(1)
    return (
        f"none of the {len(rollouts):,} responses of the first update is well-formed ({fault}: {times:,} of"
        " them), so that there is nothing to learn from"
    )


class _Trend:
    """Means of one number over a window that moves with the updates."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._recent: deque[float] = deque(maxlen=width)
        self._squares = 0.0
        self.seen = 0
        self.means: list[float] = []
        #: Which of the earlier means, those that share no update with the latest, is highest and lowest.
        self.highest: int | None = None
        self.lowest: int | None = None

    def add(self, value: float) -> None:
        if self.seen:
            self._squares += (value - self._recent[-1]) ** 2
        self.seen += 1
        self._recent.append(value)
        if len(self._recent) < self._width:
            return
        self.means.append(sum(self._recent) / self._width)
        earlier = len(self.means) - 1 - self._width
        if earlier >= 0:
            mean = self.means[earlier]
            if self.highest is None or mean > self.means[self.highest]:
                self.highest = earlier
            if self.lowest is None or mean < self.means[self.lowest]:
                self.lowest = earlier

    def changed(self, by: float, least: float) -> bool:
        """Whether a difference between two means is more than ``least``, and surely no chance.

        The standard error of the difference is s sqrt(2 / width), with s^2 = mean((x_t - x_(t-1))^2) / 2 over
        all updates: steps from one update to the next hold the noise and little of the trend, and there are
        many of them (a window's own scatter, of ten values, is too often too small by chance).
        """
        error = math.sqrt(self._squares / max(self.seen - 1, 1) / self._width)
        return by > max(least, SURE * error)


class CollapseWatch:
    """Looks at each update's line (:mod:`rlcr.training.measurements`) and says when a run goes wrong."""

    def __init__(self, earlier: Iterable[Mapping[str, Any]] = ()) -> None:
        """``earlier`` are the lines of a run that is resumed; what they warn of has been said."""
        self._accuracy, self._calibration = _Trend(TREND_WINDOW), _Trend(TREND_WINDOW)
        self._one_confidence, self._abstained, self._empty, self._format, self._entropy = (
            _Trend(LEVEL_WINDOW) for _ in range(5)
        )
        self._top: float | None = None
        self._unscorable: str | None = None
        self._nothing: str | None = None
        self._taught = 0
        self._said: set[str] = set()
        for line in earlier:
            self.observe(line)

    def observe(self, line: Mapping[str, Any]) -> list[str]:
        """The warnings that this update gives cause for; mostly none."""
        self._add(line)
        looks = {
            "accuracy": self._look_at_accuracy(),
            "confidence": self._look_at_confidence(),
            "abstention": self._look_at_abstention(),
            "empty answers": self._look_at_empty_answers(),
            "format": self._look_at_format(),
            "entropy": self._look_at_entropy(),
            "unscorable": self._unscorable,
            "teaching": self._nothing,
        }
        warnings = [text for kind, text in looks.items() if text and kind not in self._said]
        # Empty text is health. None is neither: not bad enough to warn, not good enough to have recovered.
        self._said |= {kind for kind, text in looks.items() if text}
        self._said -= {kind for kind, text in looks.items() if text == ""}
        return warnings

    def _add(self, line: Mapping[str, Any]) -> None:
        accuracy, calibration = _number(line, "accuracy"), _number(line.get("parts") or {}, "calibration")
        if accuracy is not None and calibration is not None:  # in step, so that windows belong together
            self._accuracy.add(accuracy)
            self._calibration.add(calibration)
        if (top := _number(line, "top_confidence")) is not None:
            self._top = top
        # Of this update alone: it is no matter of chance.
        if completions := _number(line, "completions"):
            reasons = {line["unscorable_reason"] or "": line["unscorable"]}
            self._unscorable = unscorable_warning(reasons, int(completions)) or ""
        self._taught = self._taught + 1 if taught(line) else 0
        if not self._taught:
            self._nothing = f"update {line.get('update')} taught nothing: {why_nothing(line)}"
        else:
            self._nothing = "" if self._taught >= LEVEL_WINDOW else None
        well_formed = _number(line, "well_formed")
        for trend, value in (
            # Where few outputs are well-formed few confidences are left, and the format is what is wrong.
            (
                self._one_confidence,
                _number(line, "top_confidence_share") if (well_formed or 0) >= 0.5 else None,
            ),
            (self._abstained, _number(line, "abstained")),
            (self._empty, _number(line, "empty_answers")),
            (self._format, well_formed),
            (self._entropy, _number(line, "entropy")),
        ):
            if value is not None:
                trend.add(value)

    def _look_at_accuracy(self) -> str | None:
        """Falling while the calibration reward rises: to be wrong on purpose is easy to be sure of."""
        best = self._accuracy.highest
        if best is None:
            return None
        before, now = self._accuracy.means[best], self._accuracy.means[-1]
        earned, earns = self._calibration.means[best], self._calibration.means[-1]
        fell = self._accuracy.changed(before - now, ACCURACY_LOST * before)
        if fell and self._calibration.changed(earns - earned, CALIBRATION_GAINED):
            return (
                f"accuracy fell from {before:.2f} to {now:.2f} while the calibration reward rose"
                f" from {earned:.2f} to {earns:.2f}: the model earns by wrong answers that it knows"
                " to be wrong. Try a bounded rule with the correctness part (reward=rlcr), more weight on"
                " correctness, or a lower lr"
            )
        return "" if now > (1 - ACCURACY_LOST / 2) * before else None

    def _look_at_confidence(self) -> str | None:
        return _taken_over(
            self._one_confidence,
            ONE_CONFIDENCE,
            ONE_CONFIDENCE_RISE,
            f"{{share:.0%}} of the outputs state one confidence, now {self._top}: it says nothing about the"
            " question any more. Try an entropy bonus (entropy=0.03), a lower lr or a higher temperature",
        )

    def _look_at_abstention(self) -> str | None:
        return _taken_over(
            self._abstained,
            TAKEN_OVER,
            TAKEN_OVER_RISE,
            "{share:.0%} of the outputs abstain: not answering earns more than trying. If the problems are"
            " not that hard, try more weight on correctness, less on abstention, or a bounded scoring rule",
        )

    def _look_at_empty_answers(self) -> str | None:
        return _taken_over(
            self._empty,
            TAKEN_OVER,
            TAKEN_OVER_RISE,
            "{share:.0%} of the answers are empty: saying nothing earns more than trying. Try more weight on"
            " correctness, or a lower lr",
        )

    def _look_at_format(self) -> str | None:
        best = self._format.highest
        if best is None:
            return None
        before, now = self._format.means[best], self._format.means[-1]
        was_good = before >= FORMAT_HIGH and now < FORMAT_LOW
        if self._format.changed(before - now, FORMAT_HIGH - FORMAT_LOW if was_good else FORMAT_LOST):
            return (
                f"well-formed outputs fell from {before:.0%} to {now:.0%}. Read the faults in the"
                " rollouts; if outputs are cut off, try a larger max_completion_tokens, else more weight on"
                " format, a lower lr, or a KL term (kl=0.01)"
            )
        return "" if before - now < FORMAT_LOST / 2 else None

    def _look_at_entropy(self) -> str | None:
        if not self._entropy.means:
            return None
        start, now = self._entropy.means[0], self._entropy.means[-1]
        gone = max(ENTROPY_GONE, min(ENTROPY_SHARE * start, ENTROPY_LOW))
        if now < gone:
            return (
                f"entropy is gone: {now:.4f} nats a token, from {start:.2f} at the start. The samples of a"
                " prompt are all alike, and nothing more can be learned from them. Try an entropy bonus"
                " (entropy=0.03), a higher temperature or a lower lr"
            )
        return "" if now > 2 * gone else None


def _taken_over(trend: _Trend, level: float, rise: float, text: str) -> str | None:
    """Whether a share is above a level, and has risen to it or never was below."""
    if not trend.means:
        return None
    now = trend.means[-1]
    if now > level:
        if trend.lowest is None:
            return None
        lowest = trend.means[trend.lowest]
        always = lowest > level and trend.seen >= NEVER_CHANGED
        return text.format(share=now) if always or trend.changed(now - lowest, rise) else None
    return "" if now < level - rise / 2 else None


def _number(values: Mapping[str, Any], key: str) -> float | None:
    value = values.get(key)
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
