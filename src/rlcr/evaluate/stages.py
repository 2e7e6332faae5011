"""Problems and a sampler in, records out: the stages that each completion goes through.

Each completion goes through up to three stages, all of them written to disk as they happen:

    response     what the model writes
    answer       a forced continuation, where the response holds no valid answer
    confidence   a forced continuation, where it holds no confidence that can be read

A completion that has all it needs is graded and becomes a record. Grading needs nothing but the raw part of
a record, so that it can be done again at any time. A response that is refused is written down as failed.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import time
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, pairwise
from typing import Any, get_args

from rlcr.evaluate.grade import grade, read_response
from rlcr.evaluate.methods import (
    FORCED_TOKENS,
    Method,
    answer_span,
    forced_answer_span,
    forced_prefix,
    needs_answer,
    needs_confidence,
)
from rlcr.evaluate.progress import Watch
from rlcr.problem import Problem
from rlcr.prompts import Message, Prompt, messages
from rlcr.response import Response
from rlcr.runs.lines import Appender
from rlcr.runs.record import Key, Sampled
from rlcr.runs.store import FAILED, UNFINISHED, Run
from rlcr.sample import CannotContinue, Completion, Failure, Refused, Request, Sampler, Sampling, stretches
from rlcr.sample.refusals import confirm
from rlcr.verify import Grading, Verifier

log = logging.getLogger(__name__)

# Graded together: enough to use all cores, few enough that a bar moves.
_BATCH = 64
# Problems (times samples) that go through all stages together: what waits for a repair is in memory.
_LOT = 8192


@dataclass(frozen=True)
class Evaluation:
    """What to evaluate and how to grade it."""

    problems: Sequence[Problem]
    method: Method
    prompt: Prompt
    sampling: Sampling
    samples: int = 1
    rounds: tuple[int, ...] = ()
    """The number of samples after each round of questions to a server; none is one round with all of them."""
    grading: Grading = "strict"
    judge: Verifier | None = None
    own: Mapping[str, Verifier] | None = None
    """Verifiers of the user, by their names."""
    task_of: Mapping[str, str] = field(default_factory=dict)
    """The task of each problem, by its id."""


@dataclass
class _Draft:
    """A completion on its way to becoming a record."""

    problem: Problem
    sample: int
    text: str = ""
    think_open: bool = False
    finish_reason: str = ""
    token_ids: array[int] = field(default_factory=lambda: array("i"))
    """Compact, since all drafts of a lot may wait for their repairs at the same time."""
    tokens: int = 0
    prompt_tokens: int = 0
    response_tokens: int = 0
    """Without those of forced continuations: what ``logprob`` is the sum over."""
    logprob: float | None = None
    answer_logprobs: dict[Grading, list[float]] = field(default_factory=dict)
    """Of the answer that each grading reads, where there are any."""
    forced_answer: str | None = None
    forced_confidence: str | None = None
    unrepaired: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def key(self) -> Key:
        return self.problem.id, self.sample

    @property
    def repair_key(self) -> str:
        """The key of its repairs holds the sample, since each is a request of its own."""
        return f"{self.problem.id}\0{self.sample}"


def run_stages(
    evaluation: Evaluation,
    sampler: Sampler,
    run: Run,
    watch: Callable[[int, int], Watch] | None = None,
    *,
    retry: Collection[Key] = (),
) -> None:
    """Sample what the run lacks, repair what needs it, grade, and append the records.

    Interrupting this at any moment loses no reply that had arrived. ``watch(done, total)``, both counts of
    responses, makes its observer. Completions that failed before are asked for again if in ``retry``.
    """
    _Session(evaluation, sampler, run, watch, retry).finish()


class _Session:
    """One attempt at a run: from where it stands to its end."""

    def __init__(
        self,
        evaluation: Evaluation,
        sampler: Sampler,
        run: Run,
        watch: Callable[[int, int], Watch] | None,
        retry: Collection[Key],
    ) -> None:
        self._evaluation, self._sampler = evaluation, sampler
        self._format = evaluation.method.format
        self._started = time.monotonic()
        self._problems = {problem.id: problem for problem in evaluation.problems}
        self._done = {*run.done, *run.failed.keys()} - set(retry)
        self._drafts = self._restore(run)
        self._answered = next((k for k in chain(run.done, self._drafts) if k[0] in self._problems), None)
        total = len(evaluation.problems) * evaluation.samples
        self._watch = watch(len(self._done) + len(self._drafts), total) if watch else None
        self._ready: list[_Draft] = []
        self._run = run
        self._records = Appender(run.records_path)
        self._replies = Appender(run.folder / UNFINISHED)

    def finish(self) -> None:
        """Run all stages to their end."""
        try:
            self._sort_drafts()
            problems = self._evaluation.problems
            lot = max(1, _LOT // self._evaluation.samples)
            for start in range(0, len(problems), lot):
                some = problems[start : start + lot]
                self._stage("response", partial(self._first_requests, some), self._evaluation.sampling)
                self._stage("answer", partial(self._repairs, "answer"), repair_sampling("answer"))
                self._stage("confidence", partial(self._repairs, "confidence"), repair_sampling("confidence"))
            self._grade()
        finally:
            self._records.close()
            self._replies.close()
        # All of it is in the records now.
        (self._run.folder / UNFINISHED).unlink(missing_ok=True)

    # --- stages -------------------------------------------------------------------------------------

    def _stage(self, stage: str, requests: Callable[[], Iterable[Request]], sampling: Sampling) -> None:
        """Ask for all that ``requests()`` holds, again after a failure to continue: it then holds less."""
        while True:
            asked = iter(requests())
            first = next(asked, None)
            if first is None:
                return
            if self._watch:
                self._watch.begun(stage, self._waiting(stage))
            try:
                self._collect(stage, chain([first], asked), sampling)
                return
            except CannotContinue as error:
                log.warning("%s", error)
                for draft in list(self._drafts.values()):
                    if self._next_stage(draft) == stage:
                        self._leave_unrepaired(stage, draft)
            except Refused as refused:
                self._grade()  # what is done is not asked for again
                confirm(refused, self._sampler, self._other_request(refused), self._evaluation.sampling)
                log.warning("%s", refused)
                for failure in refused.failures:
                    if stage == "response":
                        self._fail(failure)
                    else:
                        self._leave_unrepaired(stage, self._drafts[_key_of_repair(failure.key)])

    def _waiting(self, stage: str) -> int:
        """How many replies a stage of forced continuations has to ask for; of responses, the whole run."""
        if stage == "response":
            return len(self._evaluation.problems) * self._evaluation.samples
        return sum(self._next_stage(draft) == stage for draft in self._drafts.values())

    def _leave_unrepaired(self, stage: str, draft: _Draft) -> None:
        """What was sampled is worth having without the repair; how many lack it is in the results."""
        draft.unrepaired.append(stage)
        self._advance(draft)

    def _fail(self, failure: Failure) -> None:
        """Write down samples that the model would not give. They are asked for again only on request."""
        described = {"task": self._evaluation.task_of[failure.key]} | failure.to_dict()
        with closing(Appender(self._run.folder / FAILED)) as file:
            file.write({"id": failure.key, "sample": sample, **described} for sample in failure.samples)
        for sample in failure.samples:
            self._done.add((failure.key, sample))
            if self._watch:
                self._watch.replied("response")

    def _other_request(self, refused: Refused) -> Request | None:
        """A request that the model has answered, to see whether it still does; or else one not yet made."""
        failed = {failure.key for failure in refused.failures}
        unasked = ((p.id, 0) for p in reversed(self._evaluation.problems) if p.id not in failed)
        known = self._answered or next(unasked, None)
        if known is None:
            return None
        name, sample = known
        return Request(name, self._messages(self._problems[name]), first_sample=sample)

    def _collect(self, stage: str, requests: Iterable[Request], sampling: Sampling) -> None:
        # Closed, so that an error here ends the sampler's requests to a server at once.
        with closing(self._sampler.sample(requests, sampling)) as completions:
            for completion in completions:
                draft = self._take(stage, completion)
                self._replies.write([_to_reply(stage, draft, completion, self._next_stage(draft))])
                if self._watch:
                    self._watch.replied(stage)
                self._advance(draft)

    def _take(self, stage: str, completion: Completion) -> _Draft:
        identity, sample = completion.key, completion.sample
        if stage == "response":
            self._answered = identity, sample
            self._drafts[identity, sample] = _Draft(self._problems[identity], sample)
        else:
            identity, sample = _key_of_repair(completion.key)
        draft = self._drafts[identity, sample]
        draft.seconds = round(time.monotonic() - self._started, 3)
        draft.tokens += completion.completion_tokens
        if stage == "answer":
            draft.forced_answer = completion.text
            # All gradings read a forced answer in the same way.
            logprobs = completion.logprobs_of(forced_answer_span(completion.text))
            draft.answer_logprobs = {"strict": logprobs, "paper": logprobs}
        elif stage == "confidence":
            draft.forced_confidence = completion.text
        else:
            draft.text, draft.think_open = completion.text, completion.think_open
            draft.finish_reason, draft.prompt_tokens = completion.finish_reason, completion.prompt_tokens
            draft.token_ids = array("i", completion.token_ids)
            draft.response_tokens = len(completion.logprobs) or completion.completion_tokens
            if completion.logprobs:
                draft.logprob = math.fsum(completion.logprobs)
                draft.answer_logprobs = self._answer_logprobs(completion)
        return draft

    def _answer_logprobs(self, completion: Completion) -> dict[Grading, list[float]]:
        logprobs: dict[Grading, list[float]] = {}
        for grading in get_args(Grading):
            response = read_response(completion.text, self._format, grading, completion.think_open)
            logprobs[grading] = completion.logprobs_of(answer_span(response)) if response.answer else []
        return logprobs

    def _advance(self, draft: _Draft) -> None:
        """Grade a draft that has all it needs, as soon as there are enough of them."""
        if self._next_stage(draft) is None:
            del self._drafts[draft.key]
            self._ready.append(draft)
            if len(self._ready) >= _BATCH:
                self._grade()

    def _next_stage(self, draft: _Draft) -> str | None:
        response = self._read(draft)
        if response.error:
            return None  # unscorable whatever is repaired
        if draft.forced_answer is None and needs_answer(response) and "answer" not in draft.unrepaired:
            return "answer"
        if (
            draft.forced_confidence is None
            and needs_confidence(response)
            and "confidence" not in draft.unrepaired
        ):
            return "confidence"
        return None

    def _read(self, draft: _Draft) -> Response:
        return read_response(draft.text, self._format, "strict", draft.think_open)

    def _messages(self, problem: Problem) -> tuple[Message, ...]:
        return tuple(messages(self._evaluation.prompt, problem))

    def _first_requests(self, problems: Sequence[Problem]) -> Iterator[Request]:
        """The samples that the run lacks, those of a problem that follow each other in one request.

        What was interrupted inside a round is asked for as it was at first, so that the same comes back.
        """
        ends = self._evaluation.rounds or (self._evaluation.samples,)
        for problem in problems:
            missing = [
                sample
                for sample in range(self._evaluation.samples)
                if (problem.id, sample) not in self._done and (problem.id, sample) not in self._drafts
            ]
            for begin, end in pairwise((0, *ends)):
                for first, n in stretches([sample for sample in missing if begin <= sample < end]):
                    yield Request(
                        problem.id,
                        self._messages(problem),
                        n=n,
                        first_sample=first,
                        together=(begin, end - begin),
                    )

    def _repairs(self, stage: str) -> Iterator[Request]:
        for draft in list(self._drafts.values()):
            if self._next_stage(draft) == stage:
                yield Request(
                    draft.repair_key,
                    self._messages(draft.problem),
                    prefix=forced_prefix(stage, draft.text, draft.forced_answer),
                    prefix_ids=tuple(draft.token_ids),
                )

    def _sort_drafts(self) -> None:
        """Drafts of an earlier attempt may already have all they need."""
        for draft in list(self._drafts.values()):
            self._advance(draft)
        self._grade()

    # --- grading ------------------------------------------------------------------------------------

    def _grade(self) -> None:
        ready, self._ready = self._ready, []
        raw = [_sampled(draft, self._evaluation) for draft in ready]
        problems = [draft.problem for draft in ready]
        how = self._evaluation
        records = grade(raw, problems, how.grading, how.judge, how.own)
        self._records.write(records)
        self._done |= {draft.key for draft in ready}
        if self._watch and records:
            self._watch.graded(records)

    def _restore(self, run: Run) -> dict[Key, _Draft]:
        """The drafts that an earlier attempt left, from its replies."""
        drafts: dict[Key, _Draft] = {}
        for reply in run.unfinished():
            key = reply["id"], reply["sample"]
            if reply["stage"] == "response":
                stored = reply["draft"] | {"token_ids": array("i", reply["draft"]["token_ids"])}
                drafts[key] = _Draft(self._problems[key[0]], key[1], **stored)
            elif key in drafts:  # else its response was damaged, and is sampled again
                drafts[key].tokens += reply["tokens"]
                drafts[key].answer_logprobs = reply["answer_logprobs"]
                setattr(drafts[key], f"forced_{reply['stage']}", reply["text"])
        return drafts


def _key_of_repair(repair_key: str) -> Key:
    identity, _, sample = repair_key.rpartition("\0")
    return identity, int(sample)


def repair_sampling(stage: str) -> Sampling:
    """How a forced continuation is sampled."""
    return Sampling(max_tokens=FORCED_TOKENS[stage], temperature=0.0)


#: What a draft has from the reply alone, and passes on to its record.
_REPLY = (
    "text", "think_open", "finish_reason", "tokens", "prompt_tokens", "logprob", "seconds", "response_tokens",
    "answer_logprobs",
)  # fmt: skip


def _to_reply(stage: str, draft: _Draft, completion: Completion, next_stage: str | None) -> dict[str, Any]:
    reply: dict[str, Any] = {"id": draft.problem.id, "sample": draft.sample, "stage": stage}
    if stage != "response":
        read = {"text": completion.text, "tokens": completion.completion_tokens}
        return reply | read | {"answer_logprobs": draft.answer_logprobs}
    kept = {name: getattr(draft, name) for name in _REPLY}
    # Needed only to continue the response.
    kept["token_ids"] = [] if next_stage is None else draft.token_ids.tolist()
    return reply | {"draft": kept}


# --- records ----------------------------------------------------------------------------------------


def _sampled(draft: _Draft, evaluation: Evaluation) -> Sampled:
    problem = draft.problem
    conversation = json.dumps(messages(evaluation.prompt, problem), ensure_ascii=False)
    return Sampled(
        id=problem.id,
        sample=draft.sample,
        task=evaluation.task_of[problem.id],
        format=evaluation.method.format,
        prompt_sha256=hashlib.sha256(conversation.encode("utf-8", "surrogatepass")).hexdigest(),
        forced_answer=draft.forced_answer,
        forced_confidence=draft.forced_confidence,
        unrepaired=tuple(draft.unrepaired),
        **{name: getattr(draft, name) for name in _REPLY},
    )
