"""Records that are read in one go, in pieces, and while they are being written."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
from tests.report.run_folders import record, simulated_records

from rlcr.report.rows import RecordReader

LINES = [json.dumps(cells) for cells in simulated_records("rlcr", "t", 60, samples=3)[0]]


def of(reader: RecordReader, **options: Any) -> dict[str, Any]:
    rows, digest = reader.columns(**options)
    columns = ("task", "question", "sample", "verdict", "confidence", "tokens", "repaired", "offset")
    return {name: getattr(rows, name).tolist() for name in columns} | {
        "ids": rows.ids, "tasks": rows.tasks, "verifiers": rows.verifiers, "hash": digest, "notes": reader.notes(), "damage": reader.damage()
    }  # fmt: skip


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return json.dumps(a) == json.dumps(b)  # NaN differs from itself, and not here


def test_reading_in_pieces_is_reading_at_once(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    lines = [*LINES]
    lines[7], lines[70] = "no record", '{"id": 5, "verdict": "wrong"}'
    text = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(text)
    whole = RecordReader(path)
    whole.read_all()
    assert len(whole) == 178
    assert whole.notes() == []
    assert whole.damage().startswith("records.jsonl: 2 lines are damaged (the first is line 8); left out")
    rng = random.Random(0)
    growing = RecordReader(path)
    done = 0
    while done < len(text):
        done = min(len(text), done + rng.randrange(1, 4000))
        path.write_bytes(text[:done])
        while growing.read(rng.choice([10, 500, 100_000])):
            pass
        rows, _ = growing.columns()
        assert len(rows) == len(growing)
    assert same(of(growing), of(whole))
    for row in (0, 33, 177):  # each where its line begins
        offset = of(whole)["offset"][row]
        assert json.loads(text[offset:].split(b"\n")[0])["id"] == of(whole)["ids"][of(whole)["question"][row]]


def test_a_line_cut_short_is_read_once_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text(f"{LINES[0]}\n{LINES[1][:40]}")
    reader = RecordReader(path)
    assert reader.read()
    assert not reader.read()
    assert len(reader) == 1
    assert reader.notes() == []
    # As resuming does: the part of a line is dropped, and the completion is written again.
    path.write_text(f"{LINES[0]}\n{LINES[1]}\n")
    assert reader.read()
    assert len(reader) == 2
    # A report is of the file as it is: what is left of a line is a line.
    path.write_text(f"{LINES[0]}\n{LINES[1][:40]}")
    whole = RecordReader(path)
    whole.read_all()
    assert len(whole) == 1
    assert "1 line is damaged (line 2); left out" in whole.damage()
    path.write_text(f"{LINES[0]}\n{LINES[1]}")
    whole = RecordReader(path)
    whole.read_all()
    assert len(whole) == 2


def test_another_file_in_its_place_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text("".join(f"{line}\n" for line in LINES))
    reader = RecordReader(path)
    reader.read()
    before, digest = reader.columns()
    # As `rlcr rescore` writes: another file, as long as the first or longer.
    other = tmp_path / "other"
    other.write_text("".join(f"{line}\n" for line in reversed(LINES)))
    other.replace(path)
    reader.read()
    after, changed = reader.columns()
    assert len(after) == len(before)
    assert after.ids == before.ids[::-1]
    assert digest != changed
    assert before.ids[before.question[0]] == "t/00000"  # what was shown stays as it was
    path.write_text(f"{LINES[3]}\n")
    reader.read()
    assert len(reader) == 1
    path.unlink()
    assert not reader.read()
    assert len(reader) == 0
    assert reader.notes() == ["no records.jsonl: no figure of its confidences and no samples"]


def test_which_completions_there_are(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    cells = [record("a", "t", sample=0), record("a", "t", sample=2), record("b", "t", sample=0)]
    path.write_text("".join(json.dumps(cell) + "\n" for cell in cells))
    reader = RecordReader(path)
    reader.read()
    rows, _ = reader.columns()
    assert rows.answered([("a", 0), ("a", 1), ("b", 0), ("b", 2), ("c", 0)]) == {("a", 0), ("b", 0)}
    assert rows.answered([]) == set()
    first, digest = reader.columns(samples=1)
    assert first.sample.tolist() == [0, 0]
    assert digest == reader.columns(samples=math.nan)[1]
    assert np.array_equal(rows.scored(["t"])[0], [1, 1, 1])
