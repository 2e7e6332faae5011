"""The commands as a user meets them: results, and one clear line for every mistake."""

import csv
import gzip
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.command import RLCR, expect_one_line, rlcr

from rlcr import RlcrError, score

GOOD = "<think>t</think><answer>{}</answer><analysis>a</analysis><confidence>{}</confidence>"


def write_jsonl(path: Path, rows: list) -> Path:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


ROWS = [{"ok": i % 3 != 0, "q": round(0.3 + 0.1 * (i % 7), 1), "task": "ab"[i % 2]} for i in range(60)]
COLUMNS = ("--correct", "ok", "--confidence", "q")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "table.jsonl", ROWS)


def test_the_same_table_in_every_kind_of_file(tmp_path: Path, table: Path) -> None:
    paths = [table, write_jsonl(tmp_path / "t.jsonl.gz", ROWS), tmp_path / "t.csv", tmp_path / "t.parquet"]
    paths[2].write_text("ok,q,task\n" + "".join(f"{int(r['ok'])},{r['q']},{r['task']}\n" for r in ROWS))
    pq.write_table(pa.Table.from_pylist(ROWS), paths[3])
    results = [rlcr("metrics", path, *COLUMNS, "--json") for path in paths]
    assert [r.returncode for r in results] == [0] * 4
    first, *others = [json.loads(r.stdout) for r in results]
    assert all(other == first for other in others)
    assert first["n"] == 60
    assert first["metrics"]["accuracy"]["value"] == pytest.approx(40 / 60)
    low, high = first["metrics"]["accuracy"]["ci95"]
    assert low < 40 / 60 < high


def test_groups_and_their_average(table: Path) -> None:
    result = json.loads(rlcr("metrics", table, *COLUMNS, "--by", "task", "--json").stdout)
    assert {name: group["n"] for name, group in result["by"].items()} == {"a": 30, "b": 30}
    mean = np.mean([group["metrics"]["brier"]["value"] for group in result["by"].values()])
    assert result["macro"]["metrics"]["brier"]["value"] == pytest.approx(mean)
    text = rlcr("metrics", table, *COLUMNS, "--by", "task").stdout
    assert "average of groups" in text


def test_several_samples_of_a_question_by_list_or_by_label(tmp_path: Path) -> None:
    lists = [{"ok": [1, 0, 1], "q": [0.9, 0.5, 0.7]}, {"ok": [0, 0, 1], "q": [0.2, 0.1, 0.4]}]
    flat = [
        {"ok": ok, "q": q, "id": f"question {number}"}
        for number, row in enumerate(lists)
        for ok, q in zip(row["ok"], row["q"], strict=True)
    ]
    by_list = rlcr("metrics", write_jsonl(tmp_path / "a.jsonl", lists), *COLUMNS, "--json")
    by_label = rlcr(
        "metrics", write_jsonl(tmp_path / "b.jsonl", flat), *COLUMNS, "--question", "id", "--json"
    )
    assert json.loads(by_list.stdout) == json.loads(by_label.stdout)
    assert json.loads(by_list.stdout)["questions"] == 2


def test_unscorable_and_missing_confidence_are_counted(tmp_path: Path) -> None:
    rows = [*ROWS, {"ok": None, "q": 0.5}, {"ok": 1, "q": None}]
    result = json.loads(rlcr("metrics", write_jsonl(tmp_path / "t.jsonl", rows), *COLUMNS, "--json").stdout)
    assert (result["n"], result["unscorable"]) == (61, 1)
    assert result["metrics"]["coverage"]["value"] == pytest.approx(60 / 61)


def test_one_class_only_says_so(tmp_path: Path) -> None:
    rows = [{"ok": 1, "q": 0.5 + i / 100} for i in range(20)]
    path = write_jsonl(tmp_path / "t.jsonl", rows)
    assert json.loads(rlcr("metrics", path, *COLUMNS, "--json").stdout)["metrics"]["auroc"]["value"] is None
    text = rlcr("metrics", path, *COLUMNS).stdout
    assert re.search(r"AUROC\s+n/a", text)
    assert "no AUROC" in text


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_plots(tmp_path: Path, table: Path, ending: str) -> None:
    diagram, curve = tmp_path / f"a.{ending}", tmp_path / f"b.{ending}"
    assert rlcr("metrics", table, *COLUMNS, "--plot", diagram).returncode == 0
    assert rlcr("check-reward", "--rule", "log", "--plot", curve).returncode == 0
    magic = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[ending]
    assert diagram.read_bytes().startswith(magic)
    assert curve.read_bytes().startswith(magic)


def test_score_writes_records_and_counts_what_it_bent(tmp_path: Path) -> None:
    rows = [
        {"text": GOOD.format("Paris", "0.9"), "gold": "Paris"},
        {"text": [GOOD.format("rome", "20%"), "nothing\nto be read"], "gold": ["Rome", "Roma"]},
    ]
    out = tmp_path / "out.jsonl"
    path = write_jsonl(tmp_path / "t.jsonl", rows)
    result = rlcr("score", path, "--completion", "text", "--gold", "gold", "--json", "--out", out)
    report = json.loads(result.stdout)
    assert (report["n"], report["questions"]) == (3, 2)
    assert report["metrics"]["accuracy"]["value"] == pytest.approx(2 / 3)
    assert report["reading"]["no_answer"] == 1
    assert report["reading"]["leniencies"]["percent"] == 1
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(r["row"], r["sample"], r["verdict"]) for r in records] == [
        (0, 0, "correct"),
        (1, 0, "correct"),
        (1, 1, "wrong"),
    ]
    # The records are a table themselves.
    again = rlcr(
        "metrics", out, "--correct", "verdict", "--confidence", "confidence", "--question", "row", "--json"
    )
    assert json.loads(again.stdout)["metrics"]["accuracy"] == report["metrics"]["accuracy"]


def test_many_unscorable_completions_are_warned_of(tmp_path: Path) -> None:
    rows = [{"text": GOOD.format("Paris", "0.9"), "gold": "Paris"}] * 49 + [
        {"text": GOOD.format("Paris", "0.9"), "gold": " "}
    ]
    columns = ("--completion", "text", "--gold", "gold")
    few = write_jsonl(tmp_path / "few.jsonl", rows)
    assert json.loads(rlcr("score", few, *columns, "--json").stdout)["warnings"] == []
    assert "warning" not in rlcr("score", few, *columns).stdout
    many = write_jsonl(tmp_path / "many.jsonl", rows[1:])
    warning = (
        "1 of 49 answers (2.0%) are unscorable and count for nothing, most often: the problem has no gold"
    )
    assert json.loads(rlcr("score", many, *columns, "--json").stdout)["warnings"] == [warning]
    assert f"warning: {warning}" in rlcr("score", many, *columns).stdout


def test_score_never_replaces_its_input(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "t.jsonl", [{"text": "x", "gold": "x"}])
    before = path.read_bytes()
    result = rlcr("score", path, "--completion", "text", "--gold", "gold", "--out", path)
    expect_one_line(result, "is the input")
    assert path.read_bytes() == before


def test_a_text_that_looks_like_a_list_is_a_text(tmp_path: Path) -> None:
    rows = [{"text": GOOD.format(answer, "0.5"), "gold": "[0, 1]"} for answer in ("[0,1]", "0")]
    arguments = ("--completion", "text", "--gold", "gold", "--verifier", "math", "--json")
    as_jsonl = write_jsonl(tmp_path / "t.jsonl", rows)
    as_csv = tmp_path / "t.csv"
    with open(as_csv, "w", newline="") as file:
        writer = csv.DictWriter(file, ["text", "gold"])
        writer.writeheader()
        writer.writerows(rows)
    for path in (as_jsonl, as_csv):
        out = tmp_path / "out.jsonl"
        assert rlcr("score", path, *arguments, "--out", out).returncode == 0
        verdicts = [json.loads(line)["verdict"] for line in out.read_text().splitlines()]
        assert verdicts == ["correct", "wrong"]
    from_python = score([row["text"] for row in rows], ["[0, 1]"] * 2, verifier="math")
    assert [record.verdict for record in from_python.records] == verdicts


def test_lists_in_csv_are_json(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('ok,q\n"[1, 0]","[0.5, 0.25]"\n1,0.75\n')
    result = json.loads(rlcr("metrics", path, *COLUMNS, "--json").stdout)
    assert (result["n"], result["questions"], result["metrics"]["brier"]["value"]) == (3, 2, 0.125)


def test_python_scoring_says_what_does_not_fit() -> None:
    with pytest.raises(RlcrError, match="3 completions, 1 golds"):
        score(["a", "b", "c"], ["x"])
    with pytest.raises(
        RlcrError, match="question 1: expected a text, a number or a list of these, found nothing"
    ):
        score(["a", None], ["x", "y"])  # pyright: ignore[reportArgumentType]
    good = GOOD.format("5", "0.9")
    assert score([good], [5], verifier="math").measurement.overall.metrics["accuracy"].value == 1.0


def test_outputs_that_begin_inside_think(tmp_path: Path) -> None:
    text = GOOD.format("x", "0.5").removeprefix("<think>")
    path = write_jsonl(tmp_path / "t.jsonl", [{"text": text, "gold": "x"}])
    arguments = ("score", path, "--completion", "text", "--gold", "gold", "--json")
    assert json.loads(rlcr(*arguments).stdout)["reading"]["well_formed"] == 0
    assert json.loads(rlcr(*arguments, "--think-open").stdout)["reading"]["well_formed"] == 1


def test_one_group_is_a_group(tmp_path: Path) -> None:
    rows = [{"ok": i % 2, "q": 0.5, "by": 1.0} for i in range(4)] + [{"ok": None, "q": 0.5, "by": None}]
    path = write_jsonl(tmp_path / "t.jsonl", rows)
    assert list(json.loads(rlcr("metrics", path, *COLUMNS, "--by", "by", "--json").stdout)["by"]) == ["1"]
    assert (
        "group (none): nothing of it could be scored" in rlcr("metrics", path, *COLUMNS, "--by", "by").stdout
    )


def test_a_plot_never_costs_a_file(tmp_path: Path, table: Path) -> None:
    before = table.read_bytes()
    expect_one_line(rlcr("metrics", table, *COLUMNS, "--plot", table), "must end in .png, .svg, .pdf")
    assert table.read_bytes() == before
    odd = write_jsonl(tmp_path / "$\\frac$.jsonl", ROWS)
    assert rlcr("metrics", odd, *COLUMNS, "--plot", tmp_path / "plot.png").returncode == 0


def test_check_reward() -> None:
    text = rlcr("check-reward", "--rule", "brier").stdout
    assert text.count("yes") == 2
    report = json.loads(rlcr("check-reward", "--rule", "log", "--lam", "3", "--json").stdout)
    assert (report["proper"], report["correctness_incentive"], report["least_lambda"]) == (True, False, None)


def bad_line_17(path: Path) -> Path:
    lines = [json.dumps(row) for row in ROWS]
    lines[16] = lines[16][:-4]
    path.write_text("\n".join(lines))
    return path


def with_row(path: Path, row: object) -> Path:
    return write_jsonl(path, [*ROWS[:4], row])


BAD_INPUT = {
    "missing file": (lambda d: d / "none.jsonl", "none.jsonl: no such file"),
    "directory": (lambda d: d, "is a directory"),
    "empty": (lambda d: write_jsonl(d / "t.jsonl", []), "t.jsonl: has no rows"),
    "empty csv": (lambda d: write_jsonl(d / "t.csv", []), "t.csv: has no rows"),
    "malformed line": (lambda d: bad_line_17(d / "t.jsonl"), "t.jsonl, line 17: not JSON"),
    "missing column": (lambda d: with_row(d / "t.jsonl", {"ok": 1}), "t.jsonl, line 5: no column 'q'"),
    "confidence 1.7": (
        lambda d: with_row(d / "t.jsonl", {"ok": 1, "q": 1.7}),
        "t.jsonl, line 5, column q: confidence 1.7 is outside [0, 1]",
    ),
    "nan": (
        lambda d: with_row(d / "t.jsonl", {"ok": 1, "q": float("nan")}),
        "line 5, column q: confidence nan",
    ),
    "word": (lambda d: with_row(d / "t.jsonl", {"ok": 1, "q": "high"}), "column q: 'high' is not a number"),
    "odd verdict": (
        lambda d: with_row(d / "t.jsonl", {"ok": 2, "q": 0.5}),
        "line 5, column ok: 2 is neither",
    ),
    "lists differ": (
        lambda d: with_row(d / "t.jsonl", {"ok": [1, 0], "q": [0.5]}),
        "line 5, column q: 1 confidences for 2 in column ok",
    ),
    "not an object": (lambda d: with_row(d / "t.jsonl", [1, 2]), "line 5: expected a JSON object"),
    "nothing scorable": (lambda d: write_jsonl(d / "t.jsonl", [{"ok": None, "q": 1}]), "nothing to measure"),
    "huge number": (lambda d: with_row(d / "t.jsonl", {"ok": 1, "q": 10**400}), "line 5, column q: '1000"),
    "endless number": (
        lambda d: (d / "t.jsonl").write_text('{"ok": 1, "q": ' + "1" * 5000 + "}\n") and d / "t.jsonl",
        "t.jsonl, line 1: not JSON we can read",
    ),
    "long name": (lambda d: d / ("x" * 300 + ".jsonl"), "File name too long"),
    "unknown kind": (lambda d: write_jsonl(d / "t.xlsx", ROWS), "cannot tell what kind of table"),
}


@pytest.mark.parametrize(("make", "message"), BAD_INPUT.values(), ids=BAD_INPUT.keys())
def test_bad_input_is_one_line_and_exit_2(tmp_path: Path, make, message: str) -> None:
    path = make(tmp_path)
    plot = tmp_path / "plot.png"
    expect_one_line(rlcr("metrics", path, *COLUMNS, "--plot", plot), message)
    assert not plot.exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.jsonl", bytes(range(256)) * 4, "not UTF-8 text; is this a binary file?"),
        ("t.csv", bytes(range(256)) * 4, "t.csv"),
        ("t.parquet", b"PAR1 but not really", "t.parquet: not a readable Parquet file"),
        ("t.jsonl.gz", gzip.compress(b'{"ok": 1, "q": 0.5}\n' * 10_000)[:-30], "damaged gzip"),
        ("t.csv", b"ok,q\n1,0.5\n1,0.5,0.7\n", "t.csv, line 3: 3 cells under 2 columns"),
        ("t.csv", b"ok,conf\n1,0.5\n", "t.csv, line 1: no column 'q'"),
    ],
)
def test_damaged_and_binary_files(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    expect_one_line(rlcr("metrics", path, *COLUMNS), message)


def test_a_failing_score_leaves_nothing_behind_and_spares_what_was_there(tmp_path: Path) -> None:
    rows = [{"text": GOOD.format("x", "0.9"), "gold": "x"}] * 3000 + [{"text": 5.5, "gold": None}]
    path, out = write_jsonl(tmp_path / "t.jsonl", rows), tmp_path / "out.jsonl"
    out.write_text("earlier\n")
    result = rlcr("score", path, "--completion", "text", "--gold", "gold", "--out", out)
    expect_one_line(
        result,
        "t.jsonl, line 3001, column gold: expected a text, a number or a list of these, found nothing",
    )
    assert out.read_text() == "earlier\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.jsonl", "t.jsonl"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--format", "rlrc"), "unknown format 'rlrc'"),
        (("--verifier", "exakt"), "unknown verifier 'exakt': did you mean exact?"),
        (("--out", "no/such/folder/out.jsonl"), "no/such/folder/out.jsonl: cannot be written"),
    ],
)
def test_wrong_names(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    path = write_jsonl(tmp_path / "t.jsonl", [{"text": "x", "gold": "x"}])
    result = rlcr("score", path, "--completion", "text", "--gold", "gold", *arguments, cwd=tmp_path)
    expect_one_line(result, message)


def test_wrong_options_of_the_other_commands(tmp_path: Path, table: Path) -> None:
    expect_one_line(rlcr("check-reward", "--rule", "bier"), "did you mean brier?")
    expect_one_line(rlcr("check-reward", "--lam", "nan"), "lambda must be a finite number")
    plot = tmp_path / "plot.txt"
    expect_one_line(rlcr("metrics", table, *COLUMNS, "--plot", plot), "plot.txt: cannot write the figure")
    assert not plot.exists()
    expect_one_line(rlcr("metrics", table), "say which column it is: --correct COL")
    expect_one_line(rlcr("nonsense"), "No such command 'nonsense'")
    assert "Usage" in rlcr().stdout


def test_help_and_version() -> None:
    text = rlcr("--help", env=os.environ | {"COLUMNS": "200"}).stdout
    for command in ("metrics", "score", "check-reward"):
        assert command in text
        assert rlcr(command, "--help").returncode == 0
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", rlcr("--version").stdout)


def test_no_progress_bar_in_a_pipe(table: Path) -> None:
    assert rlcr("metrics", table, *COLUMNS).stderr == ""


def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    tower = GOOD.format("x^{2}+1", "0.5")
    path = write_jsonl(tmp_path / "t.jsonl", [{"text": tower, "gold": f"x^2+{i}"} for i in range(200_000)])
    out = tmp_path / "out.jsonl"
    arguments = ["score", path, "--completion", "text", "--gold", "gold", "--verifier", "math", "--out", out]
    process = subprocess.Popen([*RLCR, *map(str, arguments)], stderr=subprocess.PIPE, text=True)
    while not any(p.name.endswith(".partial") for p in tmp_path.iterdir()):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert [p.name for p in tmp_path.iterdir()] == ["t.jsonl"]


@pytest.mark.parametrize("module", ["rlcr.errors", "numpy.linalg", "typer.main", "rlcr.cli.viewing"])
def test_ctrl_c_while_modules_are_imported(tmp_path: Path, module: str) -> None:
    """Python names each module on standard error once it is imported: the signal is sent right then."""
    command = [RLCR[0], "-X", "importtime", *RLCR[1:], "view", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        for line in process.stderr:
            if line.split("|")[-1].strip() == module:
                break
        process.send_signal(signal.SIGINT)
        rest = [line for line in process.stderr if not line.startswith("import time:")]
    assert rest == []
    assert process.returncode == 130
