"""Servers that misbehave: every problem ends answered once, or the run says why and is continued later."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from faults import misbehaviour
from faults.fault import Fault, Outcome, Trial
from faults.hostile_server import Asked, Behaviour, HostileServer, honest, http
from rlcr.errors import RlcrError
from rlcr.evaluate import Settings, evaluate
from rlcr.evaluate.grade import read_response
from rlcr.problem import Problem
from rlcr.sample.endpoint import EndpointSampler
from rlcr.tasks import write_problems

PROBLEMS, SAMPLES, ATTEMPTS = 8, 3, 6
#: What a trial may take: seconds for all attempts to time out in turn, and memory beyond the start's.
_SECONDS, _MEGABYTES = 300.0, 250.0


def sampler(server: HostileServer, timeout: float) -> EndpointSampler:
    """One that does not wait long between attempts."""
    return EndpointSampler(
        server.url, "tiny", mode="chat", concurrency=4, timeout=timeout, attempts=ATTEMPTS, backoff=0.01
    )


def task(folder: Path) -> Path:
    """A file of problems whose answers are their questions."""
    path = folder / "task.jsonl"
    questions = [f"Question number {number}" for number in range(PROBLEMS)]
    write_problems(path, [Problem(f"p/{n}", text, (text,), "exact") for n, text in enumerate(questions)])
    return path


def number_of(asked: Asked) -> int:
    """Which problem a request is about."""
    found = re.search(r"Question number (\d+)", asked.question)
    return int(found[1]) if found else -1


def passing(fault: Behaviour) -> Behaviour:
    """The fault for the first calls of some problems, and then honest replies."""

    def behave(asked: Asked) -> Iterator[bytes]:
        return fault(asked) if asked.times < number_of(asked) % 3 else honest(asked)

    return behave


def lasting(fault: Behaviour) -> Behaviour:
    """The fault for every call of two problems."""

    def behave(asked: Asked) -> Iterator[bytes]:
        return fault(asked) if number_of(asked) in (2, 5) else honest(asked)

    return behave


def trial_of(
    family: dict[str, Behaviour], folder: Path, trial: int, *, timeout: float = 60.0, passes: bool = True
) -> Outcome:
    """One kind of the family: in even rounds for the first calls of some problems, in odd ones for ever."""
    name = list(family)[trial % len(family)]
    lasts = passes and (trial // len(family)) % 2 == 1
    outcome, seconds = Outcome(), time.monotonic()
    wrapped = lasting(family[name]) if lasts else passing(family[name])
    settings = Settings("tiny", (str(task(folder)),), "rlcr", samples=SAMPLES, temperature=1.0)
    _reset_peak()
    before = _peak()
    with HostileServer(wrapped) as server:
        run = folder / "run"
        try:
            results = evaluate(settings, run, sampler=sampler(server, timeout))
            (coverage,) = results.coverage.values()
            outcome.count("listed as failed", sum(coverage.failed.values()))
            if not lasts and coverage.failed:
                outcome.fail(f"{name}: given up: {coverage.failed}")
        except RlcrError as error:
            if "\n" in str(error) or "\x1b" in str(error):
                outcome.fail(f"{name}: not a line: {error}")
            if not lasts:
                outcome.fail(f"{name}: {error}")
            outcome.count("runs stopped with a reason")
        server.behave = honest
        evaluate(settings, run, resume=True, retry_failed=True, sampler=sampler(server, timeout))
        calls = len(server.asked)
    outcome.count("calls", calls)
    _compare(run, outcome, name)
    if calls > ATTEMPTS * PROBLEMS * SAMPLES * 2:
        outcome.fail(f"{name}: {calls} calls")
    if (took := time.monotonic() - seconds) > _SECONDS:
        outcome.fail(f"{name}: {took:.0f} s")
    if (grown := _peak() - before) > _MEGABYTES:
        outcome.fail(f"{name}: {grown:.0f} MB")
    return outcome


def _compare(run: Path, outcome: Outcome, name: str) -> None:
    """Every sample once, each with the answer to its own question."""
    records = [json.loads(line) for line in (run / "records.jsonl").read_text().splitlines()]
    expected: list[object] = [(f"p/{n}", sample) for n in range(PROBLEMS) for sample in range(SAMPLES)]
    outcome.compare_keys(expected, [(one["id"], one["sample"]) for one in records])
    for one in records:
        if not (one["answer"] or "").endswith(f"Question number {one['id'][2:]}"):
            outcome.fail(f"{name}: {one['id']} has the answer {one['answer']!r}")


def redirect_trial(folder: Path, trial: int) -> Outcome:
    """A redirect is refused with a line that names where it leads, and nothing reaches that address."""
    status = ("301 Moved", "302 Found", "303 See", "307 Same", "308 Same")[trial % 5]
    outcome = Outcome()
    with HostileServer(honest) as other:
        host = other.url.removeprefix("http://")

        def away(_: Asked) -> Iterator[bytes]:
            yield http(b"", status, Location=f"http://me:secret-word@{host}/chat/completions?key=secret-word")

        settings = Settings("tiny", (str(task(folder)),), "rlcr")
        with HostileServer(away) as server:
            try:
                evaluate(settings, folder / "run", sampler=sampler(server, 60.0))
                outcome.fail(f"{status}: followed")
            except RlcrError as error:
                if host.partition("/")[0] not in str(error) or "secret-word" in str(error):
                    outcome.fail(f"{status}: {error}")
                outcome.count("runs stopped with a reason")
            if other.asked:
                outcome.fail(f"{status}: {len(other.asked)} prompts reached another address")
            server.behave = honest
            evaluate(settings, folder / "run", resume=True, sampler=sampler(server, 60.0))
    return outcome


def _reset_peak() -> None:
    read_response.cache_clear()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _peak() -> float:
    """The most memory this process had since then, in MB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def _fault(what: str, trials: int, make: Callable[[Path, int], Outcome]) -> Fault:
    @contextmanager
    def prepare(_: Path) -> Iterator[Trial]:
        yield make

    return Fault(what, trials, prepare)


_FAMILIES = {
    "endpoint-junk": ("broken and junk replies", misbehaviour.JUNK, 60.0, True),
    "endpoint-odd": (
        "odd log-probabilities and counts, packed replies, cookies",
        misbehaviour.ODD,
        60.0,
        False,
    ),
    "endpoint-endless": ("endless and packed bodies and headers", misbehaviour.ENDLESS, 20.0, True),
    "endpoint-time": ("delays, hanging, trickling, hanging up", misbehaviour.TIMING, 5.0, True),
    "endpoint-order": ("replies and choices twice, fewer, in another order", misbehaviour.ORDER, 60.0, False),
    "endpoint-status": ("429 and 5xx with every kind of Retry-After", misbehaviour.STATUS, 60.0, True),
}

FAULTS: dict[str, Fault] = {
    name: _fault(
        f"a server: {what}",
        (2 if passes else 1) * len(family),
        partial(trial_of, family, timeout=timeout, passes=passes),
    )
    for name, (what, family, timeout, passes) in _FAMILIES.items()
} | {"endpoint-redirect": _fault("a server: redirects to another address", 5, redirect_trial)}
