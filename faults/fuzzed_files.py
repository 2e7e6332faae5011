"""Files that are fuzzed: records, recipes and tables."""

from __future__ import annotations

import gzip
import json
import math
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path

import pyarrow as pa
from hypothesis import strategies as st
from pyarrow import parquet
from tests.confidence.colour_runs import colour_run

from faults.fuzzing import NUMBERS, ODD, TEXT, Target, many, one_line_errors
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
}
