"""The completions of a run that failed, and those that wait for more: how many, as the page says it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError
from rlcr.report.fields import read_objects, sample_number
from rlcr.report.rows import RecordColumns
from rlcr.runs.lines import read_lines
from rlcr.runs.record import Key
from rlcr.runs.store import FAILED, UNFINISHED, retrying

_AT_ONCE = 50_000


def count_failed(
    folder: Path, rows: RecordColumns, first: float, settings: Mapping[str, Any], notes: list[str]
) -> int:
    """How many were never answered; a note is added if there are any.

    Where ``first`` is a number, only that many first samples of each question count.
    """
    if not (folder / FAILED).exists():
        return 0
    reasons = dict[Key, str]()
    try:
        for line in read_lines(folder / FAILED):
            key = line["id"], line["sample"]
            if not key[1] >= first:
                reasons[key] = str(line["reason"])
    except (RlcrError, KeyError, TypeError):
        notes.append(f"{FAILED}: holds a line that is no failure; the rest of it is not counted")
    for key in rows.answered(reasons):
        del reasons[key]
    if reasons:
        counts = "; ".join(
            f"{count:,} x {reason}" for reason, count in Counter(reasons.values()).most_common(3)
        )
        notes.append(
            f"{len(reasons):,} of {len(reasons) + len(rows):,} completions failed, left out of every number"
            f" ({counts}){retrying(settings)}"
        )
    return len(reasons)


def count_waiting(folder: Path, rows: RecordColumns) -> str:
    """How many more completions of an unfinished run are sampled, in words; empty where none are."""
    # Most replies in there may be of completions that are finished: they are looked up a part at a time.
    waiting: set[Key] = set()
    lines = (line for _, line, _ in read_objects(folder / UNFINISHED) if line is not None)
    while part := {
        (str(line.get("id")), sample_number(line.get("sample"))) for line in islice(lines, _AT_ONCE)
    }:
        waiting |= part - rows.answered(part)
    return f"; {len(waiting):,} more sampled and kept" if waiting else ""
