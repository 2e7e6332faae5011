"""Every completion of a training run, kept for later reading.

    rollouts/update-000001.jsonl.gz   one line for each completion of update 1

A file appears whole or not at all, so an interrupted update leaves nothing to repair: the trainer goes on
from a checkpoint, drops the files after it and writes them again.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError
from rlcr.files import new_file
from rlcr.problem import Problem
from rlcr.reward import Scored
from rlcr.runs.lines import json_line
from rlcr.verify.verdict import Outcome

#: The folder of the rollouts inside that of the run.
ROLLOUTS = "rollouts"

_NAME = re.compile(r"update-(\d{6,})\.jsonl\.gz")
# Text shrinks little more above this level and takes several times as long.
_COMPRESSION = 4
# No completion is as long: a line that never ends must not fill the memory.
_LONGEST = 64 << 20


@dataclass(frozen=True, slots=True)
class Rollout:
    """One sampled completion and all that was found out about it.

    ``answer`` and ``confidence`` are None where the completion is malformed (``fault`` says how), and
    ``confidence`` also where the format has none. ``parts`` are the parts of the reward before weights,
    ``reward`` their weighted sum. An unscorable completion has no reward, and only it has none.
    """

    update: int
    problem: str
    sample: int
    text: str
    answer: str | None
    confidence: float | None
    verdict: Outcome
    well_formed: bool
    fault: str
    parts: Mapping[str, float]
    reward: float | None
    tokens: int
    truncated: bool
    reason: str = ""
    """Of the verdict, where it is not obvious."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {name: getattr(self, name) for name in _FIELDS}


_FIELDS = tuple(field.name for field in fields(Rollout))


def rollouts_of(
    update: int,
    problems: Sequence[Problem],
    samples: Sequence[int],
    scored: Scored,
    tokens: Sequence[int],
    truncated: Sequence[bool],
) -> list[Rollout]:
    """The rollouts of a scored batch, in its order. ``samples`` number the completions of each problem."""
    parts_N = [
        dict(zip(scored.rewards.parts, values, strict=True))
        for values in zip(*(part.tolist() for part in scored.rewards.parts.values()), strict=True)
    ] or [{} for _ in problems]
    rows = zip(
        problems,
        samples,
        scored.responses,
        scored.verdicts,
        parts_N,
        scored.rewards.totals(),
        tokens,
        truncated,
        strict=True,
    )
    return [
        Rollout(
            update=update,
            problem=problem.id,
            sample=int(sample),
            text=response.text,
            answer=response.answer,
            confidence=response.confidence,
            verdict=_outcome(verdict.outcome, response.well_formed, scorable=reward is not None),
            well_formed=response.well_formed,
            fault=response.fault,
            parts=parts,
            reward=reward,
            tokens=int(count),
            truncated=bool(cut),
            reason=verdict.reason,
        )
        for problem, sample, response, verdict, parts, reward, count, cut in rows
    ]


def _outcome(outcome: Outcome, well_formed: bool, *, scorable: bool) -> Outcome:
    """The verdict as the reward took it: malformed is wrong, and so is an abstention nobody could check."""
    if not scorable:
        return "unscorable"
    return "correct" if outcome == "correct" and well_formed else "wrong"


class RolloutLog:
    """Writes the rollouts of a run, one compressed file for each update."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, update: int, rollouts: Sequence[Rollout]) -> Path:
        """Write the rollouts of an update; a file that was there is replaced. Returns its path."""
        path = self.folder / f"update-{update:06}.jsonl.gz"
        text = "".join(json_line(rollout.to_dict()) for rollout in rollouts)
        # No name and no time inside: the same rollouts are the same bytes.
        with (
            new_file(path) as out,
            gzip.GzipFile("", "wb", compresslevel=_COMPRESSION, fileobj=out, mtime=0) as packed,
        ):
            packed.write(text.encode("utf-8", "surrogatepass"))
        return path

    def drop_after(self, update: int) -> None:
        """Remove the files of later updates, and what a crash left half written."""
        later = [path for number, path in _files(self.folder) if number > update]
        for path in [*later, *self.folder.glob(".update-*.partial")]:
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise RlcrError(f"{path}: cannot be removed: {error.strerror}") from None


def read_rollouts(folder: Path, update: int | None = None) -> Iterator[Rollout]:
    """The rollouts of one update, or of all in their order."""
    files = _files(folder)
    if not files:
        raise RlcrError(f"{folder}: no rollouts here (files update-000001.jsonl.gz and so on)")
    chosen = [path for number, path in files if update in (None, number)]
    if not chosen:
        raise RlcrError(f"{folder}: no update {update}; there are {files[0][0]} to {files[-1][0]}")
    return (rollout for path in chosen for rollout in _read(path))


def _files(folder: Path) -> list[tuple[int, Path]]:
    matches = ((_NAME.fullmatch(path.name), path) for path in folder.glob("update-*.jsonl.gz"))
    return sorted((int(match.group(1)), path) for match, path in matches if match)


def _read(path: Path) -> Iterator[Rollout]:
    try:
        with gzip.open(path, "rt", encoding="utf-8", errors="surrogatepass") as file:
            number = 0
            while line := file.readline(_LONGEST):
                number += 1
                where = f"{path}, line {number}"
                if len(line) >= _LONGEST:
                    raise RlcrError(f"{where}: longer than {_LONGEST:,} characters: not a rollout")
                yield _rollout(line, where)
    except (OSError, EOFError, zlib.error) as error:
        raise RlcrError(f"{path}: cannot be read: {error}") from None


def _rollout(line: str, where: str) -> Rollout:
    try:
        return Rollout(**json.loads(line))
    except (ValueError, TypeError):
        raise RlcrError(f"{where}: not a rollout") from None
