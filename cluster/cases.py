# pyright: basic
"""What is run under each launch, and compared with one process.

update    two updates on given completions, each of several passes
sft       `rlcr sft`
train     `rlcr train` with our sampler and held-out evaluation, where weights are whole; with
          transformers' sampler, whose draws depend on the process, where they are in parts: these runs
          are not compared with one process
warm-up   `rlcr train` of a recipe with a warm-up, whose model is compared with that of one process; so is
          the trained one where weights are whole
resume    the last update of `train` made again from its checkpoint, as by a run that was interrupted
refused   `rlcr train` where its model could not be saved, or trained as the recipe says
killed    `rlcr train`, one of whose processes is killed
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from tests.tiny import tiny_model, writing_model, writing_tokenizer
from tests.training.sft_runs import rows, write_data, write_sums

from cluster.compare import compare
from cluster.processes import LIMIT, Running, start
from rlcr.training.warm_up import WARM_UP

#: By how much a weight may differ from that of one process.
WITHIN = 1e-5
#: Seconds within which all processes end after one was killed.
SOON = 60

_WHOLE = ("ddp", "zero2")
_PARTS = ("fsdp2", "zero3")
RECIPE = """\
model: {model}
task: arms
size: 4
method: rlcr
reward: rlcr
prompts: 2
group: 4
micro_batch: 2
lr: 0.1
schedule: constant
entropy: 0.02
updates: 2
max_prompt_tokens: 1024
max_completion_tokens: 12
dtype: float32
device: cpu
gradient_checkpointing: true
save_every: 1
report_to: []
"""


@dataclass(frozen=True)
class Place:
    """The folder of a case, which its launches share, and how processes are started."""

    folder: Path
    forked: bool

    def begin(self, name: str, arguments: Sequence[str]) -> Running:
        """Two processes under the launch of that name, or one where it is "one"."""
        errors = self.folder / f"{name}.log"
        return start(None if name == "one" else name, arguments, errors, forked=self.forked)

    def succeed(self, name: str, arguments: Sequence[str]) -> None:
        """The same, to its end; raises unless all is well."""
        running = self.begin(name, arguments)
        if running.wait():
            raise RuntimeError(_cause(running.errors))


@dataclass(frozen=True)
class Case:
    """The launches it is for, and what runs it."""

    launches: Sequence[str]
    run: Callable[[str, Place], dict[str, Any]]


def run(name: str, launch: str, folder: Path, *, forked: bool) -> dict[str, Any]:
    """What was found, and whether it is as it should be."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return CASES[name].run(launch, Place(folder, forked))
    except (RuntimeError, AssertionError, OSError) as error:
        return {"passed": False, "failed": f"{type(error).__name__}: {str(error)[:300]}"}


# --- cases ------------------------------------------------------------------------------------------


def _update(launch: str, place: Place) -> dict[str, Any]:
    def weights(name: str) -> dict[str, Any]:
        out = place.folder / name
        if not (out / "weights.pt").exists():
            out.mkdir(exist_ok=True)
            place.succeed(name, ["update", str(out)])
        return torch.load(out / "weights.pt")

    one, found = weights("one"), weights(launch)
    start = tiny_model(max_position_embeddings=2048).state_dict()
    compared = compare(found["weights"], one["weights"], start)
    facts = {"wrapped": found["wrapped"], "passes": found["passes"]}
    return facts | compared | {"passed": compared["difference"] < WITHIN and min(found["passes"]) > 1}


def _sft(launch: str, place: Place) -> dict[str, Any]:
    folder = place.folder
    model, data = _start(folder), write_data(folder / "data", _unlike(rows(8)))
    command = ["sft", "--model", model, "--data", data, "--epochs", "2", "--batch", "8", "--micro-batch", "2"]
    for name in ("one", launch):
        if not (folder / name / "model").exists():
            shutil.rmtree(folder / name, ignore_errors=True)
            place.succeed(name, ["rlcr", str(folder), *command, "--lr", "0.1", "--out", str(folder / name)])
    return _compared(folder / launch, folder / "one", model)


def _train(launch: str, place: Place) -> dict[str, Any]:
    folder = place.folder
    model = _start(folder)
    if launch in _WHOLE:
        for name in ("one", launch):
            if not (folder / name / "model").exists():
                shutil.rmtree(folder / name, ignore_errors=True)
                place.succeed(name, _train_command(folder, folder / name, model, *_EVALUATED))
        found = _compared(folder / launch, folder / "one", model)
        evals = [
            json.loads(path.read_text()) for path in sorted((folder / launch).glob("evals/*/results.json"))
        ]
        return found | {"evaluations": len(evals), "passed": found["passed"] and len(evals) == 2}
    shutil.rmtree(folder / launch, ignore_errors=True)
    place.succeed(launch, _train_command(folder, folder / launch, model, "sampler=transformers"))
    trained, start = _weights(folder / launch), load_file(Path(model) / "model.safetensors")
    moved = compare(trained, start, start)["difference"]
    return {"moved": moved, "passed": 0 < moved < 1}


#: With our sampler: held-out evaluation twice.
_EVALUATED = ("eval_every=1", "eval_size=4")


#: A warm-up of two updates, and one update of RL.
_WARMED = (
    "warm_up.examples=16", "warm_up.held_out=4", "warm_up.epochs=1", "warm_up.batch=8", "warm_up.lr=0.05",
    "max_completion_tokens=80", "updates=1", "task=file", "task_settings.solution=steps",
)  # fmt: skip


def _warm_up(launch: str, place: Place) -> dict[str, Any]:
    folder = place.folder
    model, sums = _start(folder), write_sums(folder / "sums.jsonl")
    for name in ("one", launch):
        changes = [*_WARMED, f"task_settings.path={sums}"]
        changes += ["sampler=transformers"] if launch in _PARTS and name != "one" else []
        if not (folder / name / "model").exists():
            shutil.rmtree(folder / name, ignore_errors=True)
            place.succeed(name, _train_command(folder, folder / name, model, *changes))
    found = _compared(folder / launch / WARM_UP, folder / "one" / WARM_UP, model)
    if launch in _WHOLE:
        went_on = _compared(folder / launch, folder / "one", model)["passed"]
    else:
        warm = _weights(folder / launch / WARM_UP)
        went_on = 0 < compare(_weights(folder / launch), warm, warm)["difference"] < 1
    return found | {"passed": found["passed"] and went_on}


def _resume(launch: str, place: Place) -> dict[str, Any]:
    folder = place.folder.parent / "train"
    model, out = _start(folder), folder / launch
    changes = _EVALUATED if launch in _WHOLE else ("sampler=transformers",)
    command = _train_command(folder, out, model, *changes)
    if not (out / "model").exists():
        shutil.rmtree(out, ignore_errors=True)
        place.succeed(launch, command)
    first = _weights(out)
    shutil.rmtree(out / "model")
    shutil.rmtree(out / "checkpoints" / "checkpoint-2")
    place.succeed(launch, [*command, "--resume"])
    compared = compare(_weights(out), first, load_file(Path(model) / "model.safetensors"))
    return compared | {"passed": compared["difference"] < WITHIN < compared["moved"]}


def _refused(launch: str, place: Place) -> dict[str, Any]:
    out = place.folder / launch
    # vLLM is not installed; the launch is refused before that is asked.
    running = place.begin(launch, _train_command(place.folder, out, _start(place.folder), "sampler=vllm"))
    status, said = running.wait(), _said(running)
    passed = status != 0 and len(set(said)) == 1 and not out.exists()
    return {"said": said[0] if said else running.errors[-300:], "passed": passed}


def _killed(launch: str, place: Place) -> dict[str, Any]:
    out = place.folder / launch
    shutil.rmtree(out, ignore_errors=True)
    changes = ("updates=10000", "save_every=10000")
    running = place.begin(launch, _train_command(place.folder, out, _start(place.folder), *changes))
    try:
        _wait_for(out / "updates.jsonl", running)
        os.kill(running.children()[1], signal.SIGKILL)
        began = time.monotonic()
        status = running.wait(5 * SOON)
        seconds = time.monotonic() - began
    finally:
        running.end()
    said = _said(running)
    passed = status != 0 and seconds < SOON and len(said) == 1
    return {
        "seconds": round(seconds, 1),
        "said": said[0] if said else running.errors[-300:],
        "passed": passed,
    }


_OF_A_PROCESS = re.compile(r"rlcr: |(\[rank\d\]: )?[\w.]*(Error|Exception)\b")
_OF_THE_LAUNCHER = re.compile(r"(exitcode|traceback)\s*:")


def _cause(errors: str) -> str:
    """What ended a run: what its processes said, else the signal that the launcher saw one of them die of."""
    lines = [line.strip() for line in errors.splitlines() if "ChildFailedError" not in line]
    said, seen = ([line for line in lines if by.match(line)] for by in (_OF_A_PROCESS, _OF_THE_LAUNCHER))
    return "; ".join((said or seen)[:6]) or errors[-300:]


def _said(running: Running) -> list[str]:
    return [line for line in running.errors.splitlines() if line.startswith("rlcr: ")]


def _wait_for(path: Path, running: Running) -> None:
    until = time.monotonic() + LIMIT
    while not path.exists():
        if running.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"{path.name} was not written: {running.errors[-300:]}")
        time.sleep(0.2)


CASES: dict[str, Case] = {
    "update": Case(("ddp", "fsdp2", "zero2", "zero2-offload", "zero3"), _update),
    "sft": Case(("ddp", "fsdp2", "zero2", "zero2-offload", "zero3"), _sft),
    "train": Case((*_WHOLE, *_PARTS), _train),
    "warm-up": Case((*_WHOLE, *_PARTS), _warm_up),
    "resume": Case((*_WHOLE, *_PARTS), _resume),
    "refused": Case(("fsdp1", "zero2-offload-replaced", "zero3-no-gather"), _refused),
    "killed": Case(("ddp", "zero2"), _killed),
}


# --- models -----------------------------------------------------------------------------------------


def _start(folder: Path) -> str:
    """A tiny model that writes the tags of a response."""
    model = folder / "start"
    if not model.exists():
        folder.mkdir(exist_ok=True)
        writing_model(max_position_embeddings=2048).save_pretrained(model)
        writing_tokenizer().save_pretrained(model)
    return str(model)


def _unlike(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Completions of unlike lengths: a loss that each process averaged by itself would differ."""
    return [line | {"completion": line["completion"] * (1 + n % 3)} for n, line in enumerate(lines)]


def _train_command(folder: Path, out: Path, model: str, *changes: str) -> list[str]:
    recipe = folder / "recipe.yaml"
    recipe.write_text(RECIPE.format(model=model))
    return ["rlcr", str(folder), "train", str(recipe), *changes, "--out", str(out)]


def _weights(run: Path) -> dict[str, Any]:
    return load_file(run / "model" / "model.safetensors")


def _compared(found: Path, expected: Path, start: str) -> dict[str, Any]:
    compared = compare(_weights(found), _weights(expected), load_file(Path(start) / "model.safetensors"))
    return compared | {"passed": compared["difference"] < WITHIN < compared["moved"]}
