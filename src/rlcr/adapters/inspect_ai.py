"""Scorer and metric for inspect_ai (0.3.285), found by its entry point once rlcr is installed:

    inspect score LOG --scorer rlcr/calibrated -S verifier=math     logs that you have
    Task(dataset=…, solver=…, scorer=calibrated(verifier="math"))   a task of your own

The value of a sample is 1 or 0, or unscored (``Score.unscored``) where nobody can judge it; the confidence is
in the score's metadata. The metric reports accuracy, AUROC, Brier score and ECE with their 95% intervals
(``_low``, ``_high``), over all epochs, epochs of a sample being resampled together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyio import to_thread  # inspect runs on asyncio or trio
from inspect_ai.scorer import (  # pyright: ignore[reportMissingImports]
    Metric,
    SampleScore,
    Score,
    Scorer,
    Target,
    metric,
    scorer,
)
from inspect_ai.solver import TaskState  # pyright: ignore[reportMissingImports]

from rlcr.adapters import core
from rlcr.adapters.measuring import Sample, measured


@metric(scores="unreduced")
def calibration(resamples: int = 1000) -> Metric:
    """Accuracy, AUROC, Brier score and ECE with intervals, and the share of answers with a confidence."""

    def measure(scores: Sequence[SampleScore]) -> dict[str, float | None]:
        samples = [
            Sample(one.sample_id, bool(one.score.as_float()), (one.score.metadata or {}).get("confidence"))
            for one in scores
        ]
        found: dict[str, float | None] = {}
        for name, estimate in measured(samples, resamples=resamples).items():
            found[name] = estimate.value
            if name != "coverage":
                found |= {f"{name}_low": estimate.low, f"{name}_high": estimate.high}
        return found

    return measure


@scorer(metrics=[calibration()])
def calibrated(verifier: str = "exact", format: str = "rlcr", think_open: bool = False) -> Scorer:
    """Read the tags, compare the answer with any of the targets, keep the stated confidence.

    The sample's metadata may name another ``verifier``. Its choices, or those by letter in its metadata, are
    those of the choice verifier.
    """
    grader = core.Scorer(
        reward="rlvr" if format == "rlvr" else "rlcr", verifier=verifier, format=format, think_open=think_open
    )

    async def score(state: TaskState, target: Target) -> Score:
        message = state.output.message if state.output.choices else None
        metadata = state.metadata or {}
        about: dict[str, Any] = {
            "question": state.input_text,
            "verifier": metadata.get("verifier"),
            "choices": [choice.value for choice in state.choices] or metadata.get("choices"),
        }
        row = core.Row.of(message, list(target), about)
        (record,) = await to_thread.run_sync(grader.grade, [row])
        found = {
            "confidence": record.confidence,
            "well_formed": record.well_formed,
            "leniencies": list(record.leniencies),
        }
        if record.correct is None:
            return Score.unscored(
                reason="scoring_failed", answer=record.answer, explanation=record.reason, metadata=found
            )
        reason = record.reason or record.fault
        return Score(
            value=float(record.correct), answer=record.answer, explanation=reason or None, metadata=found
        )

    return score
