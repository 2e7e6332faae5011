"""The record of one completion: what was sampled, and how it was graded.

One line of ``records.jsonl`` is one record: the fields below, by name, in this order (docs/records.md). The
first two are its key, so that resuming a run need not parse the rest of a long line. What is sampled never
changes; what is graded is replaced by `rlcr rescore`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any

from rlcr.metrics.likelihood import response_likelihood
from rlcr.verify.verdict import Outcome

#: The version of the format of a run folder, in its run.json.
FORMAT = 3
#: Those that can be read; others are refused. Format 2 had no checksums.
READABLE = (2, 3)

#: Identifies a completion: problem and number of the sample.
Key = tuple[str, int]
#: Verdicts in arrays.
CORRECT, WRONG, UNSCORABLE = 1, 0, -1
CODES: dict[str, int] = {"correct": CORRECT, "wrong": WRONG, "unscorable": UNSCORABLE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """What came back for one sample of one problem, before anything is made of it.

    ``forced_answer`` and ``forced_confidence`` are what the model wrote after a forced continuation, None
    where there was none; ``unrepaired`` names those that were needed and failed. ``logprob`` is the
    sum over the ``response_tokens``, those of forced continuations not among them; ``answer_logprobs`` are
    those of the answer's tokens, by the grading that reads that answer.
    """

    id: str
    sample: int
    task: str
    format: str
    text: str
    prompt_sha256: str = ""
    think_open: bool = False
    forced_answer: str | None = None
    forced_confidence: str | None = None
    unrepaired: tuple[str, ...] = ()
    finish_reason: str = ""
    tokens: int = 0
    prompt_tokens: int = 0
    response_tokens: int = 0
    logprob: float | None = None
    answer_logprobs: Mapping[str, list[float]] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def key(self) -> Key:
        """Problem and number of the sample."""
        return self.id, self.sample

    @property
    def repairs(self) -> tuple[str, ...]:
        """The parts that took a forced continuation."""
        forced = {"answer": self.forced_answer, "confidence": self.forced_confidence}
        return tuple(part for part, text in forced.items() if text is not None)

    @property
    def likelihood(self) -> float | None:
        """The geometric mean of the response's token probabilities; None where the sampler returned none."""
        return response_likelihood(self.logprob, self.response_tokens)


#: The fields that grading does not change.
SAMPLED = tuple(f.name for f in fields(Sampled))


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(Sampled):
    """A completion that was read and verified.

    ``confidence`` is the one that the model stated; ``answer_probability`` the mean probability of its
    answer's tokens. ``fault`` is the first rule of the strict reading that the text breaks, ``leniencies``
    what the reading had to bend.
    """

    answer: str | None
    confidence: float | None
    answer_probability: float | None
    verdict: Outcome
    reason: str
    verifier: str
    well_formed: bool
    fault: str
    leniencies: tuple[str, ...]

    @property
    def correct(self) -> bool | None:
        """True, False, or None when unscorable."""
        return None if self.verdict == "unscorable" else self.verdict == "correct"


def json_line(cells: Mapping[str, Any]) -> str:
    """An object as a line of JSON, without a checksum."""
    return _ENCODE(cells) + "\n"


#: Made once: `json.dumps` with any option makes an encoder anew for every line.
_ENCODE = json.JSONEncoder(ensure_ascii=False).encode


def to_line(record: Sampled) -> str:
    """A record as a line of JSON; its key comes first."""
    return json_line({name: getattr(record, name) for name in _names(type(record))})


#: Lists in JSON, tuples here.
_LISTS = ("unrepaired", "leniencies")


def from_cells(cells: Any) -> Record:
    """The record of a line that was read as JSON; ValueError where it is no record."""
    try:
        record = Record(**{**cells, **{name: tuple(cells[name]) for name in _LISTS if name in cells}})
    except TypeError:
        raise ValueError("not a record of this version of rlcr") from None
    stated = record.confidence
    number = stated is None or (type(stated) in (int, float) and 0 <= stated <= 1)
    texts = all(isinstance(text, str) for text in (record.id, record.task, record.reason, record.verifier))
    if not texts or type(record.sample) is not int or not number:
        raise ValueError("not a record of this version of rlcr")
    if record.verdict not in CODES:
        raise ValueError(f"verdict {record.verdict!r} is none of {', '.join(CODES)}")
    return record


@cache
def _names(kind: type[Sampled]) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind))
