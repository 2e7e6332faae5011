"""The one grader: what a completion says, and whether that is right.

Two gradings. ``strict`` (the default) reads leniently, so that a misplaced tag does not hide an answer, and
compares both sides as what they mean. ``paper`` reads and compares as the authors' evaluation code does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

from rlcr.evaluate.methods import read_forced_answer, read_forced_confidence
from rlcr.metrics.likelihood import sound_logprobs
from rlcr.problem import Problem
from rlcr.response import Response, parse
from rlcr.runs.record import SAMPLED, Record, Sampled
from rlcr.verify import Grading, Verdict, Verifier, is_wrapped, of_responses, verify


def grade(
    completions: Sequence[Sampled],
    problems: Sequence[Problem],
    grading: Grading,
    judge: Verifier | None,
    own: Mapping[str, Verifier] | None = None,
) -> list[Record]:
    """Read and verify completions, each an answer to the problem at its place."""
    readings = [read_completion(completion, grading) for completion in completions]
    answers = [answer for _, answer, _ in readings]
    said = verify(problems, answers, grading=grading, judge=judge, own=own)
    verdicts = of_responses([response for response, _, _ in readings], said)
    return [
        _record(completion, grading, reading, verdict, problem)
        for completion, problem, reading, verdict in zip(
            completions, problems, readings, verdicts, strict=True
        )
    ]


@lru_cache(maxsize=1024)
def read_response(text: str, format: str, grading: Grading, think_open: bool) -> Response:
    """A response as a grading reads it; once, though its next stage, its answer and its verdict all ask."""
    return parse(text, format, mode="paper" if grading == "paper" else "lenient", think_open=think_open)


Reading = tuple[Response, str | None, float | None]


def read_completion(completion: Sampled, grading: Grading) -> Reading:
    """The response, and its answer and confidence: those of forced continuations where there are any."""
    response = read_response(completion.text, completion.format, grading, completion.think_open)
    answer, confidence = response.answer, response.confidence
    if response.error:
        return response, answer, confidence
    if completion.forced_answer is not None:
        answer = read_forced_answer(completion.forced_answer)
    if completion.forced_confidence is not None:
        confidence = read_forced_confidence(completion.forced_confidence, grading)
    return response, answer, confidence


def _record(
    completion: Sampled, grading: Grading, reading: Reading, verdict: Verdict, problem: Problem
) -> Record:
    response, answer, confidence = reading
    # Counted with what the reading had to bend; the authors' grading has its own ways.
    wrapped = grading == "strict" and answer is not None and is_wrapped(problem.verifier, answer)
    logprobs = sound_logprobs(completion.answer_logprobs.get(grading) or ())
    return Record(
        **{name: getattr(completion, name) for name in SAMPLED},
        answer=answer,
        confidence=confidence,
        answer_probability=math.fsum(map(math.exp, logprobs)) / len(logprobs) if logprobs else None,
        verdict=verdict.outcome,
        reason=verdict.reason,
        verifier=problem.verifier,
        well_formed=response.well_formed,
        fault=response.fault,
        leniencies=(*response.leniencies, *(["wrapped-answer"] if wrapped else [])),
    )
