"""`kill -9` of the live view while the run that it shows is being written.

It only reads: the run is what its writer wrote, and a view that is started again on the same port shows all
of it.
"""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tests.confidence.colour_runs import colour_run

from faults.fault import Fault, Outcome, Trial
from faults.served import SOON, Serving, ask

_QUESTIONS = 60


@contextmanager
def _viewed(folder: Path) -> Iterator[Trial]:
    whole = colour_run(folder / "whole", _QUESTIONS)
    lines = (whole / "records.jsonl").read_bytes().splitlines(keepends=True)

    def trial(own: Path, number: int) -> Outcome:
        rng, outcome, run = random.Random(number), Outcome(), own / "run"
        run.mkdir()
        for path in whole.iterdir():
            if path.name != "records.jsonl":
                (run / path.name).write_bytes(path.read_bytes())
        written, port = 0, "0"
        for kill in range(rng.randint(1, 3)):
            view = Serving(["view", run, "--port", port], own / f"{kill}.log")
            url = view.url() if rng.random() < 0.8 else ""  # some are killed before they serve
            port = str(urlsplit(url).port) if url else port
            with open(run / "records.jsonl", "ab") as file:
                for line in lines[written : written + rng.randint(1, 30)]:
                    written += 1
                    file.write(line)
                    file.flush()
                    time.sleep(rng.uniform(0, 0.02))
            view.end(kill_after=rng.uniform(0, 0.3))
            outcome.count("kills")
        _compare(own, run, port, b"".join(lines[:written]), written, outcome)
        return outcome

    yield trial


def _compare(own: Path, run: Path, port: str, content: bytes, written: int, outcome: Outcome) -> None:
    """The run is as it was written, and a new view has all of it."""
    before = {path.name for path in run.iterdir()}
    view = Serving(["view", run, "--port", port], own / "last.log")
    url, shown, deadline = view.url(), -1, time.monotonic() + SOON
    while url and shown != written and time.monotonic() < deadline:
        shown = json.loads(ask(f"{url}/state").rpartition(b"\n")[2])["answers"]
        time.sleep(0.02)
    view.signal(signal.SIGTERM)
    ended = view.end()
    if ended.fault or ended.status:
        outcome.fail(ended.fault or ended.last_line)
    if shown < written:
        outcome.lost += written - shown
        outcome.notes.append(f"{shown} of {written} are shown")
    outcome.doubled += max(0, shown - written)
    if (run / "records.jsonl").read_bytes() != content or before != {path.name for path in run.iterdir()}:
        outcome.fail("the view changed the run")


FAULTS = {"kill-view": Fault("`kill -9`: `rlcr view`, of a run that grows", 50, _viewed)}
