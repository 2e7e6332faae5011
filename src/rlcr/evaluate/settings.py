"""What a run is asked with: settings as the user gives them, as a run stores them, and as it is resumed."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from itertools import islice
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError
from rlcr.evaluate.methods import METHODS, Method, get_method, stored_method
from rlcr.files import file_sha256
from rlcr.many.stopping import Rule
from rlcr.prompts import Prompt, load_prompt
from rlcr.runs.differences import check_same
from rlcr.runs.store import PROBLEMS, Run
from rlcr.sample import Sampling
from rlcr.sample.opening import Access, is_server
from rlcr.tasks import TASKS, TaskSet, named_apart, read_problems
from rlcr.verify import Grading


@dataclass(frozen=True)
class Settings:
    """All that decides what a run samples and how it is graded. A run is resumed only with the same.

    ``model`` is a folder, hub id, GGUF file or the address of a server. Without ``temperature`` a single
    sample is greedy and several are drawn at 0.7, the temperature of training.
    """

    model: str
    tasks: tuple[str, ...]
    method: str | None = None
    split: str = "test"
    limit: int | None = None
    samples: int = 1
    max_tokens: int = 4096
    temperature: float | None = None
    top_p: float = 1.0
    stop: tuple[str, ...] = ()
    seed: int = 0
    grading: Grading = "strict"
    verifier: str | None = None
    judge: str | None = None
    prompt: str | None = None
    adaptive: float | None = None
    """Sample a problem only until its leading answer is this safe; ``samples`` is then the budget."""

    def rule(self) -> Rule | None:
        """When to stop sampling a problem, if that depends on its answers."""
        return None if self.adaptive is None else Rule(budget=self.samples, safety=self.adaptive)

    def sampling(self) -> Sampling:
        """How to sample."""
        usual = 0.0 if self.samples == 1 else 0.7
        temperature = usual if self.temperature is None else self.temperature
        return Sampling(self.max_tokens, temperature, self.top_p, self.stop, self.seed)


@dataclass(frozen=True)
class Asked:
    """Settings with all that follows from them before data is loaded and a model opened."""

    settings: Settings
    method: Method
    prompt: Prompt
    access: Access

    @classmethod
    def of(cls, settings: Settings, access: Access) -> Asked:
        """As the user asks."""
        named_apart(settings.tasks)  # raises where one is named twice
        settings.sampling().check()
        settings.rule()
        method = _method(settings)
        prompt = load_prompt(settings.prompt or method.prompt, format=method.format)
        return cls(settings, method, prompt, access)

    @classmethod
    def again(cls, run: Run, given: Mapping[str, Any], access: Access) -> Asked:
        """As a run began, but for what the user gives: settings by their names."""
        stored = run.settings
        if "tasks" not in stored or stored.get("method") not in METHODS:
            raise RlcrError(f"{run.folder}: not a run of `rlcr eval`: there is nothing to continue")
        rule = stored["adaptive"]
        known = stored | {
            # By their files, where they are files: what they are called in the run follows from that.
            "tasks": tuple(task["settings"].get("path", name) for name, task in stored["tasks"].items()),
            "stop": tuple(stored["stop"]),
            "adaptive": rule["safety"] if rule else None,
        }
        settings = Settings(**{field.name: known[field.name] for field in fields(Settings)} | dict(given))
        method = get_method(settings.method or stored["method"])
        # Its text, whatever has become of the file that it was read from.
        prompt = Prompt(stored["prompt"], stored["prompt_text"], method.format)
        if "prompt" in given:
            prompt = load_prompt(given["prompt"], format=method.format)
        local = not is_server(settings.model)
        access = replace(
            access,
            mode=access.mode or stored["mode"],
            tokenizer=access.tokenizer or stored["tokenizer"],
            chat_template=access.chat_template or stored.get("chat_template"),
            dtype=access.dtype or (_dtype(stored["model_weights"]) if local else None),
        )
        return cls(settings, method, prompt, access)

    def to_dict(self) -> dict[str, Any]:
        """What a run is compared by before anything is loaded: JSON, with every default filled in.

        Of ``access`` only what changes results; the dtype is part of the weights' fingerprint.
        """
        asked = asdict(self.settings) | {
            "mode": self.access.mode,
            "tokenizer": self.access.tokenizer,
            "chat_template": self.access.chat_template or None,
            "method": self.method.name,
            "temperature": self.settings.sampling().temperature,
            "prompt": self.prompt.name,
            "prompt_text": self.prompt.text,
            "adaptive": rule.to_dict() if (rule := self.settings.rule()) else None,
        }
        del asked["tasks"]
        return json.loads(json.dumps(asked))

    def check(self, run: Run) -> None:
        """Raise if a run was begun with other settings, as far as that can be seen without data and model."""
        now = self.to_dict()
        before = {name: run.settings.get(name) for name in now}
        # What a file is called in a run is known only once it is read.
        held = sorted(run.settings.get("tasks") or ())
        if unknown := [name for name in self.settings.tasks if name in TASKS and name not in held]:
            before |= {"tasks": held}
            now |= {"tasks": sorted([*held, *unknown])}
        check_same(run.folder, before, now)

    def check_weights(self, run: Run) -> None:
        """Raise if a local model has other weights than those a run began with: no need to load it."""
        before, model = run.settings.get("model_weights"), Path(self.settings.model).expanduser()
        if not before or not model.exists():
            return
        from rlcr.sample.loading import identify

        now = f"{self.access.dtype or _dtype(before)} {identify(self.settings.model)}"
        check_same(run.folder, {"model_weights": before}, {"model_weights": now})


def _dtype(weights: str | None) -> str | None:
    """The dtype of local weights, with which their fingerprint begins."""
    return weights.partition(" ")[0] if weights else None


def _method(settings: Settings) -> Method:
    if settings.method:
        named = get_method(settings.method)
        with contextlib.suppress(RlcrError):  # of a file that cannot be read; it is not needed
            stored = stored_method(settings.model)
            return stored if stored and stored.name == named.name else named
        return named
    stored = stored_method(settings.model)
    if stored is None:
        raise RlcrError(
            f"{settings.model} does not say how it was trained: give --method (base, rlvr, rlcr, …)"
        )
    return stored


def kept_tasks(run: Run) -> list[TaskSet] | None:
    """The tasks of a run from the problems that it keeps; None where it was stopped before it kept any."""
    if not (run.folder / PROBLEMS).exists():
        return None
    path = run.folder / PROBLEMS
    if run.problems_sha256 and file_sha256([path]) != run.problems_sha256:
        raise RlcrError(
            f"{path}: edited or damaged: not the problems that the run began with; put them back, or remove"
            " the file to take them from their data again"
        )
    problems = iter(read_problems(path))
    return [TaskSet.restored(task, islice(problems, task["size"])) for task in run.settings["tasks"].values()]
