"""The log of a training, what it warned of, and how many of its updates taught anything."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcr.report.fields import mapping_of, number_of, read_objects

Floats = NDArray[np.float64]

#: The column of the completions that an update learned from.
LEARNED_FROM = "learned_from"


def taught_updates(columns: Mapping[str, Floats]) -> tuple[int, int] | None:
    """How many updates taught anything, of how many that say so; None where the log does not say."""
    learned_from = columns.get(LEARNED_FROM)
    if learned_from is None:
        return None
    said = ~np.isnan(learned_from)
    return int((learned_from[said] > 0).sum()), int(said.sum())


def training_warnings(facts: Mapping[str, Any], columns: Mapping[str, Floats]) -> list[str]:
    """What a training warned of, update by update, and before it what share of its updates taught nothing."""
    warnings = []
    if (found := taught_updates(columns)) and found[0] < found[1]:
        taught, said = found
        nothing = "NOTHING WAS LEARNED: " if not taught else ""
        warnings.append(f"{nothing}{said - taught:,} of {said:,} updates taught nothing")
    stored = facts.get("warnings")
    for one in stored if isinstance(stored, list) else []:
        number, text = number_of(mapping_of(one).get("update")), mapping_of(one).get("warning")
        if isinstance(text, str):
            place = "" if math.isnan(number) or text.startswith("update ") else f"update {number:,.0f}: "
            warnings.append(f"{place}{text}")
    return warnings


def planned_updates(facts: Mapping[str, Any]) -> float:
    """Updates of the whole training; what does not fill one is left over in every epoch. NaN if unknown."""
    settings, dropped = mapping_of(facts.get("settings")), facts.get("dropped")
    given = number_of(settings.get("updates"))
    if not math.isnan(given):
        return given
    problems = number_of(mapping_of(settings.get("data")).get("size"))
    problems -= len(dropped) if isinstance(dropped, list) else 0
    epochs, prompts = number_of(settings.get("epochs")), number_of(settings.get("prompts"))
    known = not math.isnan(problems + epochs) and prompts > 0
    return math.ceil(epochs * (problems // prompts)) if known else math.nan


def read_updates(path: Path, notes: list[str]) -> tuple[Floats, dict[str, Floats]]:
    """The numbers of the updates, and a column for each name that the log has."""
    rows: dict[float, dict[str, float]] = {}
    unreadable = 0
    if not path.exists():
        notes.append(f"no {path.name}: no curves of the training")
    for _, line, _ in read_objects(path):
        number = math.nan if line is None else number_of(line.get("update"))
        if line is None or math.isnan(number):
            unreadable += 1
            continue
        parts = line.get("parts")
        flat = line | {f"parts.{name}": value for name, value in mapping_of(parts).items()}
        # A resumed training may log an update twice: it continued from the last one.
        rows[number] = {name: number_of(value) for name, value in flat.items() if name != "update"}
    if unreadable:
        notes.append(f"{path.name}: {unreadable:,} lines are not updates; left out")
    if path.exists() and not rows:
        notes.append(f"{path.name} has no update yet")
    numbers = sorted(rows)
    names = dict.fromkeys(name for number in numbers for name in rows[number])
    columns = {
        name: np.array([rows[number].get(name, math.nan) for number in numbers], np.float64) for name in names
    }
    defined = {name: values for name, values in columns.items() if not np.isnan(values).all()}
    return np.array(numbers, np.float64), defined
