"""`make evidence`: run what is missing, two at a time on one thread each, and write results/evidence.json.

    python -m results.evidence                all whose outcome is not kept yet: hours; resumable
    python -m results.evidence --only chains  the steps whose name holds this
    python -m results.evidence --list         what there is, and what is done
    python -m results.evidence --minutes 100  start nothing after so long

The family ``reading`` is made of HotpotQA, in the folder that ``RLCR_DATA`` names.

Ctrl-C ends what is running; the same command continues it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from results.evidence import figures, tables
from results.evidence.claims import findings
from results.evidence.collect import collect
from results.evidence.outcomes import TIMES, keep
from results.evidence.plan import ROOT, Step, model_folder, steps

from rlcr.errors import RlcrError
from rlcr.files import new_file

OUT = Path("results/evidence.json")


@dataclass
class Running:
    """A step that has been started."""

    step: Step
    process: subprocess.Popen[bytes]
    started: float = field(default_factory=time.monotonic)


def main() -> None:
    """Parse arguments and run."""
    parser = argparse.ArgumentParser(description="Run what is missing of the evidence.")
    parser.add_argument("--only", default="", help="steps whose name holds this, and what they need")
    parser.add_argument("--list", action="store_true", help="say what there is, and run nothing")
    parser.add_argument("--jobs", type=int, default=2, help="steps at the same time")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start nothing after so long")
    options = parser.parse_args()
    try:
        all_steps = list(steps(model_folder()))
    except RlcrError as error:
        sys.exit(f"evidence: {error}")
    chosen = chosen_steps(all_steps, options.only)
    if options.list:
        for step in chosen:
            print(f"{'done   ' if step.done else 'missing'}  {step.name}")
        return
    failed = run(
        chosen, options.jobs, time.monotonic() + 60 * options.minutes, keep=lambda s: keep(s, all_steps)
    )
    if any(is_kept(step) for step in all_steps):
        for path in conclude(all_steps):
            print(path)
    if failed:
        sys.exit(f"evidence: failed: {', '.join(failed)}; their output is in {ROOT / 'logs'}")


def conclude(all_steps: Sequence[Step]) -> list[Path]:
    """Everything that follows from what is kept: the JSON file, the tables of the docs, the figures."""
    evidence = collect(all_steps) | {"claims": findings()}
    with new_file(OUT) as out:
        out.write((json.dumps(evidence, indent=1) + "\n").encode())
    return [OUT, tables.write(evidence), *figures.draw()]


def is_kept(step: Step) -> bool:
    """Whether the outcome of a step is in the repository, with its answers where they are to be."""
    return step.kept is not None and all(path.exists() for path in (step.kept, step.answers) if path)


def chosen_steps(all_steps: Sequence[Step], only: str) -> list[Step]:
    """The steps whose name holds a text and whose outcome is not kept, with all that they need, in order."""
    by_name = {step.name: step for step in all_steps}
    wanted: set[str] = set()

    def want(name: str) -> None:
        wanted.add(name)
        for other in by_name[name].needs:
            want(other)

    for step in all_steps:
        if only in step.name and not is_kept(step) and (only or step.kept):
            want(step.name)
    return [step for step in all_steps if step.name in wanted]


def run(
    chosen: Sequence[Step], jobs: int, until: float, keep: Callable[[Step], None] = lambda step: None
) -> list[str]:
    """Start steps as their turn comes and wait for them; the names of those that failed.

    ``keep`` is given each step that is done.
    """
    waiting = [step for step in chosen if not step.done]
    finished = {step.name for step in chosen if step.done}
    for step in chosen:
        if step.done:
            keep(step)
    running: list[Running] = []
    failed: list[str] = []
    try:
        while running or waiting:
            ready = [step for step in waiting if finished.issuperset(step.needs)]
            if time.monotonic() < until and ready and len(running) < jobs:
                waiting.remove(ready[0])
                running.append(start(ready[0]))
            elif not running:
                break  # nothing is left that can be started
            else:
                time.sleep(0.5)
            for one in [one for one in running if one.process.poll() is not None]:
                running.remove(one)
                succeeded = one.process.returncode == 0 and one.step.done
                note(one)
                (finished.add if succeeded else failed.append)(one.step.name)
                if succeeded:
                    keep(one.step)
    finally:
        for one in running:
            one.process.terminate()  # in the background of a script, Ctrl-C is ignored
        for one in running:
            one.process.wait()
            note(one)
    return failed


def start(step: Step) -> Running:
    """Start a step on one thread: two processes that use both cores each would crawl."""
    log = ROOT / "logs" / f"{step.name.replace('/', '-').replace(' ', '-')}.txt"
    log.parent.mkdir(parents=True, exist_ok=True)
    print(f"{step.name}: started, {log}", flush=True)
    with open(log, "ab") as out:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        return Running(step, subprocess.Popen(step.arguments(), stdout=out, stderr=out, env=environment))


def note(one: Running) -> None:
    """Say that a step has ended, and write down how long it took."""
    seconds = round(time.monotonic() - one.started, 1)
    outcome = "done" if one.step.done else f"not done (exit status {one.process.returncode})"
    print(f"{one.step.name}: {outcome} after {seconds / 60:.1f} minutes", flush=True)
    with open(TIMES, "a", encoding="utf-8") as times:
        times.write(json.dumps({"step": one.step.name, "seconds": seconds, "done": one.step.done}) + "\n")


if __name__ == "__main__":
    main()
