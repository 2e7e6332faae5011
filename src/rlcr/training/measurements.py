"""What is measured of every update while a model trains, and the file it is written to.

``updates.jsonl`` in the run's folder has one JSON object a line. :func:`measure_update` gives what the
rollouts tell; the trainer adds what only it knows (update, epoch, seconds, lr, loss, grad_norm, entropy,
entropy_bonus, kl, how far sampler and trainer are apart (:mod:`rlcr.training.mismatch`), and learned_from:
the completions with an advantage, replayed ones included, without which nothing was taught; and
refilled_groups: how many groups made room for others, so that the numbers below are of what was learned from,
not of a fair draw of problems).

Differs from evaluation: completions are sampled at the training temperature and read strictly, and there
are no intervals. Values of one update are noisy, and the trend over many is what counts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlcr.errors import RlcrError
from rlcr.metrics import auroc, brier, ece
from rlcr.reward import abstains
from rlcr.runs.lines import Appender, cells_of, json_line, mend, sealed, write_whole
from rlcr.training.rollouts import Rollout

#: The measurements of the updates inside the run's folder.
UPDATES = "updates.jsonl"

# Rewards of equal responses are equal but for rounding.
_EQUAL = 1e-9


def measure_update(rollouts: Sequence[Rollout], group: int, abstention: str = "") -> dict[str, Any]:
    """Every number that the rollouts of an update tell, ready for JSON; None where there is none.

    ``group`` consecutive rollouts share a prompt; ``abstention`` is an answer by which the task lets a model
    abstain, besides "I don't know". An arrow says which way is better.

    ===================== ====================================================================== ==
    of scorable rollouts
    reward                mean reward                                                            ↑
    reward_std            its standard deviation over all rollouts: sqrt(mean((r - mean r)^2))
    parts                 mean of each reward part, before weights                               ↑
    accuracy              share that is correct; malformed is wrong                              ↑
    zero_variance_groups  share of groups whose rewards are all equal: they teach nothing        ↓
    of scorable rollouts with a confidence q (c = 1 if correct, else 0)
    brier                 mean((q - c)^2)                                                        ↓
    ece                   sum over bins of (rows in bin / n) |mean q - mean c|, the paper's bins ↓
    auroc                 chance that a right one has the higher q; None with one class          ↑
    of all rollouts with a confidence
    confidence_mean       mean(q): good when near the accuracy
    confidence_std        sqrt(mean((q - mean q)^2)); 0 says nothing about the question
    distinct_confidences  how many different values were stated
    top_confidence        the value stated most often (the lowest of several)
    top_confidence_share  its share of the stated confidences; near 1 is a collapse
    of all rollouts
    well_formed           share that passes the strict reading                                   ↑
    completions           how many there are
    unscorable            how many nobody could grade                                            ↓
    unscorable_reason     the most common reason
    abstained             share that answers "I don't know", or what the task allows instead
    empty_answers         share with nothing between the answer tags                             ↓
    tokens_mean           mean length
    tokens_max            greatest length
    truncated             share that ran into the limit                                          ↓
    ===================== ====================================================================== ==
    """
    if group < 1 or len(rollouts) % group:
        raise RlcrError(f"{len(rollouts)} rollouts cannot be cut into groups of {group}")
    n = len(rollouts)
    scorable = [r for r in rollouts if r.reward is not None]
    rewards = np.array([r.reward for r in scorable], dtype=np.float64)
    lost = Counter(r.reason for r in rollouts if r.reward is None)
    names = rollouts[0].parts if rollouts else ()
    stated = [r.confidence for r in rollouts if r.confidence is not None]
    tokens = [r.tokens for r in rollouts]
    # Many answers are alike, and each is looked at once.
    answers = Counter(r.answer for r in rollouts)
    abstained = sum(
        times for answer, times in answers.items() if abstains(answer) or (answer and answer == abstention)
    )
    return {
        "reward": _mean(rewards),
        "reward_std": float(rewards.std()) if len(rewards) else None,
        "parts": {name: _mean([r.parts[name] for r in scorable]) for name in names},
        "accuracy": _mean([r.verdict == "correct" for r in scorable]),
        **_calibration(scorable),
        **_spread(stated),
        "well_formed": _mean([r.well_formed for r in rollouts]),
        "completions": n,
        "unscorable": n - len(scorable),
        "unscorable_reason": next((reason for reason, _ in lost.most_common(1)), None),
        "abstained": abstained / n if n else None,
        "empty_answers": answers[""] / n if n else None,
        "zero_variance_groups": _zero_variance(rollouts, group),
        "tokens_mean": _mean(tokens),
        "tokens_max": max(tokens, default=None),
        "truncated": _mean([r.truncated for r in rollouts]),
    }


def _calibration(scorable: Sequence[Rollout]) -> dict[str, float | None]:
    rated = [r for r in scorable if r.confidence is not None]
    if not rated:
        return {"brier": None, "ece": None, "auroc": None}
    correct = np.array([r.verdict == "correct" for r in rated])
    confidence = np.array([r.confidence for r in rated], dtype=np.float64)
    return {
        "brier": brier(correct, confidence),
        "ece": ece(correct, confidence),
        "auroc": auroc(correct, confidence),
    }


def _spread(stated: Sequence[float]) -> dict[str, float | int | None]:
    times = Counter(stated)
    top = min(times, key=lambda value: (-times[value], value), default=None)
    return {
        "confidence_mean": _mean(stated),
        "confidence_std": float(np.std(stated)) if stated else None,
        "distinct_confidences": len(times),
        "top_confidence": top,
        "top_confidence_share": None if top is None else times[top] / len(stated),
    }


def _zero_variance(rollouts: Sequence[Rollout], group: int) -> float | None:
    return float(equal_groups(rollouts, group).mean()) if rollouts else None


def equal_groups(rollouts: Sequence[Rollout], group: int) -> NDArray[np.bool_]:
    """Of each group, whether all its rewards are equal, so that nothing can be learned from it."""
    # A group with one reward or none has nothing to compare either: the difference is 0 or -inf.
    rewards_PG = [[r.reward for r in rollouts[i : i + group]] for i in range(0, len(rollouts), group)]
    high_P = np.array([[-math.inf if r is None else r for r in row] for row in rewards_PG]).max(axis=1)
    low_P = np.array([[math.inf if r is None else r for r in row] for row in rewards_PG]).min(axis=1)
    return high_P - low_P <= _EQUAL


def _mean(values: ArrayLike) -> float | None:
    array = np.asarray(values, dtype=np.float64)
    return float(array.mean()) if array.size else None


class UpdateLog:
    """The file of measurements, one line an update, each on disk when :meth:`append` returns."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, line: Mapping[str, Any]) -> None:
        """Add the line of an update. A loss that is not finite is written as null: JSON knows no NaN."""
        # Opened each time: nothing to close, and drop_after may replace the file in between.
        appender = Appender(self.path)
        try:
            appender.write([_plain(line)])
        finally:
            appender.close()

    def drop_after(self, update: int) -> None:
        """Keep the lines up to an update, and no torn one: what a run resumes from. The file stays whole."""
        mend(self.path, "left out: its measurements are lost, and nothing else")
        if self.path.exists():
            kept = [line for line in read_updates(self.path) if line["update"] <= update]
            write_whole(self.path, (sealed(json_line(line)) for line in kept))


def read_updates(path: Path) -> list[dict[str, Any]]:
    """The lines of the updates in their order; none if there is no file. A torn last line is left out."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RlcrError(f"{path}: cannot be read: {error.strerror}") from None
    lines = []
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        try:
            lines.append(cells_of(line)[0])
            int(lines[-1]["update"])
        except (ValueError, KeyError, TypeError) as error:
            why = error if isinstance(error, ValueError) else "not the line of an update"
            raise RlcrError(f"{path}, line {number}: damaged: {why}; --resume leaves it out") from None
    return lines


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
