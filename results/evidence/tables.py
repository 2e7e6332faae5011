"""The tables of docs/results.md, written between its markers from the outcomes that are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from results.evidence.collect import SHOWN, finished, read_outcome
from results.evidence.plan import FAMILIES, SEEDS, TRAINED

from results import pages
from rlcr.runs.lines import write_whole

PAGE = Path("docs/results.md")
NAMES = {
    "start": "start (format warm-up)",
    "rlvr": "RLVR",
    "rlcr": "RLCR (expected credit)",
    "rlcr-all": "RLCR (the whole reward on every token)",
    "rlcr-log": "RLCR-Log",
    "calibration-only": "calibration only",
    "masked": "calibration only, masked",
    "decoupled": "RLCR (decoupled credit, sampled)",
    "abstention": "abstention-RL",
    "rlcr-analysis": "RLCR (expected credit), with an analysis",
}
_HEADS = {"accuracy": "accuracy ↑", "auroc": "AUROC ↑", "brier": "Brier ↓", "ece": "ECE ↓"}


def filled(page: str, evidence: Mapping[str, Any]) -> str:
    """The page with its tables as the evidence has them; a marker that it lacks is left out."""
    tables = {
        **{f"table {family}": _table(family, evidence["tables"][family]) for family in TRAINED},
        **{f"differences {family}": _differences(evidence["differences"][family]) for family in TRAINED},
        "votes": _votes(evidence["votes"]),
        "coherence": _coherence(evidence["coherence"]),
        "columns": _columns(evidence["confidence"]),
        "claims": _claims(evidence["claims"]),
        "commands": _commands(),
    }
    return pages.filled(page, {name: table for name, table in tables.items() if f"<!-- {name} -->" in page})


def write(evidence: Mapping[str, Any]) -> Path:
    """Fill the page."""
    write_whole(PAGE, filled(PAGE.read_text(encoding="utf-8"), evidence))
    return PAGE


def _table(family: str, rows: Mapping[str, Any]) -> str:
    """One row a variant and family of problems, that which was trained on first."""
    lines = []
    for tested in (family, *(other for other in FAMILIES if other != family)):
        for variant, row in rows.items():
            cells = [_estimate(row[tested][name]) for name in SHOWN]
            lines.append([tested, NAMES[variant], str(row["seeds"]), f"{row[tested]['n']:,}", *cells])
    return _markdown(["asked", "trained by", "seeds", "answers", *(_HEADS[name] for name in SHOWN)], lines)


def _differences(compared: Mapping[str, Any]) -> str:
    lines = []
    for family in FAMILIES:
        if family in compared:
            numbers = compared[family]["metrics"]
            lines.append([family, *(_difference(numbers[name]) for name in SHOWN)])
    return _markdown(["asked", *(_HEADS[name] for name in SHOWN)], lines)


def _votes(kept: Mapping[str, Any]) -> str:
    """Accuracy by all samples of a question, one way of choosing a row."""
    lines = []
    for run, votes in kept.items():
        for way, estimate in votes["accuracy"].items():
            difference = votes["minus_majority"].get(way)
            accuracy = {"value": estimate["value"], "ci95": [estimate["low"], estimate["high"]]}
            lines.append([run, way, _estimate(accuracy), _difference(difference) if difference else ""])
    return _markdown(["run", "chosen by", "accuracy ↑", "minus majority"], lines)


_SUMS = {
    "mean_sum": "mean sum",
    "share_above_1": "share above 1 ↓",
    "mean_excess": "mean excess over 1 ↓",
    "mean_spread": "spread within one answer ↓",
}


def _coherence(kept: Mapping[str, Any]) -> str:
    lines = [[run, *(_estimate(one["summary"][name]) for name in _SUMS)] for run, one in kept.items()]
    return _markdown(["run", *_SUMS.values()], lines)


def _columns(kept: Mapping[str, Any]) -> str:
    """Every source of confidence in the answers of a run to the family that it was trained on."""
    lines = []
    for run, columns in kept.items():
        family = run.partition("/")[0]
        [sources] = [sources for task, sources in columns["tasks"].items() if family in task]
        for source in sources:
            numbers = [_estimate(source["metrics"][name]) for name in ("auroc", "brier", "ece")]
            passes = source["cost"].get("passes")
            lines.append([run, source["name"], *numbers, "" if passes is None else f"{passes:,}"])
    return _markdown(["run", "confidence from", "AUROC ↑", "Brier ↓", "ECE ↓", "passes of a model"], lines)


def _claims(claims: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        [
            one["claim"],
            one["measured"],
            _difference({"value": one["value"], "ci95": [one["low"], one["high"]]}),
            one["verdict"],
        ]
        for one in claims
    ]
    return _markdown(["claim", "measured", "value and interval", "these runs"], lines)


def _commands() -> str:
    """What made each row, and how long it took."""
    lines = []
    start = read_outcome("start")
    outcomes = {"start": start} if start else {}
    for family in TRAINED:
        for variant in SEEDS[family]:
            outcomes |= {
                f"{family}/{variant}-{seed}": kept for seed, kept in finished(family, variant).items()
            }
    for name, outcome in outcomes.items():
        training, evaluation = (outcome["seconds"].get(step) for step in (name, f"eval {name}"))
        lines.append([name, f"`{outcome['commands'][name]}`", _minutes(training), _minutes(evaluation)])
    return _markdown(["run", "command", "minutes", "evaluation"], lines)


def _minutes(seconds: float | None) -> str:
    return "n/a" if seconds is None else f"{seconds / 60:.0f}"


def _estimate(cell: Mapping[str, Any]) -> str:
    if cell["value"] is None:
        return "n/a"
    low, high = cell.get("ci95") or (None, None)
    return f"{cell['value']:.3f}" if low is None else f"{cell['value']:.3f} ±{(high - low) / 2:.3f}"


def _difference(cell: Mapping[str, Any]) -> str:
    if cell["value"] is None:
        return "n/a"
    low, high = cell["ci95"]
    return f"{cell['value']:+.3f} ({low:+.3f} to {high:+.3f})".replace("-", "−")


def _markdown(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    if not lines:
        return "Not run yet."
    ruler = ["---"] * len(heads)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, ruler, *lines))
