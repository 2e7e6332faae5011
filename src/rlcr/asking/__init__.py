"""Answers that an application can act on: a text, a confidence, and whether that is enough (docs/ask.md).

    answer = rlcr.ask(OpenAI(base_url=…), "Which city …?", samples=8, threshold=0.7)
    answer.text, answer.confidence, answer.abstained

    clients   from any OpenAI-compatible client, or one of our samplers, to completions
    files     thresholds of `rlcr select`, maps of `rlcr confidence`

Asking is what `rlcr eval` does with one question: the same prompts, reading, repairs, votes and rule of
stopping. There is no gold, so nothing is verified; answers are compared with each other only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import TypedDict, Unpack

import numpy as np

from rlcr.asking.clients import Asker, Client, open_asker, run_now
from rlcr.asking.files import load_recalibration, load_threshold
from rlcr.errors import RlcrError, described, nearest
from rlcr.evaluate.grade import read_completion, read_response
from rlcr.evaluate.methods import Method, forced_prefix, get_method, needs_answer, needs_confidence
from rlcr.evaluate.stages import repair_sampling
from rlcr.many.equivalence import Memory, group_many
from rlcr.many.standings import AnswerVotes, standings
from rlcr.many.stopping import Rule
from rlcr.metrics.recalibration import Recalibration
from rlcr.problem import Problem
from rlcr.prompts import load_prompt, messages
from rlcr.runs.record import Sampled
from rlcr.sample import Completion, Request, Sampler, Sampling
from rlcr.verify import get_plain_verifier, get_verifier

__all__ = ["Answer", "Settings", "Vote", "ask", "ask_async"]

#: Of several samples, as for `rlcr eval`.
_TEMPERATURE = 0.7


@dataclass(frozen=True, slots=True)
class Vote:
    """One of the answers that were given: how often, and how sure its samples were on average."""

    answer: str
    votes: int
    confidence: float | None


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a question.

    ``text`` is the answer, also where ``abstained`` says that it should not be given (or None, where no
    sample held one). ``confidence`` is the chance of being right that the model states for it: of several
    samples the mean of those that gave it, recalibrated where a map was given; None where none was stated.
    ``analysis`` is that of the surest of them. ``votes`` are all answers, the chosen one first. ``samples``
    were drawn, with ``tokens`` tokens (0 where the server does not count).
    """

    text: str | None
    confidence: float | None
    analysis: str | None
    votes: tuple[Vote, ...]
    abstained: bool
    samples: int
    tokens: int


class Settings(TypedDict, total=False):
    """How to ask; what is left out has the default that stands behind it."""

    model: str | None
    """The client's model; may be left out where its server has one only."""
    method: str | Method
    """How to ask and to read, as for `rlcr eval`: "rlcr"."""
    verifier: str
    """By which rule two answers are the same: "exact"."""
    samples: int
    """How many to draw: 1. Several are a vote, weighted by their confidence."""
    safety: float | None
    """Stop early when the leading answer stays ahead with this chance, such as 0.95: None, never."""
    threshold: float | str | Path | None
    """Abstain below this confidence, a number or the selective.json of a run: None, never."""
    recalibration: str | Path | None
    """A map from stated confidences to chances: the JSON of a column by `rlcr confidence add`. None."""
    temperature: float | None
    """0 for one sample, 0.7 for several."""
    max_tokens: int
    """Of a response: 4096."""
    seed: int
    """Of the sampling: 0."""


def ask(client: Client | Sampler, question: str | Problem, **settings: Unpack[Settings]) -> Answer:
    """Ask once, or several times and vote, as the :class:`Settings` say.

    ``client`` is an OpenAI-compatible client (``openai.OpenAI``, or anything with its
    ``chat.completions.create``) or one of rlcr's samplers. ``question`` may be a
    :class:`~rlcr.problem.Problem`, whose verifier, choices and instruction then count.

    Errors of the client pass through as they are; mistakes in the settings raise
    :class:`~rlcr.errors.RlcrError`.
    """
    plan = _planned(question, settings)
    return run_now(_ask(open_asker(client, plan.model, waits=False), plan))


async def ask_async(
    client: Client | Sampler, question: str | Problem, **settings: Unpack[Settings]
) -> Answer:
    """:func:`ask` for an asynchronous client, such as ``openai.AsyncOpenAI``."""
    plan = _planned(question, settings)
    return await _ask(open_asker(client, plan.model, waits=True), plan)


def _planned(question: str | Problem, settings: Settings) -> _Plan:
    for name in settings:
        if name not in Settings.__annotations__:
            raise RlcrError(f"ask: unknown setting {name!r}: {nearest(name, list(Settings.__annotations__))}")
    return _Plan.of(question, **settings)


@dataclass(frozen=True)
class _Plan:
    """The settings of a question, checked."""

    problem: Problem
    model: str | None
    method: Method
    rule: Rule | None
    samples: int
    threshold: float | None
    recalibration: Recalibration | None
    sampling: Sampling

    @classmethod
    def of(
        cls,
        question: str | Problem,
        *,
        model: str | None = None,
        method: str | Method = "rlcr",
        verifier: str = "exact",
        samples: int = 1,
        safety: float | None = None,
        threshold: float | str | Path | None = None,
        recalibration: str | Path | None = None,
        temperature: float | None = None,
        max_tokens: int = 4096,
        seed: int = 0,
    ) -> _Plan:
        if isinstance(samples, bool) or not isinstance(samples, Integral) or samples < 1:
            raise RlcrError(f"samples is {samples!r}: expected a whole number, at least one")
        samples = int(samples)
        if temperature is None:
            temperature = 0.0 if samples == 1 else _TEMPERATURE
        if samples > 1 and temperature == 0:
            raise RlcrError("several samples at temperature 0 are the same: give a temperature above 0")
        if safety is not None and samples == 1:
            raise RlcrError("safety is for several samples: give samples, the most that may be drawn")
        if isinstance(threshold, (str, Path)):
            threshold = load_threshold(Path(threshold), samples, recalibration)
        elif threshold is not None and not 0 <= threshold <= 1:
            raise RlcrError(f"the threshold is a confidence from 0 to 1, or a file; got {threshold}")
        problem = question if isinstance(question, Problem) else Problem("question", question, (), verifier)
        if not isinstance(problem.question, str) or not problem.question.strip():
            raise RlcrError(f"a question is a text or a Problem with one; got {described(problem.question)}")
        if isinstance(question, Problem):
            get_verifier(problem.verifier)
        else:
            get_plain_verifier(verifier, "for a question by itself")
        sampling = Sampling(max_tokens=max_tokens, temperature=temperature, seed=seed)
        sampling.check()
        return cls(
            problem=problem,
            model=model,
            method=method if isinstance(method, Method) else get_method(method),
            rule=None if safety is None else Rule(budget=samples, safety=safety),
            samples=samples,
            threshold=threshold,
            recalibration=load_recalibration(Path(recalibration)) if recalibration else None,
            sampling=sampling,
        )

    def request(self, first: int, n: int) -> Request:
        """Ask for samples ``first`` to ``first + n - 1``."""
        prompt = load_prompt(self.method.prompt, format=self.method.format)
        return Request(self.problem.id, tuple(messages(prompt, self.problem)), n=n, first_sample=first)


async def _ask(asker: Asker, plan: _Plan) -> Answer:
    drawn: list[Sampled] = []
    memory: Memory = {}
    while True:
        used = len(drawn)
        rounds = plan.rule.rounds if plan.rule else (plan.samples,)
        until = next(n for n in rounds if n > used)
        new = await asker.complete([plan.request(used, until - used)], plan.sampling)
        drawn += await _repaired([_sampled(plan, one) for one in new or ()], asker, plan)
        readings = [_Reading.of(one, plan.recalibration) for one in drawn]
        groups = group_many([(plan.problem, [one.answer for one in readings])], memory)[0]
        ranked = standings(groups, [one.confidence for one in readings])
        if len(drawn) >= plan.samples or (plan.rule and _settled(plan.rule, ranked, len(drawn))):
            return _answer(plan, drawn, readings, groups, ranked)


def _settled(rule: Rule, ranked: Sequence[AnswerVotes], used: int) -> bool:
    first, second = [*(one.weight for one in ranked[:2]), 0.0, 0.0][:2]
    return bool(rule.stops(np.array(first), np.array(second), used))


@dataclass(frozen=True, slots=True)
class _Reading:
    """What a sample says."""

    answer: str | None
    confidence: float | None
    analysis: str | None

    @classmethod
    def of(cls, sampled: Sampled, recalibration: Recalibration | None) -> _Reading:
        response, answer, confidence = read_completion(sampled, "strict")
        if recalibration and confidence is not None:
            confidence = float(recalibration.chance(np.array([confidence]))[0])
        return cls(answer or None, confidence, response.part("analysis"))


def _sampled(plan: _Plan, completion: Completion) -> Sampled:
    return Sampled(
        id=plan.problem.id,
        sample=completion.sample,
        task="",
        format=plan.method.format,
        text=completion.text,
        think_open=completion.think_open,
        tokens=completion.completion_tokens,
    )


async def _repaired(drawn: list[Sampled], asker: Asker, plan: _Plan) -> list[Sampled]:
    """Samples with forced continuations where an answer or a confidence is missing, if the server can."""
    drawn = await _forced("answer", drawn, asker, plan)
    return await _forced("confidence", drawn, asker, plan)


async def _forced(part: str, drawn: list[Sampled], asker: Asker, plan: _Plan) -> list[Sampled]:
    missing = needs_answer if part == "answer" else needs_confidence
    conversation = plan.request(0, 1).messages
    requests = {
        place: Request(
            f"{one.id}\0{one.sample}", conversation, prefix=forced_prefix(part, one.text, one.forced_answer)
        )
        for place, one in enumerate(drawn)
        if missing(read_response(one.text, one.format, "strict", one.think_open))
    }
    if not requests:
        return drawn
    completions = await asker.complete(list(requests.values()), repair_sampling(part))
    if completions is None:  # it continues no response: what is missing stays missing
        return drawn
    found = {completion.key: completion for completion in completions}
    repaired = list(drawn)
    for place, request in requests.items():
        one, more = drawn[place], found[request.key]
        field = {f"forced_{part}": more.text}
        repaired[place] = replace(one, **field, tokens=one.tokens + more.completion_tokens)
    return repaired


def _answer(
    plan: _Plan,
    drawn: Sequence[Sampled],
    readings: Sequence[_Reading],
    groups: Sequence[int],
    ranked: Sequence[AnswerVotes],
) -> Answer:
    of_group: dict[int, list[_Reading]] = {}
    for group, reading in zip(groups, readings, strict=True):
        of_group.setdefault(group, []).append(reading)
    surest = {group: max(some, key=_sureness) for group, some in of_group.items()}
    votes = tuple(Vote(surest[one.group].answer or "", one.votes, one.confidence) for one in ranked)
    best = ranked[0] if ranked else None
    confidence = best.confidence if best else None
    enough = plan.threshold is None or (confidence is not None and confidence >= plan.threshold)
    return Answer(
        text=votes[0].answer if votes else None,
        confidence=confidence,
        analysis=surest[best.group].analysis if best else None,
        votes=votes,
        abstained=best is None or not enough,
        samples=len(drawn),
        tokens=sum(one.tokens for one in drawn),
    )


def _sureness(reading: _Reading) -> float:
    return -math.inf if reading.confidence is None else reading.confidence
