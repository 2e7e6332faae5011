"""The commands that are disturbed: how each is begun and resumed, and how two of its runs are compared."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.confidence.colour_runs import colour_run, tiny_checkpoint
from tests.evaluate.capitals import capitals, needy_reply
from tests.servers import Call, ModelServer
from tests.training.tiny_recipe import RECIPE

from faults.commands import run
from faults.fault import Outcome
from rlcr.problem import Problem
from rlcr.runs.lines import object_of, read_lines
from rlcr.runs.store import open_run
from rlcr.tasks import write_problems

Arguments = list[object]


def _nothing(*_: Any) -> None:
    pass


@dataclass(frozen=True)
class Stage:
    """A command that writes to ``out``.

    ``begun(out)`` says whether it is to be resumed; ``before(out)`` puts there what the command reads;
    ``after_kill(whole, out, outcome)`` looks at what a kill left, ``compare(whole, out, outcome)`` at what
    came out in the end.
    """

    begin: Callable[[Path], Arguments]
    resume: Callable[[Path], Arguments]
    begun: Callable[[Path], bool]
    compare: Callable[[Path, Path, Outcome], None]
    before: Callable[[Path], None] = _nothing
    after_kill: Callable[[Path, Path, Outcome], None] = _nothing


def undisturbed(stage: Stage, folder: Path) -> tuple[Path, float]:
    """What a stage comes to when nothing happens to it, and how many seconds it takes."""
    whole = folder / "undisturbed"
    stage.before(whole)
    ended = run(stage.begin(whole), folder / "undisturbed.log")
    assert ended.status == 0, ended.errors
    return whole, ended.seconds


# --- evaluation and what is made of it --------------------------------------------------------------


@contextmanager
def evaluation(folder: Path) -> Iterator[Stage]:
    """`rlcr eval` on a server, whose replies need forced continuations."""
    with ModelServer(needy_reply, delay=0.01) as server:
        begin: Arguments = ["eval", "--model", server.url, "--task", capitals(folder, 20), "--method", "base"]
        begin += ["--concurrency", 4]
        yield Stage(
            lambda out: [*begin, "--out", out],
            lambda out: ["eval", "--resume", "--model", server.url, "--out", out],
            lambda out: (out / "run.json").exists(),
            same_run,
        )


@contextmanager
def local_evaluation(folder: Path) -> Iterator[Stage]:
    """`rlcr eval` of a local model, sampling in batches; log-probabilities may differ by rounding."""
    model = local_model(folder / "model")
    begin: Arguments = ["eval", "--model", model, "--task", capitals(folder, 6), "--method", "rlcr"]
    begin += ["--samples", 3, "--temperature", 1, "--max-tokens", 16]
    yield Stage(
        lambda out: [*begin, "--out", out],
        lambda out: ["eval", "--resume", "--out", out],
        lambda out: (out / "run.json").exists(),
        same_run,
    )


@contextmanager
def rescoring(folder: Path) -> Iterator[Stage]:
    """`rlcr rescore` by another grading: at every moment the records are of the one that run.json says."""
    finished = colour_run(folder / "finished", 300)

    def before(out: Path) -> None:
        shutil.copytree(finished, out)

    def check(whole: Path, out: Path, outcome: Outcome) -> None:
        now = open_run(out).graded["grading"]
        graded_so = finished if now == "strict" else whole
        if read_records(out) != read_records(graded_so):
            outcome.fail(f"run.json says {now}, and the records are graded in another way")

    def compare(whole: Path, out: Path, outcome: Outcome) -> None:
        check(whole, out, outcome)
        same_run(whole, out, outcome)

    command: Callable[[Path], Arguments] = lambda out: ["rescore", out, "--grading", "paper"]  # noqa: E731
    yield Stage(command, command, lambda out: False, compare, before, check)


@contextmanager
def importing(folder: Path) -> Iterator[Stage]:
    """`rlcr import`: the run is there whole, or not at all."""
    table = folder / "table.jsonl"
    texts = (f"<answer>{n % 7}</answer><confidence>0.{n % 9}</confidence>" for n in range(2000))
    lines = ({"question": f"{n}?", "gold": "3", "text": text} for n, text in enumerate(texts))
    table.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def check(whole: Path, out: Path, outcome: Outcome) -> None:
        if out.exists() and read_records(out) != read_records(whole):
            outcome.fail("half a run is there")

    begin: Arguments = ["import", table, "--completion", "text", "--gold", "gold", "--question", "question"]
    command: Callable[[Path], Arguments] = lambda out: [*begin, "--out", out]  # noqa: E731
    # A kill after it appeared is one of a command that had done its work.
    ended: Callable[[Path], Arguments] = lambda out: ["rescore", out]  # noqa: E731
    yield Stage(command, ended, Path.exists, same_run, after_kill=check)


@contextmanager
def adding_confidence(folder: Path) -> Iterator[Stage]:
    """`rlcr confidence add`: a column is there whole, or not at all."""
    finished = colour_run(folder / "finished", 150)

    def before(out: Path) -> None:
        shutil.copytree(finished, out)

    def check(whole: Path, out: Path, outcome: Outcome) -> None:
        for column in (out / "confidence").glob("*.jsonl"):
            if column.read_bytes() != (whole / "confidence" / column.name).read_bytes():
                outcome.fail(f"half a column: {column.name}")

    def compare(whole: Path, out: Path, outcome: Outcome) -> None:
        same_run(whole, out, outcome)
        names = [f"confidence/{column}.{kind}" for column in ("agreement", "platt") for kind in _COLUMN]
        same_files(whole, out, names, outcome)

    command: Callable[[Path], Arguments] = lambda out: ["confidence", "add", "agreement,platt", out]  # noqa: E731
    yield Stage(command, command, lambda out: False, compare, before, check)


_COLUMN = ("jsonl", "json")


@contextmanager
def reporting(folder: Path) -> Iterator[Stage]:
    """`rlcr report`: the page is there whole, or not at all."""
    run = colour_run(folder / "finished", 60)

    def compare(whole: Path, out: Path, outcome: Outcome) -> None:
        # It says to the minute when it was made.
        texts = [(place / "report.html").read_text() for place in (whole, out)]
        pages = [re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "", text) for text in texts]
        if pages[0] != pages[1]:
            outcome.fail("another page")

    def check(whole: Path, out: Path, outcome: Outcome) -> None:
        if (out / "report.html").exists():
            compare(whole, out, outcome)

    command: Callable[[Path], Arguments] = lambda out: ["report", run, "--out", out / "report.html"]  # noqa: E731
    yield Stage(command, command, lambda out: False, compare, lambda out: out.mkdir(), check)


# --- training ---------------------------------------------------------------------------------------


@contextmanager
def training(folder: Path) -> Iterator[Stage]:
    """`rlcr train`: six updates, a checkpoint after every second; the weights must agree bit for bit."""
    recipe = folder / "recipe.yaml"
    recipe.write_text(RECIPE.format(model=local_model(folder / "start")))

    def compare(whole: Path, out: Path, outcome: Outcome) -> None:
        rollouts = [f"rollouts/update-{n:06}.jsonl.gz" for n in range(1, 7)]
        same_files(whole, out, ["model/model.safetensors", *rollouts], outcome)
        updates = [list(read_lines(place / "updates.jsonl")) for place in (whole, out)]
        outcome.compare_keys(*([line["update"] for line in lines] for lines in updates))
        if timeless(updates[0]) != timeless(updates[1]):
            outcome.fail("other measurements of an update")

    yield Stage(
        lambda out: ["train", recipe, "--out", out],
        lambda out: ["train", recipe, "--out", out, "--resume"],
        lambda out: (out / "training.json").exists(),
        compare,
    )


@contextmanager
def sft_data(folder: Path) -> Iterator[Stage]:
    """`rlcr sft-data` on a server, whose analyses are too short at first for one problem in three."""
    path = folder / "sums.jsonl"
    problems = [Problem(f"sum/{n}", f"What is {n} + 30?", (str(n + 30),), "math") for n in range(40)]
    write_problems(path, problems)
    with ModelServer(_solve_or_analyse, delay=0.01) as server:
        begin: Arguments = ["sft-data", "--model", server.url, "--task", path, "--expert", server.url]
        begin += ["--limit", len(problems)]

        def compare(whole: Path, out: Path, outcome: Outcome) -> None:
            same_files(whole, out, ["sft.jsonl"], outcome)
            replies = [list(read_lines(place / "records.jsonl")) for place in (whole, out)]
            names = [[(r["id"], r["stage"], r["text"]) for r in lines] for lines in replies]
            outcome.compare_keys(*names)
            counts = [object_of((place / "sft-data.json").read_bytes())["counts"] for place in (whole, out)]
            if counts[0] != counts[1]:
                outcome.fail("other counts")

        yield Stage(
            lambda out: [*begin, "--out", out],
            lambda out: [*begin, "--out", out, "--resume"],
            lambda out: (out / "run.json").exists(),
            compare,
        )


def _solve_or_analyse(call: Call) -> str:
    n = int(call.prompt.partition("What is ")[2].partition(" +")[0])
    if f"<answer>{n + 30}</answer>" not in call.prompt:
        return f"<think>{n} and 30</think><answer>{n + 30}</answer>"
    # The seed tells the attempts apart, so that asking the same again gives the same.
    enough = n % 3 or call.number % 2
    return f"<analysis>{'I add them, and the unit is not given. ' * (10 if enough else 1)}</analysis>"


@contextmanager
def sft(folder: Path) -> Iterator[Stage]:
    """`rlcr sft`: three epochs with a checkpoint each."""
    from tests.training.sft_runs import rows, write_data

    model, data = local_model(folder / "start"), write_data(folder / "data", rows(8))
    begin: Arguments = ["sft", "--model", model, "--data", data, "--batch", 4, "--lr", 0.003]
    yield Stage(
        lambda out: [*begin, "--out", out],
        lambda out: [*begin, "--out", out, "--resume"],
        lambda out: (out / "run.json").exists(),
        lambda whole, out, outcome: same_files(whole, out, ["model/model.safetensors"], outcome),
    )


@contextmanager
def classifier(folder: Path) -> Iterator[Stage]:
    """`rlcr confidence train-classifier`."""
    run, model = colour_run(folder / "run", 30), tiny_checkpoint(folder / "start")
    begin: Arguments = ["confidence", "train-classifier", run, "--model", model, "--epochs", 2, "--lr", 0.003]
    yield Stage(
        lambda out: [*begin, "--out", out],
        lambda out: [*begin, "--out", out, "--resume"],
        lambda out: (out / "plan.json").exists() or (out / "classifier.json").exists(),
        lambda whole, out, outcome: same_files(
            whole, out, ["model.safetensors", "classifier.json"], outcome, {"plan.json", "checkpoints"}
        ),
    )


def local_model(folder: Path) -> Path:
    """A tiny model that answers in tags, as a folder."""
    from tests.tiny import writing_model, writing_tokenizer  # torch is slow to import

    writing_model(strength=9.0, max_position_embeddings=2048).save_pretrained(folder)
    writing_tokenizer().save_pretrained(folder)
    return folder


# --- comparing --------------------------------------------------------------------------------------

#: Sums over floats, which depend in their last digits on what else is in a batch.
_ROUNDED = ("logprob", "answer_logprobs", "answer_probability")


def same_run(whole: Path, out: Path, outcome: Outcome) -> None:
    """The records of the undisturbed run but for order and timings, its results, and nothing left to do."""
    expected, found = read_records(whole), read_records(out)
    outcome.compare_keys([key(one) for one in expected], [key(one) for one in found])
    by_key = {key(one): one for one in expected}
    for one in found:
        if not _same_record(one, by_key.get(key(one), {})):
            outcome.fail(f"another record: {key(one)}")
    same_files(whole, out, ["results.md", "problems.jsonl"], outcome, {"unfinished.jsonl"})


def _same_record(one: dict[str, Any], other: dict[str, Any]) -> bool:
    exact = [{name: value for name, value in r.items() if name not in _ROUNDED} for r in (one, other)]
    return exact[0] == exact[1] and all(_close(one[name], other[name]) for name in _ROUNDED)


def _close(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_close(one[name], other[name]) for name in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_close, one, other))
    return one == other or abs(one - other) < 1e-4


def same_files(
    whole: Path, out: Path, names: list[str], outcome: Outcome, gone: set[str] | None = None
) -> None:
    """These files agree byte for byte, and what is only for an unfinished run is gone."""
    for name in names:
        if not (out / name).exists():
            outcome.fail(f"no {name}")
        elif (whole / name).read_bytes() != (out / name).read_bytes():
            outcome.fail(f"another {name}")
    for name in gone or ():
        if (out / name).exists():
            outcome.fail(f"{name} is still there")


def read_records(folder: Path) -> list[dict[str, Any]]:
    """The records of a run without what depends on the clock."""
    return timeless(list(read_lines(folder / "records.jsonl")))


def timeless(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lines without what depends on the clock."""
    return [{name: value for name, value in one.items() if name != "seconds"} for one in lines]


def key(record: dict[str, Any]) -> tuple[str, int]:
    """Which completion it is."""
    return record["id"], record["sample"]
