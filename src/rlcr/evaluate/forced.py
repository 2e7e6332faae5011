"""Confidences that were extracted by force: how many, and how many attempts gave none.

A model that is made to go on with "my confidence … is equal to" writes something, whatever it was trained
for. What it writes may be its answer once more, which then reads as a confidence: "12" as 0.12.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from rlcr.response import get_format
from rlcr.runs.record import Record

_NUMBER = re.compile(r"[-+]?[0-9]+(?:\.[0-9]+)?")
# Warned of where so many of the completions needed it …
_MANY_FORCED = 0.5
# … or where so many forced texts repeat the answer, and not by chance.
_MANY_REPEATED, _MORE_THAN_CHANCE = 0.1, 2


#: The counts of a task.
FORCED_KINDS = ("forced", "unreadable", "repeated", "asked_for")


@dataclass(frozen=True)
class ForcedConfidences:
    """Of the completions of a task: those that were made to go on, and what came of it."""

    completions: int
    forced: int
    unreadable: int
    """Of the forced: those in which no confidence could be read."""
    repeated: int
    """Of the forced: those that repeat the answer."""
    asked_for: int
    """Of the forced: those whose method asks for a confidence tag, which the model did not write."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {"forced": self.forced, "unreadable": self.unreadable, "repeat_the_answer": self.repeated}

    def warning(self) -> str:
        """What makes them doubtful; empty where nothing does."""
        unfit = self.asked_for > _MANY_FORCED * self.completions
        echoes = self.repeated > max(_MANY_REPEATED * self.forced, _MORE_THAN_CHANCE)
        if not unfit and not echoes:
            return ""
        said = f"{self.forced:,} of {self.completions:,} responses state no confidence"
        if read := self.forced - self.unreadable:
            said += (
                f", and {read:,} were EXTRACTED BY FORCE; {self.repeated:,} of them only repeat the answer"
            )
        else:
            said += ", and none could be extracted by force"
        if echoes:
            said += " and are no confidences: calibration measured on them means nothing"
        why = "the model does not write the tags" if unfit else "the model cannot be asked in this way"
        return (
            f"{said}. The method does not fit this model ({why}): try another --method or --prompt, or teach"
            " it (`rlcr warm-up`, `rlcr train`)"
        )


def forced_kinds(record: Record) -> tuple[str, ...]:
    """What a completion counts as: names of the counts above."""
    if record.forced_confidence is None:
        return ()
    kinds = {
        "forced": True,
        "unreadable": record.confidence is None,
        "repeated": record.confidence is not None and repeats(record.forced_confidence, record.answer),
        "asked_for": "confidence" in get_format(record.format).tags,
    }
    return tuple(kind for kind, counts in kinds.items() if counts)


def repeats(forced: str, answer: str | None) -> bool:
    """Whether a forced text begins with the answer or with the number that it ends in, or is it.

    >>> repeats(" 12.", "12"), repeats("12.0%", "12"), repeats(" 85", "12"), repeats(" 120", "12")
    (True, True, False, False)
    >>> repeats(" 10.", "2 * 5 = 10"), repeats("120", "2 * 60 = 120 km"), repeats(" 5", "2 * 5 = 10")
    (True, True, False)
    """
    answer = _plain(answer or "")
    if not answer:
        return False
    text = _plain(forced)
    if text == answer:
        return True
    first = _plain(text.split()[0]) if text.split() else ""
    return first == answer or (_number(first) is not None and _number(first) == _last_number(answer))


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .,:;%$*()[]\"'")


def _number(text: str) -> float | None:
    return float(text) if _NUMBER.fullmatch(text) else None


def _last_number(text: str) -> float | None:
    found = _NUMBER.findall(text)
    return float(found[-1]) if found else None
