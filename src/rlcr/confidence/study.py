"""Does reasoning about uncertainty help calibration? The paper's study of analysis classifiers.

Two classifiers for each model size, alike except for what they read: a baseline on the solutions of one run
(RLVR), and one on the whole responses of another (RLCR), analyses included and stated confidences removed.
Where a small classifier does better with the analysis, the analysis holds what it could not find out by
itself.

Each run's questions are cut in two by their text, the same way in both runs: classifiers are trained (and
stopped) on the one part and measured on the other. The numbers go to ``classifier_sizes.json`` in both
runs, of which `rlcr report BASELINE ANALYSIS` draws the figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from rlcr import metrics
from rlcr.confidence.classifier import (
    CLASSIFIER,
    ClassifierSettings,
    check_plan,
    classified,
    plan_of,
    read_classifier,
    train_classifier,
)
from rlcr.confidence.rows import Rows, folds_of, read_rows
from rlcr.errors import RlcrError, nearest
from rlcr.metrics import Estimate
from rlcr.runs.stamps import stamp, write_derived
from rlcr.runs.store import open_run
from rlcr.training.recipes.reading import read

RECIPE = Path(__file__).parent / "analysis-classifiers.yaml"
SIZES = "classifier_sizes.json"
METRICS = ("brier", "ece", "auroc")


@dataclass(frozen=True)
class Study:
    """What the study trains. One question in ``test`` is kept for measuring."""

    models: tuple[str, ...]
    test: int
    classifier: ClassifierSettings

    def with_models(self, models: Sequence[str]) -> Study:
        """The same at other sizes."""
        return replace(self, models=tuple(models))


@dataclass(frozen=True)
class SizeResult:
    """A classifier on the questions held for measuring."""

    run: str
    model: str
    rows: int
    metrics: Mapping[str, Estimate]


def load_study(path: Path | None = None) -> Study:
    """The paper's study, or one from a file of the same shape."""
    path = path or RECIPE
    settings = dict(read(path, str(path)).values)
    known = ["about", "models", "test", *(f.name for f in fields(ClassifierSettings) if f.name != "part")]
    for name in settings:
        if name not in known:
            raise RlcrError(f"{path}: unknown setting {name!r}: {nearest(str(name), known)}")
    models = settings.pop("models", None)
    settings.pop("about", None)
    if not isinstance(models, list) or not models:
        raise RlcrError(f"{path}: models must list at least one checkpoint")
    test = settings.pop("test", 5)
    if not isinstance(test, int) or isinstance(test, bool) or test < 2:
        raise RlcrError(f"{path}: test must be a whole number from 2, not {test!r}")
    study = Study(tuple(map(str, models)), test, ClassifierSettings(**settings))
    try:
        study.classifier.check()
    except RlcrError as error:
        raise RlcrError(f"{path}: {error}") from None
    return study


def run_study(baseline: Path, analysis: Path, out: Path, study: Study) -> list[SizeResult]:
    """Train what is not in ``out`` yet, measure, and write the numbers into both runs."""
    folders = {"baseline": baseline, "analysis": analysis}
    stamps = {name: stamp(open_run(folder)) for name, folder in folders.items()}
    runs = {name: read_rows(folder) for name, folder in folders.items()}
    # Cut by both runs' questions together, so that a question is on the same side in both.
    every = sorted({question for rows in runs.values() for question in rows.questions})
    test = {q for q, fold in zip(every, folds_of(every, study.test, seed=2), strict=True) if fold == 0}
    results: list[SizeResult] = []
    for name, rows in runs.items():
        part = "solution" if name == "baseline" else "analysis"
        kept = [question not in test for question in rows.questions]
        learning, measured = rows.only(np.array(kept)), rows.only(~np.array(kept))
        sizes = []
        for number, model in enumerate(study.models):
            folder = out / f"{name}-{number}-{Path(model).name}"
            settings = replace(study.classifier, part=part)
            if (folder / CLASSIFIER).exists():
                check_plan(folder, read_classifier(folder), plan_of(learning, model, settings))
            else:
                train_classifier(learning, model, folder, settings, resume=folder.exists())
            sizes.append(_measure(measured, folder, name, model))
        results += sizes
        write_derived(rows.run, SIZES, _figure(rows, sizes, study), stamps[name])
    return results


def _measure(rows: Rows, folder: Path, name: str, model: str) -> SizeResult:
    confidence, _, _ = classified(rows, folder)
    given = rows.scored & ~np.isnan(confidence)
    ids = [key[0] for key, keep in zip(rows.keys, given, strict=True) if keep]
    if not ids:
        raise RlcrError(f"{rows.run.folder}: no scored record is held for measuring; use more questions")
    summary = metrics.summary(rows.verdict[given], confidence[given], question=ids)
    return SizeResult(name, model, summary.n, {metric: summary.metrics[metric] for metric in METRICS})


def _figure(rows: Rows, sizes: Sequence[SizeResult], study: Study) -> dict[str, Any]:
    """As the report draws it: see docs/report.md."""
    bars = [
        {
            "name": Path(result.model).name,
            "rows": result.rows,
            "metrics": {
                name: estimate.to_dict()
                for name, estimate in result.metrics.items()
                if estimate.value is not None
            },
        }
        for result in sizes
    ]
    task = ", ".join(rows.run.settings["tasks"])
    return {"tasks": {task: bars}, "settings": asdict(study)}
