"""A run in the shape that lm-evaluation-harness writes, for tools that read it.

``results.json`` with ``{"results": {task: {"metric,none": value, "metric_stderr,none": …}}}`` and one
``samples_TASK.jsonl`` for each task. The standard error is a quarter of the width of the 95% interval.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError
from rlcr.evaluate.results import load_results
from rlcr.runs.lines import json_line, write_whole
from rlcr.runs.store import RUN, Run, open_run

_METRICS = ("accuracy", "auroc", "brier", "ece")
_NAMES = {"accuracy": "acc"}


def export(folder: Path, out: Path) -> list[Path]:
    """Write the files; returns their paths."""
    run, measured = open_run(folder), load_results(folder)
    if (out / RUN).exists():
        raise RlcrError(f"{out}: is a run; its own results would be replaced. Choose another --out")
    results = {
        "results": {task: _results(task, results["metrics"]) for task, results in measured["tasks"].items()},
        "n-samples": {
            task: {"original": measured["coverage"][task]["asked"], "effective": results["n"]}
            for task, results in measured["tasks"].items()
        },
        "higher_is_better": {
            task: {_NAMES.get(m, m): m in ("accuracy", "auroc") for m in _METRICS}
            for task in measured["tasks"]
        },
        "config": {"model": "rlcr", "model_args": run.settings["model"], "limit": run.settings.get("limit")},
        "configs": {task: run.settings["tasks"][task] for task in measured["tasks"]},
        "model_name": run.settings["model"],
    }
    paths = [out / "results.json"]
    write_whole(paths[0], json.dumps(results, indent=2) + "\n")
    for task, name in _file_names(measured["tasks"]).items():
        paths.append(out / name)
        write_whole(paths[-1], (json_line(sample) for sample in _samples(run, task)))
    return paths


def _file_names(tasks: Iterable[str]) -> dict[str, str]:
    """A file for each task, numbered where two names differ only in what a file name cannot hold."""
    names: dict[str, str] = {}
    for task in tasks:
        stem = name = f"samples_{task.replace('/', '_')}"
        number = 1
        while f"{name}.jsonl" in names.values():
            number += 1
            name = f"{stem}-{number}"
        names[task] = f"{name}.jsonl"
    return names


def _results(task: str, metrics: dict[str, Any]) -> dict[str, Any]:
    exported: dict[str, Any] = {"alias": task}
    for metric in _METRICS:
        name, estimate = _NAMES.get(metric, metric), metrics[metric]
        interval = estimate.get("ci95")
        exported[f"{name},none"] = estimate["value"]
        low, high = interval if interval and None not in interval else (None, None)
        exported[f"{name}_stderr,none"] = None if low is None else (high - low) / 4
    return exported


def _samples(run: Run, task: str) -> Any:
    problems = run.problems()
    numbers = {name: number for number, name in enumerate(problems)}
    for record in run.independent_records():
        if record.task != task:
            continue
        problem = problems[record.id]
        yield {
            "doc_id": numbers[problem.id],
            "doc": {"id": problem.id, "question": problem.question, **problem.extras},
            "target": list(problem.gold),
            "arguments": [],
            "resps": [[record.text]],
            "filtered_resps": [record.answer],
            "prompt_hash": record.prompt_sha256,
            "acc": record.correct,
            "confidence": record.confidence,
            "verdict": record.verdict,
        }
