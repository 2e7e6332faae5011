"""Confidence columns of a run: a confidence, or none, for each of its completions.

Two columns are in the records themselves: ``verbalised``, what the model stated, and
``answer-probability``, where the sampler returned the tokens' probabilities. Every other one lies beside the
records:

    confidence/NAME.jsonl   {"id": …, "sample": …, "confidence": number or null}, one line a completion
    confidence/NAME.json    how it was made: source, settings, cost, counts, and which records it is about

A column belongs to the records as they were graded when it was made. After `rlcr rescore` has changed an
answer, a verdict or a stated confidence it is stale: it must be made again, and nothing reads it until then.
So is one that was made of another column which has changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError, nearest
from rlcr.files import writing
from rlcr.runs.lines import json_line, read_lines, read_object, sealed, write_object, write_whole
from rlcr.runs.record import Key, Record
from rlcr.runs.stamps import MADE_FROM, Stamp, records_hash, stamp, why_stale
from rlcr.runs.store import COLUMNS, CONFIDENCES, Run, open_run

VERBALISED, ANSWER_PROBABILITY = "verbalised", "answer-probability"
#: Columns that are in the records.
HELD = (VERBALISED, ANSWER_PROBABILITY)

Column = dict[Key, float | None]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


def column_names(run: Run | Path) -> list[str]:
    """The columns of a run: what was stated, what else the records hold, then those beside them."""
    run = _opened(run)
    return [
        VERBALISED,
        *([ANSWER_PROBABILITY] if _has_probabilities(run) else []),
        *stored_columns(run.folder),
    ]


def stored_columns(folder: Path) -> list[str]:
    """The names of the columns that lie beside the records, sorted."""
    return sorted(path.stem for path in (folder / COLUMNS).glob("*.jsonl") if _NAME.fullmatch(path.stem))


def read_column(run: Run | Path, name: str) -> Column:
    """The confidences of a column by completion; None where it gives none. A stale or broken one raises."""
    run = _opened(run)
    if name in HELD:
        return {r.key: held_confidences(r)[name] for r in run.records()}
    path = _path(run.folder, name)
    if not path.is_file():
        raise RlcrError(
            f"{run.folder}: no confidence column {name!r}: {nearest(name, column_names(run))};"
            " `rlcr confidence add` makes more"
        )
    if why := why_stale(run.folder, provenance(run, name), records_hash(run)):
        raise RlcrError(f"{path}: stale: {why}; {_again(run, name)}")
    return _read(run, name)


def _read(run: Run, name: str) -> Column:
    path, column = _path(run.folder, name), Column()
    for number, line in enumerate(read_lines(path, _again(run, name)), start=1):
        value = line.get("confidence")
        if not _is_key(line) or not _is_confidence(value):
            raise RlcrError(
                f'{path}, line {number}: expected {{"id", "sample", "confidence": 0 to 1 or null}},'
                f" found {json.dumps(line)[:60]}"
            )
        column[line["id"], line["sample"]] = value
    if len(column) != (lines := provenance(run, name).get("lines")):
        raise RlcrError(f"{path}: {len(column):,} lines, where {lines} were written; {_again(run, name)}")
    return column


def provenance(run: Run | Path, name: str) -> dict[str, Any]:
    """How a column was made. Those that the records hold cost nothing and say only where they are from."""
    run = _opened(run)
    if name in HELD:
        # A table's own confidences have the place of stated ones, and were not stated by a model.
        source = run.settings.get(CONFIDENCES, name) if name == VERBALISED else name
        return {"source": source, "cost": {"passes": 0, "tokens": 0}}
    path = _path(run.folder, name).with_suffix(".json")
    try:
        return read_object(path, "make the column again")
    except FileNotFoundError:
        return {"source": "unknown", "cost": {}}


def write_column(
    run: Run | Path,
    name: str,
    values: Mapping[Key, float | None],
    origin: Mapping[str, Any],
    made_from: Stamp | None = None,
) -> Path:
    """Write a column and how it was made, each whole or not at all, replacing an older one of that name.

    ``origin`` holds at least ``source`` and ``cost`` (``passes`` and ``tokens`` beyond those of the run), and
    ``of`` where it was made of another column. ``made_from`` is the stamp of what was read for it; without
    one it is about the records as they are.
    """
    run = _opened(run)
    check_name(name)
    unknown = [key for key in values if key not in run.done]
    if unknown:
        raise RlcrError(f"{run.folder}: a confidence for {unknown[0]}, which the run does not hold")
    wrong = [key for key, value in values.items() if not _is_confidence(value)]
    if wrong:
        raise RlcrError(f"column {name}: {values[wrong[0]]} for {wrong[0]} is not from 0 to 1")
    path = _path(run.folder, name)
    stated = sum(value is not None for value in values.values())
    counted = {
        "completions": len(run.done),
        "lines": len(values),
        "stated": stated,
        MADE_FROM: made_from or stamp(run, column_files(*([origin["of"]] if "of" in origin else []))),
    }
    # A column is there when its lines are: those of an older one must not stand beside the new provenance.
    with writing(path):
        path.unlink(missing_ok=True)
    write_object(path.with_suffix(".json"), {**origin, **counted})
    write_whole(path, _lines(values))
    return path


def check_name(name: str) -> None:
    """Raise unless a column beside the records may have this name."""
    if name in HELD:
        raise RlcrError(f"column {name!r} is in the records of every run; choose another name")
    if not _NAME.fullmatch(name):
        raise RlcrError(f"column {name!r}: a name is letters, digits, dots, dashes and underscores")


def column_files(*names: str) -> tuple[str, ...]:
    """The files of columns, as stamps name them; the records hold the others."""
    return tuple(f"{COLUMNS}/{name}.jsonl" for name in names if name not in HELD)


def stamp_columns(run: Run) -> Stamp:
    """What is about to be read by whoever measures all columns of a run: its records and its columns."""
    return stamp(run, column_files(*stored_columns(run.folder)))


def fresh_columns(run: Run) -> tuple[dict[str, Column], dict[str, str]]:
    """The columns beside the records that are about them as they are now; and why the others are not."""
    names = stored_columns(run.folder)
    now = records_hash(run) if names else ""
    fresh: dict[str, Column] = {}
    others: dict[str, str] = {}
    for name in names:
        try:
            if why := why_stale(run.folder, provenance(run, name), now):
                others[name] = f"stale: {why}; make it again"
            else:
                fresh[name] = _read(run, name)
        except RlcrError as error:
            others[name] = str(error)
    return fresh, others


def _again(run: Run, name: str) -> str:
    """How to make a column again, as far as it is known."""
    origin = provenance(run, name)
    source, of = origin.get("source", "SOURCE"), f" --of {origin['of']}" if "of" in origin else ""
    return f"make it again: `rlcr confidence add {source} {run.folder}{of} --as {name} …`"


def _opened(run: Run | Path) -> Run:
    return run if isinstance(run, Run) else open_run(run)


def _path(folder: Path, name: str) -> Path:
    check_name(name)
    return folder / COLUMNS / f"{name}.jsonl"


def held_confidences(record: Record) -> dict[str, float | None]:
    """The columns that are in a record."""
    return {VERBALISED: record.confidence, ANSWER_PROBABILITY: record.answer_probability}


def _has_probabilities(run: Run) -> bool:
    return any(record.answer_probability is not None for record in run.records())


def _is_key(line: Mapping[str, Any]) -> bool:
    return isinstance(line.get("id"), str) and isinstance(line.get("sample"), int)


def _is_confidence(value: Any) -> bool:
    if value is None:
        return True
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _lines(values: Mapping[Key, float | None]) -> Iterator[str]:
    for (name, sample), value in values.items():
        yield sealed(json_line({"id": name, "sample": sample, "confidence": value}))
