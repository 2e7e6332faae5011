"""Inputs drawn by hypothesis, for so many minutes: no crash, no hang, no NaN, bounded memory.

A trial is a minute on one target of :mod:`faults.fuzzed`, in a process of its own whose memory is limited.
Its number is the seed. What is found is kept as a case of tests/reliability/test_fuzzed.py.
"""

from __future__ import annotations

import json
import logging
import random
import resource
import signal
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from faults.commands import context
from faults.fault import Fault, Outcome, Trial
from faults.fuzzed import TARGETS
from faults.fuzzing import Target

_MINUTES, _SECONDS = 10, 60.0
#: Inputs that hypothesis draws with one seed before it is given another.
_BATCH = 200
#: Megabytes of memory beyond those at the start; and seconds beyond its time after which a process hangs.
_MEGABYTES, _LATE = 1024, 600.0


@dataclass
class Found:
    """How many inputs were tried, and what each kind of failure was with its input."""

    inputs: int = 0
    failures: dict[str, str] = field(default_factory=dict)


class TooSlow(BaseException):
    """An input that takes more than its time; no `except Exception` of what is tried catches it."""


def fuzz(target: Target, seconds: float, number: int, folder: Path, least: int = 5) -> Found:
    """Try inputs for some seconds, and so many at least, however slow the machine is."""
    found, ends, numbers = Found(), time.monotonic() + seconds, random.Random(number)

    @settings(
        max_examples=_BATCH,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
    @given(target.inputs)
    def one(drawn: Any) -> None:
        if time.monotonic() >= ends and found.inputs >= least:
            return
        found.inputs += 1
        try:
            with _limited(target.seconds):
                target.check(drawn, folder)
        except (Exception, TooSlow) as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            kind = f"{type(error).__name__} in {Path(place.filename).name}:{place.lineno}: {error}"
            found.failures.setdefault(kind[:300], repr(drawn))

    while time.monotonic() < ends or found.inputs < least:
        seed(numbers.getrandbits(64))(one)()
    return found


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Computing time, so that a busy machine changes nothing."""

    def stop(*_: object) -> None:
        raise TooSlow(f"more than {seconds:g} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def fuzz_into(name: str, seconds: float, number: int, folder: str) -> None:
    """What a trial's process does: fuzz within its memory, and write what was found into the folder."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    most = size + (_MEGABYTES << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    logging.disable()
    found = fuzz(TARGETS[name], seconds, number, Path(folder))
    (Path(folder) / "found.json").write_text(json.dumps(asdict(found)))


def trial(name: str, folder: Path, number: int, seconds: float = _SECONDS) -> Outcome:
    """So many seconds of one target."""
    outcome = Outcome()
    process = context.Process(target=fuzz_into, args=(name, seconds, number, str(folder)))
    process.start()
    process.join(seconds + _LATE)
    if process.exitcode is None:
        process.kill()
        process.join()
        outcome.fail(f"hung for {_LATE:g} s")
    elif process.exitcode:
        outcome.fail(f"the process ended with status {process.exitcode}")
    else:
        found = Found(**json.loads((folder / "found.json").read_text()))
        outcome.count("inputs", found.inputs)
        for kind, drawn in found.failures.items():
            outcome.fail(f"{kind}: {drawn[:400]}")
    outcome.count("minutes", seconds / 60)
    return outcome


def _fault(name: str, target: Target) -> Fault:
    @contextmanager
    def prepare(_: Path) -> Iterator[Trial]:
        yield partial(trial, name)

    return Fault(f"fuzzing: {target.what}", _MINUTES, prepare)


FAULTS = {f"fuzz-{name}": _fault(name, target) for name, target in TARGETS.items()}
