"""What the runs came to: results/evidence.json, computed from the outcomes that are kept.

Seeds are pooled: a question then has one answer by each seed, and intervals resample questions. A difference
is RLCR minus RLVR, of the same seeds on the same questions.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from results.evidence.plan import FAMILIES, OUTCOMES, SEEDS, TRAINED, Step

from rlcr import metrics

SHOWN = ("accuracy", "auroc", "brier", "ece")

Outcome = dict[str, Any]
Answers = tuple[list[bool], list[float | None], list[str]]


def collect(all_steps: Sequence[Step]) -> dict[str, Any]:
    """Everything that can be said by now."""
    return {
        "command": "make evidence",
        "missing": [step.name for step in all_steps if step.kept and not step.kept.exists()],
        "tables": {family: _table(family) for family in TRAINED},
        "differences": {family: _differences(family) for family in TRAINED},
        "confidence": _all("columns"),
        "votes": _all("vote"),
        "coherence": _all("coherence"),
    }


def read_outcome(name: str) -> Outcome | None:
    """What is kept of a run, such as ``chains/rlcr-0``; None where nothing is."""
    path = OUTCOMES / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def finished(family: str, variant: str) -> dict[int, Outcome]:
    """The evaluations of a variant that are kept, by seed."""
    kept = {seed: read_outcome(f"{family}/{variant}-{seed}") for seed in SEEDS[family].get(variant, ())}
    return {seed: outcome for seed, outcome in kept.items() if outcome}


def answers(outcomes: Sequence[Outcome], family: str) -> Answers:
    """The scored answers of runs to one family of problems, as if they were samples of one system."""
    pooled = [
        (verdict == "1", confidence, str(question))
        for outcome in outcomes
        for verdict, confidence, question in zip(
            *(outcome["answers"][family][name] for name in ("correct", "confidence", "question")), strict=True
        )
        if verdict != "-"
    ]
    correct, confidence, question = (list(column) for column in zip(*pooled, strict=True))
    return correct, confidence, question


def _table(family: str) -> dict[str, Any]:
    """Metrics of each variant on each family of problems, seeds pooled."""
    rows: dict[str, Any] = {}
    start = read_outcome("start")
    found = {"start": [start] if start else []}
    found |= {variant: list(finished(family, variant).values()) for variant in SEEDS[family]}
    for variant, outcomes in found.items():
        for task in FAMILIES if outcomes else ():
            correct, confidence, question = answers(outcomes, task)
            summary = metrics.summary(correct, confidence, question=question)
            numbers = {name: summary.metrics[name].to_dict() for name in SHOWN}
            rows.setdefault(variant, {"seeds": len(outcomes)})[task] = {"n": summary.n, **numbers}
    return rows


def _differences(family: str) -> dict[str, Any]:
    """RLCR minus RLVR, over the seeds of which both are finished."""
    rlvr, rlcr = (finished(family, variant) for variant in ("rlvr", "rlcr"))
    both = sorted(rlvr.keys() & rlcr.keys())
    if not both:
        return {}
    first, second = ([kept[seed] for seed in both] for kept in (rlvr, rlcr))
    compared = {
        task: metrics.compare_common(answers(first, task), answers(second, task)) for task in FAMILIES
    }
    return {
        "seeds": both,
        **{task: comparison.to_dict() for task, comparison in compared.items() if comparison},
    }


def _all(kind: str) -> dict[str, Outcome]:
    """What is kept of votes, of coherence or of columns, by run."""
    return {
        str(path.relative_to(OUTCOMES)).removesuffix(f"-{kind}.json"): json.loads(
            path.read_text(encoding="utf-8")
        )
        for path in sorted(OUTCOMES.glob(f"*/*-{kind}.json"))
    }
