"""What is kept of the runs: a small JSON file for each evaluation, vote and so on, in the folder outcomes.

The folders of the runs are large and stay in runs/. These files hold what every table, figure and claim is
computed from: the verdict and the confidence of each answer, the curve of the training, settings, versions,
commands and times. A step whose outcome is kept is not run again; delete the file to repeat it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from results.evidence.page import keep_answers
from results.evidence.plan import FAMILIES, MODEL, ROOT, TASKS, Step, model_folder

from rlcr.files import file_sha256, new_file
from rlcr.runs.lines import read_lines
from rlcr.runs.store import open_run

#: Seconds of each step, a line each, as they end.
TIMES = ROOT / "times.jsonl"
#: What is kept of each update.
_CURVES = (
    "reward", "accuracy", "brier", "ece", "auroc", "confidence_mean", "confidence_std", "well_formed",
    "entropy", "grad_norm", "tokens_mean", "zero_variance_groups",
)  # fmt: skip
_VOTE_DETAILS = ("minus_majority", "verdicts", "within_question_by_answer", "voted_confidence")


def keep(step: Step, all_steps: Sequence[Step]) -> None:
    """Write the outcome of a finished step, whole or not at all; nothing for steps that others build on."""
    if step.kept is None:
        return
    by_name = {one.name: one for one in all_steps}
    made_by = [by_name[name] for name in _line(step.name, by_name)]
    seconds = _seconds()
    outcome = {
        "commands": {one.name: _typed(one) for one in made_by},
        "seconds": {one.name: seconds.get(one.name) for one in made_by},
        "data": {path: file_sha256([TASKS / path]) for path in _data(step)},
        **_READ[step.makes.name](step.makes.parent),
    }
    step.kept.parent.mkdir(parents=True, exist_ok=True)
    with new_file(step.kept) as out:
        # Where the model lies on this machine is nobody's business.
        out.write((_compact(outcome).replace(model_folder(), f"${MODEL}") + "\n").encode())
    if step.answers:
        keep_answers(step.makes.parent, step.answers)


def _line(name: str, by_name: Mapping[str, Step]) -> list[str]:
    """A step behind all that it rests on."""
    before = [one for need in by_name[name].needs for one in _line(need, by_name)]
    return list(dict.fromkeys([*before, name]))


def _typed(step: Step) -> str:
    """The command of a step, with a variable where the model lies on this machine."""
    return shlex.join(("python", "-m", *step.command)).replace(model_folder(), f"${MODEL}")


def _data(step: Step) -> list[str]:
    return [f"{family}/test.jsonl" for family in FAMILIES if f"{family}/test.jsonl" in " ".join(step.command)]


def _seconds() -> dict[str, float]:
    """How long each step took in all; one that was cut off and resumed has several lines."""
    seconds: dict[str, float] = {}
    for line in read_lines(TIMES) if TIMES.exists() else ():
        seconds[line["step"]] = round(seconds.get(line["step"], 0.0) + line["seconds"], 1)
    return seconds


# --- by what a step makes ---------------------------------------------------------------------------


def _evaluation(folder: Path) -> dict[str, Any]:
    """Each answer's verdict and confidence, and the training behind them."""
    name = folder.relative_to(ROOT / "evals")
    facts = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    return {
        "versions": facts["versions"],
        **_training(ROOT / name),
        "answers": {family: _answers(folder, family) for family in FAMILIES},
    }


def _training(folder: Path) -> dict[str, Any]:
    """Settings and curve of a training; the counts of a warm-up."""
    warm_up = folder / "warm-up.json"
    if warm_up.exists():
        report = json.loads(warm_up.read_text(encoding="utf-8"))
        return {"warm_up": {name: report[name] for name in ("settings", "before", "after")}}
    settings = json.loads((folder / "training.json").read_text(encoding="utf-8"))["settings"]
    updates = list(read_lines(folder / "updates.jsonl"))
    curves = {name: [_rounded(update.get(name)) for update in updates] for name in _CURVES}
    return {"training": {"settings": settings, "curves": curves}}


def _answers(folder: Path, family: str) -> dict[str, Any]:
    """The answers to a family's test problems, by their ids: 1 for right, 0 for wrong, - for unscorable."""
    records = sorted(
        (one for one in open_run(folder).records() if Path(one.task).parent.name == family),
        key=lambda one: one.id,
    )
    questions = {
        name: place for place, name in enumerate(dict.fromkeys(_question(one.id) for one in records))
    }
    return {
        "question": [questions[_question(one.id)] for one in records],
        "correct": "".join("-" if one.correct is None else str(int(one.correct)) for one in records),
        "confidence": [one.confidence for one in records],
        "answer_probability": [_rounded(one.answer_probability) for one in records],
        "well_formed": sum(one.well_formed for one in records),
        "present": "".join(_present(one.id) for one in records) if family == "reading" else "",
    }


def _question(name: str) -> str:
    """What is resampled: reading asks each question twice, with the answer's sentence and without."""
    return name.removesuffix("/with").removesuffix("/without")


def _present(name: str) -> str:
    return str(int(name.endswith("/with")))


def _columns(folder: Path) -> dict[str, Any]:
    """Each source of confidence, task by task: its metrics and its difference from what the model states."""
    return {"tasks": json.loads((folder / "columns.json").read_text(encoding="utf-8"))["tasks"]}


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


def _analyses(folder: Path) -> dict[str, Any]:
    """Brier score and ECE of the mean of several analyses' confidences, against their number."""
    stored = json.loads((folder / "analyses.json").read_text(encoding="utf-8"))
    by_family = {Path(task).parent.name: task for task in stored["tasks"]}
    return {
        "curves": {family: stored["tasks"][task] for family, task in by_family.items()},
        "counts": {family: stored["details"][task] for family, task in by_family.items()},
    }


_READ = {
    "results.json": _evaluation,
    "analyses.json": _analyses,
    "columns.json": _columns,
    "voting.json": _votes,
    "coherence.json": _coherence,
}


# --- writing ----------------------------------------------------------------------------------------


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _compact(value: Any, indent: int = 0) -> str:
    """JSON with one line for each list of numbers and for each small dictionary."""
    flat = json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict) and (len(flat) > 100 or indent == 0):
        pad = " " * (indent + 1)
        cells = [f"{pad}{json.dumps(name)}: {_compact(cell, indent + 1)}" for name, cell in value.items()]
        return "{\n" + ",\n".join(cells) + "\n" + " " * indent + "}"
    return flat
