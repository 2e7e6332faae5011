"""What the finished runs came to: results/evidence.json.

Test splits are read here alone. Seeds are pooled: a question then has one answer by each seed, and intervals
resample questions. A difference is RLCR minus RLVR, of the same seeds on the same questions.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from results.evidence.plan import FAMILIES, MODEL, ROOT, SEEDS, TASKS, TRAINED, Step, model_folder

from rlcr import metrics
from rlcr.files import file_sha256, new_file
from rlcr.runs.store import open_run

OUT = Path("results/evidence.json")
#: Seconds of each step, a line each, as they end.
TIMES = ROOT / "times.jsonl"
_SHOWN = ("accuracy", "auroc", "brier", "ece")
_VOTE_DETAILS = ("minus_majority", "verdicts", "within_question_by_answer", "voted_confidence")

Answers = tuple[list[bool], list[float | None], list[str]]


def collect(all_steps: Sequence[Step]) -> dict[str, Any]:
    """Everything that can be said by now."""
    seconds = _seconds()
    done = [step for step in all_steps if step.done]
    return {
        "command": "make evidence",
        "steps": {step.name: {"command": _typed(step), "seconds": seconds.get(step.name)} for step in done},
        "missing": [step.name for step in all_steps if not step.done],
        "data": {
            str(path.relative_to(TASKS)): file_sha256([path]) for path in sorted(TASKS.glob("*/*.jsonl"))
        },
        "tables": {family: _table(family) for family in TRAINED},
        "differences": {family: _differences(family) for family in TRAINED},
        "confidence": {name: _columns(folder) for name, folder in _with("evals", "columns.json")},
        "votes": {name: _votes(folder) for name, folder in _with("samples", "voting.json")},
        "coherence": {name: _coherence(folder) for name, folder in _with("samples", "coherence.json")},
    }


def _with(kind: str, file: str) -> Iterator[tuple[str, Path]]:
    """The runs of a kind that have a file: their names and folders."""
    for path in sorted((ROOT / kind).rglob(file)):
        yield str(path.parent.relative_to(ROOT / kind)), path.parent


def _columns(folder: Path) -> dict[str, Any]:
    """Each source of confidence, task by task: its metrics and its difference from what the model states."""
    return json.loads((folder / "columns.json").read_text(encoding="utf-8"))["tasks"]


def _votes(folder: Path) -> dict[str, Any]:
    """Accuracy of each way to choose among all samples, and its difference from the plain majority."""
    stored = json.loads((folder / "voting.json").read_text(encoding="utf-8"))
    [curves], [details] = stored["tasks"].values(), stored["details"].values()
    at_most = {
        curve["name"]: {name: curve[name][-1] for name in ("n", "value", "low", "high")}
        for curve in curves
        if curve["metric"] == "accuracy"
    }
    return {"accuracy": at_most, **{name: details[name] for name in _VOTE_DETAILS}}


def _coherence(folder: Path) -> dict[str, Any]:
    """Sums of the confidences in a question's answers, and the spread of those in one answer."""
    [task] = json.loads((folder / "coherence.json").read_text(encoding="utf-8"))["tasks"].values()
    return {"summary": task["summary"], "counts": task["counts"]}


def _typed(step: Step) -> str:
    """The command of a step, with a variable where the model lies on this machine."""
    return shlex.join(("python", "-m", *step.command)).replace(model_folder(), f"${MODEL}")


def write(all_steps: Sequence[Step]) -> Path:
    """Write the file, whole or not at all."""
    with new_file(OUT) as out:
        out.write((json.dumps(collect(all_steps), indent=1) + "\n").encode())
    return OUT


def _table(family: str) -> dict[str, Any]:
    """Metrics of each variant on each family of problems, seeds pooled."""
    rows: dict[str, Any] = {}
    start = ROOT / "evals" / "start"
    finished = {variant: _finished(family, variant, seeds) for variant, seeds in SEEDS[family].items()}
    for variant, folders in {"start": [start] if _is_finished(start) else [], **finished}.items():
        for task in FAMILIES if folders else ():
            correct, confidence, question = _answers(folders, task)
            summary = metrics.summary(correct, confidence, question=question)
            numbers = {name: summary.metrics[name].to_dict() for name in _SHOWN}
            rows.setdefault(variant, {"seeds": len(folders)})[task] = {"n": summary.n, **numbers}
    return rows


def _differences(family: str) -> dict[str, Any]:
    """RLCR minus RLVR, over the seeds of which both are finished."""
    both = [
        seed
        for seed in SEEDS[family]["rlcr"]
        if _finished(family, "rlcr", (seed,)) and _finished(family, "rlvr", (seed,))
    ]
    if not both:
        return {}
    rlvr, rlcr = (_finished(family, variant, tuple(both)) for variant in ("rlvr", "rlcr"))
    compared = {task: metrics.compare_common(_answers(rlvr, task), _answers(rlcr, task)) for task in FAMILIES}
    return {
        "seeds": both,
        **{task: comparison.to_dict() for task, comparison in compared.items() if comparison},
    }


def _finished(family: str, variant: str, seeds: Sequence[int]) -> list[Path]:
    folders = [ROOT / "evals" / family / f"{variant}-{seed}" for seed in seeds]
    return [folder for folder in folders if _is_finished(folder)]


def _is_finished(folder: Path) -> bool:
    return (folder / "results.json").exists()


def _answers(folders: Sequence[Path], task: str) -> Answers:
    """The scored answers of runs to one family of problems, as if they were samples of one system."""
    correct: list[bool] = []
    confidence: list[float | None] = []
    question: list[str] = []
    for folder in folders:
        for record in open_run(folder).records():
            if record.correct is not None and Path(record.task).parent.name == task:
                correct.append(record.correct)
                confidence.append(record.confidence)
                question.append(_question(record.id))
    return correct, confidence, question


def _question(name: str) -> str:
    """What is resampled: reading asks each question twice, with the answer's sentence and without."""
    return name.removesuffix("/with").removesuffix("/without")


def _seconds() -> dict[str, float]:
    """How long each step took in all; one that was cut off and resumed has several lines."""
    seconds: dict[str, float] = {}
    if TIMES.exists():
        for line in map(json.loads, TIMES.read_text(encoding="utf-8").splitlines()):
            seconds[line["step"]] = round(seconds.get(line["step"], 0.0) + line["seconds"], 1)
    return seconds
