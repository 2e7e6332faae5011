"""The runs below a folder: what each is, how far it has come, and what came of it.

Only small files are parsed; of records and updates, lines are counted. A run is not searched for further
runs: a training's warm-up and held-out evaluations belong to it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError
from rlcr.report.fields import mapping_of, number_of, read_json, read_objects
from rlcr.report.reading import EVALS, TRAINING, UPDATES
from rlcr.report.trainings import planned_updates
from rlcr.runs.record import READABLE
from rlcr.runs.store import ADAPTIVE, FAILED, RECORDS, RESULTS, RUN, UNFINISHED, open_run

QUICKSTART, CLASSIFIER, PLAN = "quickstart.json", "classifier.json", "plan.json"
_HEADLINE = {"accuracy": "accuracy", "auroc": "AUROC", "brier": "Brier", "ece": "ECE"}
_OF_AN_UPDATE = {"reward": "reward", "accuracy": "accuracy", "ece": "ECE"}


@dataclass(frozen=True)
class ListedRun:
    """A folder that a command wrote."""

    folder: str
    kind: str
    what: str
    progress: str
    headline: str


@dataclass(frozen=True)
class Listing:
    """All runs below a folder, by their paths."""

    folder: Path
    runs: tuple[ListedRun, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {"folder": str(self.folder), "runs": [asdict(run) for run in self.runs]}


def list_runs(folder: Path | str) -> Listing:
    """Every run in a folder, or below it."""
    folder = Path(folder)
    if not folder.is_dir():
        what = "not a folder" if folder.exists() else "no such folder"
        raise RlcrError(f"{folder}: {what}; give the one that holds your runs")
    return Listing(folder, tuple(_walk(folder)))


def _walk(top: Path) -> Iterator[ListedRun]:
    for place, folders, files in os.walk(top):
        folder = Path(place)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        sign = next((name for name in _READERS if name in files), None)
        if sign is None:
            continue
        if sign != QUICKSTART:  # which holds runs beside what it found
            folders.clear()
        yield _listed(folder, str(folder), sign)


def _listed(folder: Path, shown: str, sign: str) -> ListedRun:
    facts = read_json(folder / sign, [])
    if facts is None:
        return ListedRun(shown, "unreadable", f"{sign} is not a JSON object", "", "")
    return ListedRun(shown, *_READERS[sign](folder, facts))


#: Kind, what it is, how far it has come, what came of it.
Cells = tuple[str, str, str, str]


def _run(folder: Path, facts: Mapping[str, Any]) -> Cells:
    settings = mapping_of(facts.get("settings"))
    if facts.get("format") not in READABLE:
        return "run", f"of format {facts.get('format', 1)}, which this version does not read", "", ""
    kind = settings.get("kind")
    if kind in _WARM_UPS:
        return _WARM_UPS[kind](folder, settings)
    tasks = ", ".join(map(_last_part, mapping_of(settings.get("tasks")))) or "no task"
    headline = _evaluated(read_json(folder / RESULTS, [])) or "no results yet"
    if settings.get("method") == "imported":
        return "import", tasks, f"{_lines(folder / RECORDS):,} completions", headline
    what = f"{_last_part(settings.get('model'))} on {tasks} by {settings.get('method')}"
    return "evaluation", what, _sampled(folder, settings), headline


def _sampled(folder: Path, settings: Mapping[str, Any]) -> str:
    done = _lines(folder / RECORDS)
    if settings.get("adaptive"):
        return f"{done:,}, adaptive" + (", finished" if (folder / ADAPTIVE).exists() else ", unfinished")
    tasks = mapping_of(settings.get("tasks")).values()
    total = number_of(settings.get("samples")) * sum(
        number_of(mapping_of(task).get("size")) for task in tasks
    )
    waiting, failed = _waiting(folder), _failed(folder)
    more = (f", {waiting:,} more sampled" if waiting else "") + (f", {failed:,} failed" if failed else "")
    return (f"{done:,}" if math.isnan(total) else f"{done:,} of {total:,.0f}") + more


def _waiting(folder: Path) -> int:
    """Completions that are sampled, and not yet records: they wait for a repair, or for the grader."""
    if not (folder / UNFINISHED).exists():
        return 0
    try:
        return len({(reply["id"], reply["sample"]) for reply in open_run(folder).unfinished()})
    except (RlcrError, ValueError, KeyError):  # a line under way
        return 0


def _failed(folder: Path) -> int:
    if not (folder / FAILED).exists():
        return 0
    try:
        return len(open_run(folder).failures())
    except (RlcrError, KeyError, TypeError):  # lines that are no failures are the report's to name
        return 0


def _evaluated(results: Mapping[str, Any] | None) -> str:
    """The headline of results; of several tasks their average."""
    tasks, macro = mapping_of((results or {}).get("tasks")), mapping_of((results or {}).get("macro"))
    if not tasks:
        return ""
    measured = macro if len(tasks) > 1 and macro else mapping_of(next(iter(tasks.values())))
    metrics = {
        name: mapping_of(estimate).get("value")
        for name, estimate in mapping_of(measured.get("metrics")).items()
    }
    average = f" (average of {len(tasks)} tasks)" if measured is macro else ""
    coverage = number_of(metrics.get("coverage"))
    # Calibration that rests on a part of the answers must not look like that of all of them.
    stated = f" ({coverage:.0%} have a confidence)" if coverage < 1 else ""
    return _numbers(metrics, _HEADLINE) + average + stated


def _numbers(values: Mapping[str, Any], labels: Mapping[str, str]) -> str:
    """Those values that are numbers, each after its label."""
    numbers = ((label, number_of(values.get(name))) for name, label in labels.items())
    return ", ".join(f"{label} {number:.3f}" for label, number in numbers if not math.isnan(number))


def _training(folder: Path, facts: Mapping[str, Any]) -> Cells:
    settings = mapping_of(facts.get("settings"))
    what = f"recipe {settings.get('recipe')}, from {_last_part(settings.get('model'))}"
    lines = [line for _, line, _ in read_objects(folder / UPDATES) if line]
    # A resumed training may log an update twice.
    updates = {number_of(line.get("update")): line for line in lines}
    total = planned_updates(facts)
    of = "" if math.isnan(total) else f" of {total:,.0f}"
    end = ", finished" if (folder / "model").is_dir() else ""
    last = _numbers(lines[-1], _OF_AN_UPDATE) if lines else ""
    held_out = _last_held_out(folder)
    parts = (f"last update: {last}" if last else "no update yet", held_out and f"held out: {held_out}")
    return "training", what, f"{len(updates):,}{of} updates{end}", "; ".join(filter(None, parts))


def _last_held_out(folder: Path) -> str:
    numbered = {
        int(place.name.removeprefix("update-")): place
        for place in (folder / EVALS).glob("update-*")
        if place.name.removeprefix("update-").isdecimal() and (place / RESULTS).exists()
    }
    return _evaluated(read_json(numbered[max(numbered)] / RESULTS, [])) if numbered else ""


def _warm_up(folder: Path, settings: Mapping[str, Any]) -> Cells:
    report = read_json(folder / "warm-up.json", []) or {}
    before, after = (mapping_of(report.get(when)) for when in ("before", "after"))
    what = f"recipe {settings.get('recipe')}, from {_last_part(settings.get('model'))}"
    shares = [
        f"{measured.get('well_formed')} of {measured.get('responses')} {when}"
        for when, measured in (("before", before), ("after", after))
        if measured
    ]
    headline = f"well-formed: {', '.join(shares)}" if shares else ""
    return "warm-up", what, "finished" if after else "unfinished", headline


def _sft_data(folder: Path, settings: Mapping[str, Any]) -> Cells:
    analyses = mapping_of(
        mapping_of((read_json(folder / "sft-data.json", []) or {}).get("counts")).get("analyses")
    )
    model, expert = (_last_part(settings.get(who)) for who in ("model", "expert"))
    what = f"{model} on {_task_of(settings)}, analysed by {expert}"
    headline = f"{analyses.get('accepted')} of {analyses.get('asked')} analyses accepted" if analyses else ""
    return "sft-data", what, "finished" if analyses else "unfinished", headline


def _sft(folder: Path, settings: Mapping[str, Any]) -> Cells:
    report = read_json(folder / "sft.json", []) or {}
    losses = [number_of(loss) for loss in report.get("losses") or ()]
    what = f"{_last_part(settings.get('model'))} on {settings.get('data')}"
    headline = f"loss {losses[0]:.3f} at first, {losses[-1]:.3f} at last" if losses else ""
    return "sft", what, "finished" if (folder / "model").is_dir() else "unfinished", headline


def _classifier(folder: Path, facts: Mapping[str, Any]) -> Cells:
    held = {name: number_of(value) for name, value in mapping_of(facts.get("held_out")).items()}
    headline = f"held-out Brier {held['brier']:.3f}" if "brier" in held else ""
    progress = "finished" if (folder / CLASSIFIER).exists() else "unfinished"
    return "classifier", f"from {_last_part(facts.get('model'))}", progress, headline


def _quickstart(folder: Path, facts: Mapping[str, Any]) -> Cells:
    share = number_of(mapping_of(mapping_of(facts.get("exact")).get("rlcr")).get("share"))
    headline = f"RLCR earns {share:.1%} of the optimum" if not math.isnan(share) else ""
    progress = "finished" if (folder / "report.html").exists() else "unfinished"
    return "quickstart", f"seed {facts.get('seed')}, its runs below", progress, headline


_WARM_UPS: dict[str, Callable[[Path, Mapping[str, Any]], Cells]] = {
    "warm-up": _warm_up,
    "sft-data": _sft_data,
    "sft": _sft,
}
#: The file that makes a folder a run, first found, and who reads it.
_READERS: dict[str, Callable[[Path, Mapping[str, Any]], Cells]] = {
    TRAINING: _training,
    RUN: _run,
    QUICKSTART: _quickstart,
    CLASSIFIER: _classifier,
    PLAN: _classifier,
}


def _task_of(settings: Mapping[str, Any]) -> str:
    task = settings.get("task")
    return _last_part(mapping_of(task).get("task") if isinstance(task, Mapping) else task)


def _last_part(name: Any) -> str:
    """A path, an address or a hub id by its last part.

    >>> _last_part("runs/rlcr/model"), _last_part("http://127.0.0.1:80/v1#tiny"), _last_part("Qwen/Qwen3-8B")
    ('rlcr/model', 'tiny', 'Qwen3-8B')
    """
    parts = [part for part in str(name or "unknown").replace("#", "/").split("/") if part]
    # Every trained model lies in a folder `model` or `best`.
    return (
        "/".join(parts[-2:])
        if parts and parts[-1] in ("model", "best")
        else parts[-1]
        if parts
        else "unknown"
    )


def _lines(path: Path) -> int:
    try:
        with open(path, "rb") as file:
            return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    except FileNotFoundError:
        return 0
