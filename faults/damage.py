"""A bit flipped, a tail cut off, a line missing or doubled, in each kind of file.

What follows is what would have followed without it, or a line that names the file: never another result.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.confidence.colour_runs import colour_run

from faults import stages
from faults.commands import run
from faults.fault import Fault, Outcome, Trial


def _flip(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << rng.randrange(8)]) + content[place + 1 :]


def _cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def _without_a_line(content: bytes, rng: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    del lines[rng.randrange(len(lines))]
    return b"".join(lines)


def _with_a_line_twice(content: bytes, rng: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    return b"".join([*lines, rng.choice(lines)])


_DAMAGES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "flipped bit": _flip,
    "tail cut off": _cut,
    "line missing": _without_a_line,
    "line doubled": _with_a_line_twice,
}


def damage(folder: Path, rng: random.Random) -> tuple[Path, str]:
    """Damage one file below a folder; which, and how."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size]
    path, how = rng.choice(files), rng.choice(list(_DAMAGES))
    if path.suffix not in (".json", ".jsonl", ".md", ".tex"):
        how = rng.choice(["flipped bit", "tail cut off"])
    path.write_bytes(_DAMAGES[how](path.read_bytes(), rng))
    return path, how


@contextmanager
def _interrupted(folder: Path) -> Iterator[Trial]:
    """An evaluation that was killed half-way, damaged, and resumed."""
    with stages.evaluation(folder) as stage:
        begun = folder / "begun"
        whole, seconds = stages.undisturbed(stage, folder)
        while not (begun / "unfinished.jsonl").exists():  # killed neither too early nor after its end
            shutil.rmtree(begun, ignore_errors=True)
            run(stage.begin(begun), folder / "log", kill_after=0.7 * seconds)

        def trial(own: Path, number: int) -> Outcome:
            out, outcome, rng = own / "run", Outcome(), random.Random(number)
            shutil.copytree(begun, out)
            path, how = damage(out, rng)
            ended = run(stage.resume(out), own / "log")
            if ended.status == 0 and not ended.fault:
                stage.compare(whole, out, outcome)
                outcome.count("made good")
            else:
                _named(path, how, ended.fault, ended.last_line, outcome)
            return outcome

        yield trial


@contextmanager
def _finished(folder: Path) -> Iterator[Trial]:
    """A finished run with confidence columns and votes, damaged, and read by the commands that read runs."""
    whole, log = colour_run(folder / "whole", 40), folder / "log"
    made = (["confidence", "add", "agreement,platt"], ["vote"], ["confidence", "compare"], ["rescore"])
    for command in made:
        ended = run([*command, whole], log)
        assert ended.status == 0, ended.errors
    commands: list[list[object]] = [
        ["metrics", "RUN", "--json"],
        ["metrics", "RUN", "--confidence", "agreement", "--json"],
        ["confidence", "compare", "RUN", "--json"],
        ["vote", "RUN", "--json"],
        ["compare", "RUN", "RUN", "--json"],
    ]

    def answers(place: Path, own: Path) -> Sequence[tuple[int, str, str, str]]:
        """Status, output, last line and fault of each command on a copy of a run, under one name."""
        found = []
        for command in commands:
            copy = folder / "run"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(place, copy)
            ended = run([copy if part == "RUN" else part for part in command], own / "log")
            found.append((ended.status, ended.output, ended.errors.strip(), ended.fault))
        return found

    expected = answers(whole, folder)

    def trial(own: Path, number: int) -> Outcome:
        out, outcome, rng = own / "run", Outcome(), random.Random(number)
        shutil.copytree(whole, out)
        path, how = damage(out, rng)
        for command, before, now in zip(commands, expected, answers(out, own), strict=True):
            status, output, errors, fault = now
            if status == 0 and output == before[1] and not fault:
                outcome.count("not touched by it")
            else:
                _named(path, f"{how}, {command[0]}", fault, f"{output}\n{errors}".strip(), outcome)
        return outcome

    yield trial


def _named(path: Path, how: str, fault: str, said: str, outcome: Outcome) -> None:
    """Count damage that was named, in an error or in what is printed; anything else is wrong."""
    # A file that lost whole lines, and nothing else, is one of a run that is not finished.
    if fault or not (path.name in said or (path.name == "records.jsonl" and "unfinished" in said)):
        outcome.fail(
            f"{path.name}, {how}: {fault or 'other numbers, and the file is not named'}: {said[-200:]}"
        )
    else:
        outcome.count("named")


@contextmanager
def _checkpoints(folder: Path) -> Iterator[Trial]:
    """A training with two checkpoints, the newest of them damaged or one of its files removed, resumed."""
    with stages.training(folder) as stage:
        whole, _ = stages.undisturbed(stage, folder)

        def trial(own: Path, number: int) -> Outcome:
            out, outcome, rng = own / "run", Outcome(), random.Random(number)
            shutil.copytree(whole, out)
            shutil.rmtree(out / "model")
            newest = out / "checkpoints" / "checkpoint-6"
            if rng.random() < 0.2:
                path, how = rng.choice(sorted(newest.iterdir())), "missing"
                path.unlink()
            else:
                path, how = damage(newest, rng)
            ended = run(stage.resume(out), own / "log")
            if ended.status or ended.fault:
                outcome.fail(f"{path.name}, {how}: {ended.fault or ended.last_line}")
                return outcome
            stage.compare(whole, out, outcome)
            outcome.count("named" if path.name in ended.errors else "passed over as cut short")
            return outcome

        yield trial


FAULTS = {
    "damage-resumed": Fault("damage to an interrupted evaluation, then `--resume`", 100, _interrupted),
    "damage-read": Fault("damage to a finished run, then five commands that read it", 100, _finished),
    "damage-checkpoint": Fault(
        "damage to the newest checkpoint, then `--resume`", 50, _checkpoints, torch=True
    ),
}
