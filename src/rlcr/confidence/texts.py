"""What a classifier or a probe reads of a response: never the confidence that the model stated itself.

    solution   the response up to its answer: thoughts and answer, nothing behind the closing tag
    analysis   the whole response without its ``<confidence>`` blocks

A forced answer is part of both, a forced confidence of neither. Only tags are removed: a model that writes
"I am 90% sure" in its thoughts is read as it wrote.
"""

from __future__ import annotations

import re
from typing import Literal, get_args

from rlcr.errors import RlcrError, nearest
from rlcr.evaluate.methods import FORCED_ANSWER
from rlcr.response import parse
from rlcr.runs.record import Sampled

Part = Literal["solution", "analysis"]

_CLOSING = "</answer>"
# A tag that is only mentioned has no end of its own: from the last one before the end, and never across an
# answer.
_CLOSED = re.compile(
    r"<confidence>(?:(?!</?(?:confidence|answer)>).)*</confidence>", re.DOTALL | re.IGNORECASE
)
# The response was cut off inside a block: one behind answer and analysis, or a number and nothing more.
_UNCLOSED = re.compile(r"<confidence>(?:(?!</analysis>).)*\Z", re.DOTALL | re.IGNORECASE)
_NUMBER_AT_END = re.compile(r"<confidence>[\s\d.%]*\Z", re.IGNORECASE)


def check_part(part: str) -> None:
    """Raise unless it is a part that can be read."""
    if part not in get_args(Part):
        raise RlcrError(f"unknown part of a response {part!r}: {nearest(part, list(get_args(Part)))}")


def read_part(record: Sampled, part: Part = "solution") -> str:
    """The text of a record's response that is to be judged.

    >>> text = "<answer>4</answer><analysis>b</analysis><confidence>1</confidence>"
    >>> record = Sampled(id="1", sample=0, task="t", format="rlcr", text=text)
    >>> read_part(record), read_part(record, "analysis")
    ('<answer>4</answer>', '<answer>4</answer><analysis>b</analysis>')
    """
    text = record.text
    if record.forced_answer is None and part == "solution":
        response = parse(text, record.format, mode="lenient", think_open=record.think_open)
        if "answer" in response.spans:
            end = response.spans["answer"][1]
            text = text[:end] + (_CLOSING if text.startswith(_CLOSING, end) else "")
    text = _without_confidence(text)
    if record.forced_answer is not None:
        text += f"\n\n{FORCED_ANSWER}{record.forced_answer}"
    return text


def _without_confidence(text: str) -> str:
    text = _removed(_NUMBER_AT_END, _removed(_CLOSED, text))
    thoughts, closing, behind = text.rpartition(_CLOSING)
    return thoughts + closing + _removed(_UNCLOSED, behind) if closing else text


def _removed(block: re.Pattern[str], text: str) -> str:
    """Without the matches, and without the space before them (a pattern for that would be slow)."""
    *before, last = block.split(text)
    return "".join(part.rstrip() for part in before) + last
