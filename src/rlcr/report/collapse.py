"""Runs that gave up: never right, or nearly always abstaining. Their calibration is no merit.

Who always says "I don't know, confidence 0" has an ECE of 0. The page calls such a run what it is, and marks
nothing of it as best or better.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlcr.metrics.tables import Mark
from rlcr.report.fields import UNSCORABLE
from rlcr.report.reading import EvalRun
from rlcr.reward import abstains
from rlcr.runs.record import CORRECT
from rlcr.tasks import TASKS

#: From this share of abstentions on, a run is said to have given up.
NEARLY_ALWAYS = 0.9
# Texts lie in the file: of a long run this many, even over all of it, are looked at.
_LOOKED_AT = 400


def collapse_of(run: EvalRun, tasks: Sequence[str]) -> tuple[Mark, str]:
    """The mark of a collapsed run and a sentence on it; both empty for every other."""
    rows = run.rows.of(tasks)
    verdicts = run.rows.verdict[rows]
    scored = verdicts[verdicts != UNSCORABLE]
    if not len(scored):
        return "", ""
    # An abstention is not right, so that only those who hardly ever are need a look at their answers.
    if (scored == CORRECT).mean() <= 1 - NEARLY_ALWAYS:
        at = np.flatnonzero(rows)
        at = at[np.linspace(0, len(at) - 1, min(_LOOKED_AT, len(at))).round().astype(int)]
        silent = sum(_is_silent(run.record(int(row))) for row in at) / len(at)
        if silent >= NEARLY_ALWAYS:
            return "gave up", f"{run.label} gave up: {silent:.0%} of its answers abstain or are empty"
    if not (scored == CORRECT).any():
        return "never right", f"{run.label} is never right: none of its {len(scored):,} scored answers is"
    return "", ""


def _is_silent(record: dict[str, object]) -> bool:
    answer = record.get("answer")
    if not isinstance(answer, str) or not answer.strip():
        return True
    task = TASKS.get(str(record.get("task")))
    return abstains(answer) or bool(task and task.abstention and answer.strip() == task.abstention)
