"""`rlcr import`: completions made anywhere, as a run that is whole or absent."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests import forks
from tests.command import expect_one_line, rlcr
from tests.evaluate.capitals import records_of

from rlcr.confidence.comparison import compare_columns
from rlcr.errors import RlcrError
from rlcr.evaluate import rescore
from rlcr.evaluate.compare import compare_runs
from rlcr.evaluate.export import export
from rlcr.evaluate.importing import TableColumns, import_run
from rlcr.evaluate.results import run_samples
from rlcr.many.analyses import Ask, sample_analyses
from rlcr.many.vote import vote
from rlcr.runs.columns import provenance

COLUMNS = TableColumns("out", "gold", "q")


def table(folder: Path, rows: list[dict[str, Any]], name: str = "made.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def several(folder: Path) -> Path:
    """Three samples of each of four questions, a row each, one question after the other and mixed."""
    answers = {"a": ("4", "4", "5"), "b": ("7", "8", "7"), "c": ("1", "1", "1"), "d": ("2", "3", "2")}
    golds = {"a": "4", "b": "7", "c": "0", "d": "2"}
    rows = [
        {"qid": name, "q": f"Question {name}?", "gold": golds[name], "out": f"Answer: **{answers[name][n]}**",
         "conf": (n + 1) / 4, "kind": "sum" if name in "ab" else "product", "options": ["4", "7", "0", "2"]}
        for n in range(3)
        for name in golds
    ]  # fmt: skip
    return table(folder, rows)


BY_ID = TableColumns("out", "gold", "q", id="qid")


def test_rows_of_one_id_are_samples_of_one_problem(tmp_path: Path) -> None:
    results = import_run(several(tmp_path), tmp_path / "run", BY_ID, verifier="math")
    assert results.settings["samples"] == 3
    assert results.tasks["made"].summary.metrics["accuracy"].value == pytest.approx(6 / 12)
    assert {(r["id"], r["sample"]) for r in records_of(tmp_path / "run")} == {
        (q, n) for q in "abcd" for n in range(3)
    }
    votes = vote(tmp_path / "run")
    assert votes.tasks["made"].scaling.most == 3


def test_confidences_of_the_table_stay_when_it_is_graded_again(tmp_path: Path) -> None:
    columns = TableColumns("out", "gold", "q", id="qid", confidence="conf")
    import_run(several(tmp_path), tmp_path / "run", columns, verifier="math")
    before = sorted(r["confidence"] for r in records_of(tmp_path / "run"))
    assert before == sorted([0.25, 0.5, 0.75] * 4)
    assert provenance(tmp_path / "run", "verbalised")["source"] == "column conf"
    (note,) = compare_columns(tmp_path / "run", resamples=0).notes
    assert note == "verbalised is column conf of what was imported: no model stated it"
    rescore(tmp_path / "run", verifier="exact")
    assert sorted(r["confidence"] for r in records_of(tmp_path / "run")) == before


def test_percentages(tmp_path: Path) -> None:
    rows = [
        {"q": f"Question {n}?", "gold": "4", "out": "Answer: 4", "sure": f"{10 * n}%", "share": n / 10}
        for n in range(5)
    ]
    path = table(tmp_path, rows)
    given = ("import", path, "--completion", "out", "--gold", "gold", "--question", "q")
    made = rlcr(*given, "--out", tmp_path / "run", "--confidence", "sure", "--percent")
    assert made.returncode == 0, made.stderr
    assert [r["confidence"] for r in records_of(tmp_path / "run")] == pytest.approx([0, 0.1, 0.2, 0.3, 0.4])
    # Not stated by a model: the table names the column.
    assert "column sure" in made.stdout
    assert "verbalised" not in made.stdout
    expect_one_line(
        rlcr(*given, "--out", tmp_path / "a", "--confidence", "share", "--percent"),
        "column share: no confidence is above 1, so these are no percentages; leave out --percent",
    )
    rows[3]["sure"] = 70
    table(tmp_path, rows)
    message = "line 1, column sure: '0%' is not a number"
    expect_one_line(rlcr(*given, "--out", tmp_path / "b", "--confidence", "sure"), message)
    expect_one_line(rlcr(*given, "--out", tmp_path / "c", "--percent"), "name it with --confidence COL")


def test_other_columns_split_the_metrics(tmp_path: Path) -> None:
    columns = TableColumns("out", "gold", "q", id="qid", confidence="conf")
    import_run(several(tmp_path), tmp_path / "run", columns, verifier="math")
    groups = run_samples(tmp_path / "run", "verbalised", "kind").measure(resamples=10).by
    assert {name: group.metrics["accuracy"].value for name, group in groups.items()} == {
        "sum": pytest.approx(4 / 6), "product": pytest.approx(2 / 6),
    }  # fmt: skip
    with pytest.raises(RlcrError, match="--by kid: no problem has it; did you mean kind"):
        run_samples(tmp_path / "run", "verbalised", "kid")
    with pytest.raises(RlcrError, match="--by options: expected a text or a number, found list"):
        run_samples(tmp_path / "run", "verbalised", "options")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"q": "Another?"}, "line 12, column q: another one than in line 4, for the same id d"),
        ({"gold": "9"}, "line 12, column gold: another one than in line 4, for the same id d"),
        ({"qid": "e"}, "questions have different numbers of completions, d has 2 of 3: give each 3"),
        ({"conf": 2}, "line 12, column conf: confidence 2 is outside"),
        ({"conf": [0.5, 0.5]}, "line 12, column conf: 2 values for 1 completions"),
    ],
)
def test_rows_that_do_not_fit_together(changed: dict[str, Any], message: str, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in several(tmp_path).read_text().splitlines()]
    path = table(tmp_path, [*rows[:-1], rows[-1] | changed])
    columns = TableColumns("out", "gold", "q", id="qid", confidence="conf")
    with pytest.raises(RlcrError, match=message):
        import_run(path, tmp_path / "run", columns)
    assert not (tmp_path / "run").exists()


def test_multiple_choice_needs_its_options(tmp_path: Path) -> None:
    path = several(tmp_path)
    with pytest.raises(RlcrError, match="the verifier choice needs the options: --choices COL"):
        import_run(path, tmp_path / "run", BY_ID, verifier="choice")
    columns = TableColumns("out", "gold", "q", id="qid", choices="options")
    # The golds 4, 7, 0 and 2 are texts of options; as places they do not fit.
    results = import_run(path, tmp_path / "run", columns, verifier="choice")
    assert results.tasks["made"].summary.metrics["accuracy"].value == pytest.approx(6 / 12)


def test_an_imported_run_is_exported(tmp_path: Path) -> None:
    import_run(several(tmp_path), tmp_path / "run", BY_ID, verifier="math")
    paths = export(tmp_path / "run", tmp_path / "out")
    assert [path.name for path in paths] == ["results.json", "samples_made.jsonl"]
    assert json.loads(paths[0].read_text())["config"] == {
        "model": "rlcr",
        "model_args": "imported",
        "limit": None,
    }


def test_what_an_imported_run_cannot_do_is_said_at_once(tmp_path: Path) -> None:
    path = several(tmp_path)
    import_run(path, tmp_path / "run", BY_ID, verifier="math")
    with pytest.raises(RlcrError, match="run: not empty; choose another --out"):
        import_run(path, tmp_path / "run", BY_ID)
    with pytest.raises(RlcrError, match="was imported: its model is not known"):
        sample_analyses(tmp_path / "run", Ask(2, 1, None, None, 0))
    with pytest.raises(RlcrError, match="a file; --out names a folder"):
        import_run(path, path, BY_ID)


def test_an_interrupted_import_leaves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "runs" / "run"
    rows = [{"q": f"{n}?", "gold": "x^2", "out": f"Answer: x**2 + {n} - {n}"} for n in range(20_000)]
    options = ["--completion", "out", "--gold", "gold", "--question", "q", "--verifier", "math"]
    command = [
        *forks.python(),
        "-m",
        "rlcr",
        "import",
        str(table(tmp_path, rows)),
        *options,
        "--out",
        str(out),
    ]
    importing = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not list(tmp_path.glob("runs/.run.*")):  # it has begun to write
        assert importing.poll() is None
    importing.send_signal(signal.SIGINT)
    importing.wait(timeout=60)
    assert list((tmp_path / "runs").iterdir()) == []
    import_run(table(tmp_path, rows[:2]), out, COLUMNS)


def test_the_same_problems_under_other_names_and_ids_are_compared(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in several(tmp_path).read_text().splitlines()]
    import_run(table(tmp_path, rows, "first.jsonl"), tmp_path / "a", BY_ID, verifier="math")
    others = [row | {"qid": f"other-{row['qid']}", "out": f"Answer: {row['gold']}"} for row in rows]
    import_run(table(tmp_path, others, "second.jsonl"), tmp_path / "b", BY_ID, verifier="math")
    found = compare_runs(tmp_path / "a", tmp_path / "b", resamples=10)
    assert found.tasks["first"].questions == 4
    assert found.tasks["first"].metrics["accuracy"].value == pytest.approx(0.5)
    assert "first is called second in the second run" in found.notes
    strangers = [row | {"q": row["q"].replace("Question", "Another")} for row in rows]
    import_run(table(tmp_path, strangers, "third.jsonl"), tmp_path / "c", BY_ID, verifier="math")
    with pytest.raises(RlcrError, match="no task and no problem in common: first and third"):
        compare_runs(tmp_path / "a", tmp_path / "c", resamples=10)


def test_a_run_without_options_is_not_graded_as_multiple_choice(tmp_path: Path) -> None:
    import_run(several(tmp_path), tmp_path / "run", BY_ID, verifier="math")
    with pytest.raises(RlcrError, match="its problems have no options, which the verifier choice needs"):
        rescore(tmp_path / "run", verifier="choice")
