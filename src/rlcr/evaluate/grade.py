"""The one grader: what a completion says, and whether that is right.

Two gradings. ``strict`` (the default) reads leniently, so that a misplaced tag does not hide an answer, and
compares both sides as what they mean. ``paper`` reads and compares as the authors' evaluation code does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rlcr.evaluate.methods import read_forced_answer, read_forced_confidence
from rlcr.metrics.likelihood import sound_logprobs
from rlcr.problem import Problem
from rlcr.response import Response, parse
from rlcr.verify import Grading, Verdict, Verifier, of_responses, verify


def grade(
    records: Sequence[dict[str, Any]], problems: Sequence[Problem], grading: Grading, judge: Verifier | None
) -> list[dict[str, Any]]:
    """Read and verify completions: the raw parts of records in, whole records out."""
    read = [_read(record, grading) for record in records]
    answers = [answer for _, answer, _ in read]
    verdicts = of_responses(
        [response for response, _, _ in read], verify(problems, answers, grading=grading, judge=judge)
    )
    return [
        record | _graded(record, grading, response, answer, confidence, verdict, problem)
        for record, problem, (response, answer, confidence), verdict in zip(
            records, problems, read, verdicts, strict=True
        )
    ]


def _read(record: dict[str, Any], grading: Grading) -> tuple[Response, str | None, float | None]:
    response = read_response(record["text"], record["format"], grading, record["think_open"])
    answer, confidence = response.answer, response.confidence
    if response.error:
        return response, answer, confidence
    if record["forced_answer"] is not None:
        answer = read_forced_answer(record["forced_answer"])
    if record["forced_confidence"] is not None:
        confidence = read_forced_confidence(record["forced_confidence"], grading)
    return response, answer, confidence


def read_response(text: str, format: str, grading: Grading, think_open: bool) -> Response:
    """A response as a grading reads it."""
    return parse(text, format, mode="paper" if grading == "paper" else "lenient", think_open=think_open)


def _graded(
    record: dict[str, Any],
    grading: Grading,
    response: Response,
    answer: str | None,
    confidence: float | None,
    verdict: Verdict,
    problem: Problem,
) -> dict[str, Any]:
    # Checked by the sampler, unless the record was made by a version that did not.
    logprobs = sound_logprobs(record["answer_logprobs"].get(grading) or ())
    probability = math.fsum(map(math.exp, logprobs)) / len(logprobs) if logprobs else None
    return {
        "answer": answer,
        "confidence": confidence,
        "confidences": {"verbalised": confidence, "answer-probability": probability},
        "verdict": verdict.outcome,
        "reason": verdict.reason,
        "verifier": problem.verifier,
        "well_formed": response.well_formed,
        "fault": response.fault,
        "leniencies": list(response.leniencies),
        "repairs": [part for part in ("answer", "confidence") if record[f"forced_{part}"] is not None],
    }
