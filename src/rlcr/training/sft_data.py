"""`rlcr sft-data`: the data of the SFT warm-up, from a model and an expert.

The model solves some problems; the expert goes over each solution and writes what is uncertain in it, in the
first person, as if the solution were its own. Both together are what the model is then trained on
(`rlcr.training.sft`): ``<think>…</think><answer>…</answer><analysis>…</analysis>``. The text ends there, as
in the paper: the expert is not asked for a confidence, and RL teaches that later.

    run.json         settings, versions, the command
    records.jsonl    every reply as it came, append-only; resuming starts from here
    sft.jsonl        what was kept, in the order of the problems
    sft-data.json    settings and counts: what was sampled, asked, kept and rejected, and why

The paper leaves open how solutions were sampled and what was thrown away. Ours: temperature 0.7 as in RL,
solutions that are malformed or refused are left out, and an analysis that is refused or breaks the expert's
instructions is asked for again, at most twice.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError
from rlcr.evaluate.methods import get_method
from rlcr.problem import Problem
from rlcr.prompts import Message, Prompt, load_prompt, messages, user_message
from rlcr.response import FORMATS, parse
from rlcr.runs.lines import Appender, json_line, read_lines, write_object, write_whole
from rlcr.runs.store import Run, check_new, create_run, locked, open_run, resume_run
from rlcr.runs.versions import run_facts
from rlcr.sample import Completion, Failure, Refused, Request, Sampler, Sampling
from rlcr.sample.opening import Typed, open_sampler
from rlcr.sample.refusals import confirm
from rlcr.tasks import TaskSet, load

SFT, REPORT = "sft.jsonl", "sft-data.json"

#: The method that the warmed-up model is to be trained and asked with.
TARGET = "rlcr"
#: The expert's instructions ask for this many characters.
SHORTEST_ANALYSIS = 300
#: An analysis is asked for once, and again at most twice.
ATTEMPTS = 3
#: Above 0 whatever the solutions are sampled with: asking again must be able to give another reply.
EXPERT_TEMPERATURE = 0.7

_PACKAGES = ("rlcr", "torch", "transformers", "httpx2")

#: Gets each reply: the stage, how many of it are there, and how many there will be as far as is known.
Watch = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Settings:
    """All that decides what the data is. A run is resumed only with the same."""

    model: str
    task: str
    expert: str
    size: int = 500
    split: str = "train"
    method: str = "rlvr"
    seed: int = 0
    temperature: float = 0.7
    max_tokens: int = 4096


def make_sft_data(
    settings: Settings,
    out: Path | str,
    *,
    resume: bool = False,
    data_dir: Path | str | None = None,
    sampler: Sampler | None = None,
    expert: Sampler | None = None,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Sample, ask, check and write. The counts, as in sft-data.json.

    ``sampler`` and ``expert`` are used instead of opening the models that the settings name. Interrupting
    this at any moment loses no reply that had arrived.
    """
    out = Path(out)
    method = get_method(settings.method)
    task = load(settings.task, settings.split, size=settings.size, seed=settings.seed, data_dir=data_dir)
    prompts = _Prompts(load_prompt(method.prompt), load_prompt("expert"), _target_prompt())
    if resume:
        open_run(out)  # a misspelt folder must not be made by locking it
    else:
        check_new(out)
    # Opened before anything is written: a misspelt model must not leave a folder that then is in the way.
    sampler = sampler or open_sampler(Typed(settings.model))
    if expert is None:
        alike = settings.expert == settings.model
        expert = sampler if alike else open_sampler(Typed(settings.expert))
    resolved = _resolved(settings, task, prompts, sampler, expert)
    facts = run_facts(_PACKAGES)
    with locked(out):
        run = resume_run(out, resolved) if resume else create_run(out, resolved, {}, facts)
        session = _Session(settings, prompts, task.problems, run, watch)
        session.collect(sampler, expert)
        rows, counts = session.rows(), session.counts()
        write_whole(out / SFT, map(json_line, rows))
        report = {"settings": resolved, **facts, "counts": counts}
        write_object(out / REPORT, report)
    if not rows:
        raise RlcrError(f"{out}: nothing could be kept: {describe(counts)}")
    return counts


def describe(counts: dict[str, Any]) -> str:
    """The counts in one line."""
    solutions, analyses = counts["solutions"], counts["analyses"]
    rejected = ", ".join(f"{number:,} {reason}" for reason, number in analyses["rejected"].items())
    return (
        f"{solutions['sampled']:,} solutions ({solutions['malformed']:,} malformed),"
        f" {analyses['asked']:,} analyses asked for, {analyses['accepted']:,} accepted,"
        f" rejected: {rejected or 'none'}; {analyses['given_up']:,} given up"
    )


# --- reading replies --------------------------------------------------------------------------------

# Also as models misspell them: no such tag may end up in an analysis.
_ANY_TAG = re.compile(r"<\s*/?\s*(think|answer|analysis|confidence)\b[^<>]*>", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Solution:
    """What the model wrote, in its two parts, or the ``fault`` for which it is left out."""

    think: str = ""
    answer: str = ""
    fault: str = ""

    def text(self) -> str:
        """As the expert is shown it."""
        return FORMATS["rlvr"].render(think=self.think, answer=self.answer)

    def completion(self, analysis: str) -> str:
        """As the model is trained on it: up to the analysis, and nothing after it."""
        return f"{self.text()}\n<analysis>{analysis}</analysis>"


def read_solution(text: str, format: str = "rlvr", *, think_open: bool = False) -> Solution:
    """Read a solution strictly. It must also stand up as the beginning of a response with an analysis.

    >>> read_solution("<think>6 x 7</think> <answer>42</answer>").answer
    '42'
    >>> read_solution("<think>so an <analysis></think><answer>42</answer>").fault
    'a tag of format rlcr inside a part'
    """
    response = parse(text, format, think_open=think_open)
    if response.fault:
        return Solution(fault=response.fault)
    solution = Solution(response.part("think") or "", response.part("answer") or "")
    if not solution.answer:
        return Solution(fault="empty <answer>")
    # Tags that mean nothing in this format may mean something in the one to be trained.
    trained = get_method(TARGET).format
    whole = parse(f"{solution.completion('…')}<confidence>1</confidence>", trained)
    return solution if whole.well_formed else Solution(fault=f"a tag of format {trained} inside a part")


def read_analysis(text: str, *, think_open: bool = False) -> tuple[str, str]:
    """The analysis in an expert's reply, and why it cannot be used; one of the two is empty.

    Text around the tags is dropped, and so is the thinking of an expert that thinks first.

    >>> read_analysis("Sure! <analysis>" + "I add. " * 50 + "</analysis>")[1]
    ''
    >>> read_analysis("<analysis>I add.</analysis>"), read_analysis("I add.")
    (('', 'too short'), ('', 'no tags'))
    """
    reply = _without_thinking(text, think_open)
    tags = [match.group(1).lower() for match in _ANY_TAG.finditer(reply)]
    if "confidence" in tags:
        return "", "states a confidence"
    if any(tag != "analysis" for tag in tags):
        return "", "other tags"
    start, end = reply.find("<analysis>"), reply.find("</analysis>")
    if start < 0:
        return "", "no tags"
    if end < start:
        return "", "not closed"
    if len(tags) != 2:
        return "", "several analyses"
    analysis = reply[start + len("<analysis>") : end].strip()
    return (analysis, "") if len(analysis) >= SHORTEST_ANALYSIS else ("", "too short")


def _without_thinking(text: str, think_open: bool) -> str:
    """What follows ``</think>`` where the reply begins with thinking; nothing where that never ends.

    The thinking may quote the tags of the solution and draft the analysis, so the ``</think>`` that counts is
    the last one in front of the last ``<analysis>``.
    """
    if not think_open and not text.lstrip().startswith("<think>"):
        return text
    end = text.rfind("</think>", 0, text.rfind("<analysis>") + 1)
    return text[end + len("</think>") :] if end >= 0 else ""


# --- the two stages ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Prompts:
    solve: Prompt
    expert: Prompt
    target: Prompt


@dataclass
class _Case:
    """A problem on its way to becoming a line of the data."""

    problem: Problem
    solution: Solution | None = None
    analysis: str = ""
    rejected: list[str] = field(default_factory=list)
    """Why each analysis so far could not be used."""

    @property
    def needs_analysis(self) -> bool:
        usable = self.solution is not None and not self.solution.fault
        return usable and not self.analysis and len(self.rejected) < ATTEMPTS


class _Session:
    """A run, continued from wherever it stands to its end."""

    def __init__(
        self,
        settings: Settings,
        prompts: _Prompts,
        problems: Sequence[Problem],
        run: Run,
        watch: Watch | None,
    ) -> None:
        self._settings, self._prompts, self._run, self._watch = settings, prompts, run, watch
        self._format = get_method(settings.method).format
        self._cases = {problem.id: _Case(problem) for problem in problems}
        self._answered: dict[str, str] = {}
        """A problem for which each stage has got a reply."""
        for reply in read_lines(run.records_path):
            self._take(reply)

    def collect(self, sampler: Sampler, expert: Sampler) -> None:
        """Get all replies that are still missing."""
        settings = self._settings
        solving = Sampling(
            max_tokens=settings.max_tokens, temperature=settings.temperature, seed=settings.seed
        )
        analysing = Sampling(
            max_tokens=settings.max_tokens, temperature=EXPERT_TEMPERATURE, seed=settings.seed
        )
        replies = Appender(self._run.records_path)
        try:
            # Again where too many were refused in a row, and for analyses that were rejected.
            while requests := list(self._solution_requests()):
                self._ask("solution", sampler, requests, solving, replies)
            while requests := list(self._analysis_requests()):
                self._ask("analysis", expert, requests, analysing, replies)
        finally:
            replies.close()

    def _ask(
        self, stage: str, sampler: Sampler, requests: list[Request], sampling: Sampling, replies: Appender
    ) -> None:
        try:
            for number, completion in enumerate(sampler.sample(requests, sampling), start=1):
                reply = _to_reply(stage, completion)
                replies.write([reply])
                self._take(reply)
                if self._watch:
                    self._watch(stage, number, len(requests))
        except Refused as refused:
            confirm(refused, sampler, self._answered_request(stage), sampling)
            for failure in refused.failures:
                reply = _to_refusal(stage, failure)
                replies.write([reply])
                self._take(reply)

    def _answered_request(self, stage: str) -> Request | None:
        case = self._cases.get(self._answered.get(stage, ""))
        if case is None:
            return None
        return self._solution_request(case) if stage == "solution" else self._analysis_request(case)

    def _take(self, reply: dict[str, Any]) -> None:
        case = self._cases[reply["id"]]
        if "refused" in reply:
            if reply["stage"] == "solution":
                case.solution = Solution(fault="refused")
            else:
                case.rejected.append("refused")
            return
        self._answered[reply["stage"]] = reply["id"]
        if reply["stage"] == "solution":
            case.solution = read_solution(reply["text"], self._format, think_open=reply["think_open"])
            return
        case.analysis, reason = read_analysis(reply["text"], think_open=reply["think_open"])
        if reason:
            case.rejected.append(reason)

    def _solution_requests(self) -> Iterator[Request]:
        for case in self._cases.values():
            if case.solution is None:
                yield self._solution_request(case)

    def _solution_request(self, case: _Case) -> Request:
        return Request(case.problem.id, tuple(messages(self._prompts.solve, case.problem)))

    def _analysis_requests(self) -> Iterator[Request]:
        return (self._analysis_request(case) for case in self._cases.values() if case.needs_analysis)

    def _analysis_request(self, case: _Case) -> Request:
        assert case.solution is not None
        conversation = _expert_messages(self._prompts.expert, case.problem, case.solution)
        # A key of its own: where the expert is the model itself, its random numbers differ.
        return Request(f"{case.problem.id}\0analysis", conversation, first_sample=len(case.rejected))

    # --- what came of it ----------------------------------------------------------------------------

    def rows(self) -> list[dict[str, Any]]:
        """The lines of the data, in the order of the problems."""
        return [
            {
                "id": case.problem.id,
                "method": TARGET,
                "messages": messages(self._prompts.target, case.problem),
                "completion": case.solution.completion(case.analysis),
            }
            for case in self._cases.values()
            if case.solution is not None and case.analysis
        ]

    def counts(self) -> dict[str, Any]:
        """How many of everything."""
        cases = self._cases.values()
        faults = Counter(case.solution.fault for case in cases if case.solution and case.solution.fault)
        rejected = Counter(reason for case in cases for reason in case.rejected)
        accepted = sum(bool(case.analysis) for case in cases)
        return {
            "problems": len(cases),
            "solutions": {
                "sampled": sum(case.solution is not None for case in cases),
                "malformed": faults.total(),
                "faults": dict(faults.most_common()),
            },
            "analyses": {
                "asked": accepted + rejected.total(),
                "accepted": accepted,
                "rejected": dict(rejected.most_common()),
                "given_up": sum(len(case.rejected) == ATTEMPTS for case in cases),
            },
        }


def _to_reply(stage: str, completion: Completion) -> dict[str, Any]:
    """A reply as it is kept. Its key comes first, as in every file of records."""
    return {
        "id": completion.key.removesuffix("\0analysis"),
        "sample": completion.sample,
        "stage": stage,
        "text": completion.text,
        "think_open": completion.think_open,
        "finish_reason": completion.finish_reason,
        "tokens": completion.completion_tokens,
    }


def _to_refusal(stage: str, failure: Failure) -> dict[str, Any]:
    """Likewise, of a reply that never came."""
    name = failure.key.removesuffix("\0analysis")
    return {"id": name, "sample": failure.samples[0], "stage": stage, "refused": failure.reason}


def _expert_messages(prompt: Prompt, problem: Problem, solution: Solution) -> tuple[Message, ...]:
    asked = f"Question:\n{user_message(problem)}\n\nSolution:\n{solution.text()}"
    return ({"role": "system", "content": prompt.text}, {"role": "user", "content": asked})


def _target_prompt() -> Prompt:
    return load_prompt(get_method(TARGET).prompt)


def _resolved(
    settings: Settings, task: TaskSet, prompts: _Prompts, sampler: Sampler, expert: Sampler
) -> dict[str, Any]:
    """What a run is compared by when it is resumed: JSON, with every constant that decides the data."""
    resolved = asdict(settings) | {
        "kind": "sft-data",
        "model_name": sampler.name,
        "model_weights": sampler.fingerprint,
        "expert_name": expert.name,
        "expert_weights": expert.fingerprint,
        "task": task.provenance(),
        "prompts": {name: prompt.text for name, prompt in vars(prompts).items()},
        "target": TARGET,
        "expert_temperature": EXPERT_TEMPERATURE,
        "attempts": ATTEMPTS,
        "shortest_analysis": SHORTEST_ANALYSIS,
    }
    return json.loads(json.dumps(resolved))
