"""The completions of a run that failed, and those that wait for more: how many, as the page says it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from rlcr.errors import RlcrError
from rlcr.report.fields import read_objects
from rlcr.runs.lines import read_lines
from rlcr.runs.record import Key
from rlcr.runs.store import FAILED, UNFINISHED


def count_failed(folder: Path, records: Iterable[Key], first: float, notes: list[str]) -> int:
    """How many were never answered; a note is added if there are any.

    Where ``first`` is a number, only that many first samples of each question count.
    """
    if not (folder / FAILED).exists():
        return 0
    answered, reasons = set(records), dict[Key, str]()
    try:
        for line in read_lines(folder / FAILED):
            key = line["id"], line["sample"]
            if key not in answered and not key[1] >= first:
                reasons[key] = str(line["reason"])
    except (RlcrError, KeyError, TypeError):
        notes.append(f"{FAILED}: holds a line that is no failure; the rest of it is not counted")
    if reasons:
        counts = "; ".join(
            f"{count:,} x {reason}" for reason, count in Counter(reasons.values()).most_common(3)
        )
        notes.append(
            f"{len(reasons):,} of {len(reasons) + len(answered):,} completions failed and are in no number"
            f" ({counts}); `rlcr eval … --resume --retry-failed` asks for them again"
        )
    return len(reasons)


def count_waiting(folder: Path, records: Iterable[Key]) -> str:
    """How many more completions of an unfinished run are sampled, in words; empty where none are."""
    lines = (line for _, line, _ in read_objects(folder / UNFINISHED) if line is not None)
    waiting = {(str(line.get("id")), str(line.get("sample"))) for line in lines}
    waiting -= {(name, str(sample)) for name, sample in records}
    return f"; {len(waiting):,} more are sampled and kept" if waiting else ""
