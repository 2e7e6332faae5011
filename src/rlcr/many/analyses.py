"""Several analyses of one and the same answer: `rlcr analyses RUN --samples K`.

A response is kept up to where its analysis begins, and the model continues it K times: analysis and
confidence are new, thoughts and answer are not. All K are one request, so that the prompt and what is kept
are computed once.

    analyses.jsonl   one line for each analysis, append-only; asking again samples only what is missing
    analyses.json    the settings, and Brier score and ECE of the mean of k = 1 to K confidences

Responses without a closed answer cannot be continued: they are left out, and counted. So are analyses that
the model refuses; the same command asks for them again. What the means are worth is in
:mod:`rlcr.many.ensembling`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError
from rlcr.many.ensembling import measure_analyses
from rlcr.prompts import Prompt, messages
from rlcr.response import get_format, parse
from rlcr.runs.lines import Appender, mend, read_lines, read_object, write_object
from rlcr.runs.record import Sampled
from rlcr.runs.stamps import stamp, write_derived
from rlcr.runs.store import RUN, Key, Run, locked, open_run
from rlcr.sample import Completion, Refused, Request, Sampler, Sampling, stretches
from rlcr.sample.opening import Access, Stored, Typed, open_sampler
from rlcr.sample.refusals import confirm
from rlcr.tasks.plumbing.tables import Progress

log = logging.getLogger(__name__)

ANALYSES, SETTINGS = "analyses.jsonl", "analyses.json"
_ADVICE = "`rlcr analyses` drops it and asks again"
#: Of analyses where the run itself was greedy: those that are all the same say nothing.
TEMPERATURE = 0.7
_ENDING = re.compile(r"</answer>(?:\s*<(?:analysis|confidence)>)?")


@dataclass(frozen=True)
class Ask:
    """What to sample: K analyses of the first ``answers`` responses to each question; None is as the run."""

    samples: int = 8
    answers: int = 1
    max_tokens: int | None = None
    temperature: float | None = None
    seed: int = 0


def sample_analyses(
    folder: Path,
    ask: Ask,
    *,
    model: str | None = None,
    access: Access | None = None,
    sampler: Sampler | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Sample the analyses that a run lacks, and write what their mean is worth.

    The model must be the run's own; a ``sampler`` is used instead of opening it. Where it is on a server,
    ``model`` must say so: see :mod:`rlcr.sample.opening`.
    """
    run = open_run(folder)
    run.check_finished()
    if run.settings["method"] == "imported":
        raise RlcrError(f"{folder}: was imported: its model is not known, and cannot be asked for more")
    if ask.temperature == 0:
        raise RlcrError("analyses at temperature 0 are all the same: give a --temperature above 0")
    _check_format(run)
    with locked(folder):
        before = _stored(run)
        settings = _settings(run, ask, before.get("settings"))
        mend(folder / ANALYSES, "dropped: that analysis is asked for again")
        begun, lost = _begun(run, settings["answers"])
        missing = _missing(run, begun, settings)
        refused = 0
        if missing:
            # Opened only now: where nothing is missing, the model is not needed.
            stored = Stored(run.settings["model"], folder / RUN, "--model URL")
            sampler = sampler or open_sampler(Typed(model) if model else stored, access or access_of(folder))
            _check_model(run, sampler)
            # The measurements of earlier analyses stay until there are new ones.
            write_object(folder / SETTINGS, before | {"settings": settings})
            refused = _sample(run, begun, settings, sampler, progress)
        made_from = stamp(run, [ANALYSES])
        measured = {"settings": settings, **measure_analyses(run, read_analyses(run))}
        measured["responses without a closed answer"] = lost
        measured["analyses refused"] = refused
        write_derived(run, SETTINGS, measured, made_from)
        return measured


def read_analyses(run: Run) -> dict[Key, list[float | None]]:
    """The confidences of all analyses of each response that has any."""
    confidences: dict[Key, dict[int, float | None]] = {}
    for line in read_lines(run.folder / ANALYSES, _ADVICE):
        confidences.setdefault((line["id"], line["sample"]), {})[line["analysis"]] = line["confidence"]
    return {key: [by[k] for k in sorted(by)] for key, by in confidences.items()}


def access_of(folder: Path, device: str | None = None, dtype: str | None = None) -> Access:
    """How to reach the model of a run: as the run did, on a device of choice."""
    settings = open_run(folder).settings
    kept = {name: settings.get(name) for name in ("mode", "tokenizer", "chat_template")}
    return Access(**kept, device=device, dtype=dtype)


def prefix_of(record: Sampled) -> str | None:
    """A response up to where its analysis begins; None where it has no closed answer.

    The tag that opens what comes next is kept where the model wrote it: a tokenizer may have joined it with
    the end of the answer, and a text cut inside of a token is not what the model would have gone on from.

    >>> text = "<answer>4</answer> <analysis>sure</analysis><confidence>1</confidence>"
    >>> prefix_of(Sampled(id="q", sample=0, task="t", format="rlcr", text=text))
    '<answer>4</answer> <analysis>'
    """
    response = parse(record.text, record.format, mode="lenient", think_open=record.think_open)
    if not response.answer:
        return None
    end = _ENDING.match(response.text, response.spans["answer"][1])
    return response.text[: end.end()] if end else None


def _check_format(run: Run) -> None:
    format = next(run.records()).format
    if "confidence" not in get_format(format).tags:
        raise RlcrError(
            f"{run.folder}: responses of format {format} state no confidence: nothing to sample again"
        )


def _check_model(run: Run, sampler: Sampler) -> None:
    was = run.settings["model_name"], run.settings["model_weights"]
    if (sampler.name, sampler.fingerprint) != was:
        raise RlcrError(
            f"{run.folder}: was sampled from {was[0]} ({was[1]}), and this is"
            f" {sampler.name} ({sampler.fingerprint})"
        )


def _stored(run: Run) -> dict[str, Any]:
    path = run.folder / SETTINGS
    return read_object(path, "remove it; the analyses are kept") if path.exists() else {}


def _settings(run: Run, ask: Ask, stored: Mapping[str, Any] | None) -> dict[str, Any]:
    """The settings with every default filled in; other ones than analyses were begun with are an error."""
    temperature = ask.temperature or run.settings["temperature"] or TEMPERATURE
    max_tokens = ask.max_tokens or run.settings["max_tokens"]
    settings = asdict(replace(ask, max_tokens=max_tokens, temperature=temperature))
    if stored:
        for name in ("max_tokens", "temperature", "seed"):
            if stored[name] != settings[name]:
                raise RlcrError(
                    f"{run.folder}: has analyses with {name} {stored[name]}, not {settings[name]};"
                    f" remove {ANALYSES} and {SETTINGS} to start over"
                )
        # More analyses, or of more responses, are an addition; fewer are all there already.
        settings |= {name: max(stored[name], settings[name]) for name in ("samples", "answers")}
    return settings


_Begun = Mapping[str, Any]


def _begun(run: Run, answers: int) -> tuple[list[_Begun], int]:
    """What each response is continued from, and how many cannot be."""
    kept: list[_Begun] = []
    lost = 0
    for record in run.independent_records():
        if record.sample >= answers:
            continue
        prefix = prefix_of(record)
        if prefix is None:
            lost += 1
        else:
            origin = {name: getattr(record, name) for name in ("id", "sample", "format", "think_open")}
            kept.append(origin | {"prefix": prefix})
    if not kept:
        raise RlcrError(f"{run.folder}: none of {lost:,} responses has a closed answer to continue")
    return kept, lost


def _missing(
    run: Run, begun: Sequence[_Begun], settings: Mapping[str, Any]
) -> list[tuple[_Begun, list[int]]]:
    """The responses that lack analyses, and the numbers of these."""
    done: dict[Key, set[int]] = {}
    for line in read_lines(run.folder / ANALYSES, _ADVICE):
        done.setdefault((line["id"], line["sample"]), set()).add(line["analysis"])
    lacking = (
        (one, [k for k in range(settings["samples"]) if k not in done.get((one["id"], one["sample"]), ())])
        for one in begun
    )
    return [(one, numbers) for one, numbers in lacking if numbers]


def _sample(
    run: Run,
    begun: Sequence[_Begun],
    settings: Mapping[str, Any],
    sampler: Sampler,
    progress: Callable[[float], None] | None,
) -> int:
    """Sample what is not there yet, each analysis written as it arrives. How many the model refused."""
    by_key = {_key(one): one for one in begun}
    sampling = Sampling(settings["max_tokens"], settings["temperature"], seed=settings["seed"])
    failed: set[str] = set()
    refused = 0
    while missing := [(one, k) for one, k in _missing(run, begun, settings) if _key(one) not in failed]:
        total = sum(len(numbers) for _, numbers in missing)
        try:
            with (
                closing(Appender(run.folder / ANALYSES)) as appender,
                closing(sampler.sample(_requests(run, missing), sampling)) as completions,
            ):
                for count, completion in enumerate(completions, 1):
                    appender.write([_line(by_key[completion.key], completion)])
                    if progress:
                        progress(count / total)
        except Refused as error:
            confirm(error, sampler, _answered(run, begun), sampling)
            log.warning("%s", error)
            failed |= {failure.key for failure in error.failures}
            refused += sum(len(failure.samples) for failure in error.failures)
    return refused


def _answered(run: Run, begun: Sequence[_Begun]) -> Request | None:
    """An analysis that the model has given, to ask for it again."""
    by_key = {(one["id"], one["sample"]): one for one in begun}
    for line in read_lines(run.folder / ANALYSES, _ADVICE):
        if one := by_key.get((line["id"], line["sample"])):
            return next(_requests(run, [(one, [line["analysis"]])]))
    return None


def _key(one: _Begun) -> str:
    return f"{one['id']}\0{one['sample']}\0analysis"


def _requests(run: Run, missing: Sequence[tuple[_Begun, Sequence[int]]]) -> Iterator[Request]:
    problems = run.problems()
    prompt = Prompt(run.settings["prompt"], run.settings["prompt_text"], None)
    for one, numbers in missing:
        conversation = tuple(messages(prompt, problems[one["id"]]))
        for first, n in stretches(numbers):
            yield Request(_key(one), conversation, n=n, first_sample=first, prefix=one["prefix"])


def _line(one: _Begun, completion: Completion) -> dict[str, Any]:
    text = one["prefix"] + completion.text
    response = parse(text, one["format"], mode="lenient", think_open=one["think_open"])
    return {
        "id": one["id"],
        "sample": one["sample"],
        "analysis": completion.sample,
        "text": completion.text,
        "confidence": response.confidence,
        "finish_reason": completion.finish_reason,
        "tokens": completion.completion_tokens,
    }
