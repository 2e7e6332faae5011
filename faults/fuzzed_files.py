"""Files that are fuzzed: records, recipes, tables and logs of other engines."""

from __future__ import annotations

import gzip
import json
import math
import zipfile
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from pyarrow import parquet
from tests.adapters.test_logs import (
    as_zstandard,
    write_inspect,
    write_lm_eval,
    write_verifiers,
    write_verl,
)
from tests.confidence.colour_runs import colour_run

from faults.fuzzing import NUMBERS, ODD, TEXT, Target, many, one_line_errors
from rlcr.adapters.logs import COLUMNS, log_kind, log_rows
from rlcr.evaluate.importing import import_run
from rlcr.runs.lines import mend, sealed
from rlcr.runs.record import to_line
from rlcr.runs.store import open_run
from rlcr.tasks.plumbing.tables import as_confidence, as_correct, read_rows
from rlcr.training.recipes import load_recipe


@dataclass(frozen=True)
class Edit:
    """A change of some bytes: at a place (a share of the whole), so many of them by others."""

    place: float
    length: int
    by: bytes


_BYTES = [
    b"\n",
    b"",
    b"[" * 3000,
    b'{"a":' * 3000,
    b'"',
    b"9" * 5000,
    b"null",
    b"NaN",
    b"-1",
    b"1e999",
    b"\xff",
]
_LENGTHS = st.sampled_from([0, 0, 1, 1, 2, 8, 100, 10_000])
_EDIT = st.builds(Edit, st.floats(0, 1), _LENGTHS, st.one_of(st.binary(max_size=8), st.sampled_from(_BYTES)))
_EDITS = st.lists(_EDIT, max_size=4)


def edited(content: bytes, edits: list[Edit]) -> bytes:
    """The content after some changes."""
    for edit in edits:
        place = int(edit.place * len(content))
        content = content[:place] + edit.by + content[place + edit.length :]
    return content


@cache
def _good_run(folder: Path) -> tuple[Path, bytes]:
    run = colour_run(folder / "good", 4)
    lines = [sealed(to_line(record)) for record in open_run(run).records()]
    return run, "".join(lines).encode()


def _check_records(drawn: tuple[list[Edit], bool], folder: Path) -> None:
    edits, seal_again = drawn
    run, good = _good_run(folder)
    content = edited(good, edits)
    if seal_again:  # as someone would who forges a run: the checksum holds, and the content is anything
        lines = [line.rpartition(b', "crc"')[0] + b"}\n" for line in content.splitlines()]
        content = b"".join(_sealed(line) for line in lines)
    (run / "records.jsonl").write_bytes(content)
    with one_line_errors():
        for record in open_run(run).records():
            stated = record.confidence
            assert stated is None or (math.isfinite(stated) and 0 <= stated <= 1), stated
    mend(run / "records.jsonl", "completion")
    with one_line_errors():
        list(open_run(run).records())


def _sealed(line: bytes) -> bytes:
    try:
        return sealed(line.decode()).encode()
    except UnicodeDecodeError:
        return line


_YAML = [
    "rlcr",
    "[",
    "]",
    "{",
    "}",
    "&a",
    "*a",
    "!!python/object",
    "!!int",
    "!!binary",
    "|",
    ">",
    "'",
    '"',
    "#",
    "---",
    "...",
    "~",
    "true",
    "2001-01-01",
    "0o7",
    "1:30",
    "@",
    "`",
]
_YAML += [
    "like: ",
    "name: ",
    "model: ",
    "task: ",
    "seed: ",
    "learning_rate: ",
    "reward: ",
    "updates: ",
    "group: ",
]
_YAML += ["like: hotpotqa-rlcr\n", "\n  ", "\n- ", ": ", ", ", "<<: ", "? ", "%YAML 9.9\n"]


def _check_recipe(text: str, folder: Path) -> None:
    path = folder / "recipe.yaml"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    with one_line_errors():
        load_recipe(str(path))


def _tables() -> dict[str, bytes]:
    cells = [
        {"question": f"What is {n}?", "gold": ["3", "three"], "c": n / 9, "ok": n % 2} for n in range(20)
    ]
    lines = "".join(json.dumps(row) + "\n" for row in cells).encode()
    rows = "question,gold,c,ok\n" + "".join(f'"a, ""{n}""",3,{n / 20},{n % 2}\n' for n in range(20))
    kept = BytesIO()
    parquet.write_table(pa.Table.from_pylist(cells), kept)
    named = {"t.jsonl": lines, "t.csv": rows.encode(), "t.parquet": kept.getvalue()}
    return named | {f"{name}.gz": gzip.compress(content) for name, content in list(named.items())[:2]}


_TABLES = _tables()


def _check_table(drawn: tuple[str, list[Edit], bool], folder: Path) -> None:
    name, edits, inside = drawn
    content = _TABLES[name]
    if inside and name.endswith(".gz"):
        content = gzip.compress(edited(gzip.decompress(content), edits), 1)
    else:
        content = edited(content, edits)
    path = folder / name
    path.write_bytes(content)
    with one_line_errors():
        for row in read_rows(path, None):
            for column, convert in (("c", as_confidence), ("ok", as_correct)):
                if column in row.cells:
                    for value in row.converted(column, convert):
                        assert value is None or 0 <= value <= 1
            for column in row.cells:
                row.samples(column, of_text=True)


_LOGS = {
    "log.eval": write_inspect,
    "samples_t.jsonl": write_lm_eval,
    "20.jsonl": write_verl,
    "traces.jsonl": write_verifiers,
}


@cache
def _parts(name: str) -> dict[str, bytes]:
    """A log of another engine: what is in the file, or in each part of an archive."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        _LOGS[name](path)
        if path.suffix != ".eval":
            return {"": path.read_bytes()}
        with zipfile.ZipFile(path) as archive:
            return {part: archive.read(part) for part in archive.namelist()}


@dataclass(frozen=True)
class Swap:
    """Another value in a document of JSON: at a place, counted through all lists and objects."""

    place: int
    by: Any


_JUNK = [None, True, 0, -1, 1.5, 10**30, float("nan"), "", "x", [], {}, [[]], [None], {"a": None}, [1] * 3]
_SWAPS = st.lists(st.builds(Swap, st.integers(0, 200), st.sampled_from(_JUNK)), max_size=3)


def swapped(content: bytes, swaps: list[Swap]) -> bytes:
    """Lines of JSON after some changes of their values."""
    lines = [json.loads(line) for line in content.splitlines()]
    for swap in swaps:
        places = list(_places(lines))
        holder, key = places[swap.place % len(places)]
        holder[key] = deepcopy(swap.by)
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, (list, dict)):
        for key in range(len(value)) if isinstance(value, list) else list(value):
            yield value, key
            yield from _places(value[key])


@dataclass(frozen=True)
class Damage:
    """What is done to a log: in one part of an archive (or to the file) other values, then other bytes.

    Then to the bytes of the file as it is stored, which are packed in an archive: ``today`` by Zstandard.
    """

    part: int = 0
    swaps: list[Swap] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)
    packed: list[Edit] = field(default_factory=list)
    today: bool = False


# Bytes in the place of as many others: all else in an archive is still where its directory says.
_FLIP = st.builds(
    lambda place, by: Edit(place / 1e4, len(by), by), st.integers(0, 9_999), st.binary(min_size=1, max_size=2)
)
_DAMAGE = st.one_of(
    st.builds(Damage, st.integers(0, 9), _SWAPS, _EDITS),
    st.builds(Damage, packed=st.one_of(st.lists(_FLIP, max_size=4), _EDITS), today=st.booleans()),
)


def _check_log(drawn: tuple[str, Damage], folder: Path) -> None:
    name, damage = drawn
    parts = dict(_parts(name))
    part = sorted(parts)[damage.part % len(parts)]
    parts[part] = edited(swapped(parts[part], damage.swaps), damage.edits)
    path = folder / name
    if part:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for inside, content in parts.items():
                archive.writestr(inside, content)
        if damage.today:
            as_zstandard(path)
    else:
        path.write_bytes(parts[part])
    path.write_bytes(edited(path.read_bytes(), damage.packed))
    with one_line_errors(), TemporaryDirectory(dir=folder) as out:
        if kind := log_kind(path):
            import_run(path, Path(out) / "run", COLUMNS, rows=log_rows(path, kind))


TARGETS = {
    "records": Target(
        "the reader of records, with checksums that hold and that do not",
        st.tuples(_EDITS, st.booleans()),
        _check_records,
    ),
    "recipe": Target(
        "the loader of recipes",
        many(st.one_of(st.sampled_from([*_YAML, *NUMBERS, *ODD]), TEXT)),
        _check_recipe,
    ),
    "tables": Target(
        "readers of tables: JSONL, CSV, both packed, Parquet",
        st.tuples(st.sampled_from(list(_TABLES)), _EDITS, st.booleans()),
        _check_table,
    ),
    "logs": Target(
        "logs of inspect, lm-eval, verl and verifiers, imported",
        st.tuples(st.sampled_from(list(_LOGS)), _DAMAGE),
        _check_log,
    ),
}
