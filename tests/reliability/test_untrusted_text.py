"""Text of models, servers and files is shown, quoted or refused; it is never obeyed by what reads it."""

from __future__ import annotations

import ast
import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests import forks
from tests.command import expect_one_line, rlcr

import rlcr as package
from rlcr.errors import RlcrError
from rlcr.metrics.tables import Cell, Table, csv_text, latex, markdown, text_headings
from rlcr.sample.opening import is_server
from rlcr.tasks.plumbing.tables import read_rows
from rlcr.terminal import console, one_line, visible
from rlcr.training.recipes import load_recipe
from rlcr.training.recipes.reading import read_value

PACKAGE = Path(package.__file__).parent
EVIL = "\x1b]0;owned\x07\x1b[2J\x1b[1A\x9b31mred\rover\u202e\x00end"
OBEYED = ("\x1b", "\x07", "\x9b", "\r", "\u202e", "\x00")

# Terminal --------------------------------------------------------------------------------------------------


def test_what_a_terminal_would_obey_is_written_out() -> None:
    assert not any(mark in visible(EVIL) for mark in OBEYED)
    assert "\n" not in one_line(f"a\n{EVIL}")
    assert visible("naïve 日本 🙂\tx\n") == "naïve 日本 🙂\tx\n"
    assert visible("\ud83d") == "\\ud83d"


def test_a_table_of_rich_keeps_its_colours_and_shows_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.table import Table as RichTable

    table = RichTable(title="t")
    table.add_column("name", style="bold")
    table.add_row(EVIL)
    out = console()
    out.print(table)
    out.print(EVIL, markup=False)
    shown = capsys.readouterr().out
    assert not any(mark in shown for mark in OBEYED)
    assert shown.count("\\x1b[2J") == 2


def test_the_package_prints_in_one_place() -> None:
    wrong = []
    for path in PACKAGE.rglob("*.py"):
        inside = path.relative_to(PACKAGE).as_posix()
        if inside.startswith("adapters/examples") or inside in ("terminal.py", "verify/_process.py"):
            continue  # programs of users; what prints; the talk of two processes through a pipe
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Name) and called.id in ("print", "Console", "eval", "exec"):
                wrong.append(f"{inside}:{called.lineno} {called.id}")
    assert not wrong


def test_no_shell_no_pickle_and_no_code_from_a_hub() -> None:
    wrong = []
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for word in ("shell=True", "os.system", "pickle.load", "yaml.load(", "trust_remote_code=True"):
            if word in text:
                wrong.append(f"{path.relative_to(PACKAGE)}: {word}")
        for line in text.splitlines():
            if "torch.load(" in line and "weights_only=True" not in line:
                wrong.append(f"{path.relative_to(PACKAGE)}: {line.strip()}")
    assert not wrong


def evil_file(tmp_path: Path) -> Path:
    path = tmp_path / "evil.jsonl"
    row = {"id": EVIL, "question": EVIL, "gold": EVIL, "answer": EVIL, "group": EVIL, "correct": 1}
    path.write_text(
        "".join(json.dumps(row | {"confidence": c / 10, "id": f"{c}{EVIL}"}) + "\n" for c in range(9))
    )
    return path


def test_commands_show_a_hostile_table(tmp_path: Path) -> None:
    path = evil_file(tmp_path)
    commands = [
        (
            "tasks",
            "show",
            "file",
            "--set",
            f"path={path}",
            "--set",
            "gold=gold",
            "--set",
            "question=question",
        ),
        ("metrics", path, "--by", "group"),
        ("metrics", path, "--by", EVIL.replace("\x00", "")),
        ("import", path, "--out", tmp_path / f"run{EVIL[:4]}"),
        (
            "eval",
            "--model",
            "http://127.0.0.1:9/v1",
            "--task",
            EVIL.replace("\x00", ""),
            "--out",
            tmp_path / "x",
        ),
    ]
    for command in commands:
        done = subprocess.run(
            [*forks.python(), "-m", "rlcr", *map(str, command)], capture_output=True, timeout=600, check=False
        )
        shown = (done.stdout + done.stderr).decode()
        assert not any(mark in shown for mark in OBEYED), command
        assert "Traceback" not in shown, command


# Tables ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", " =", "|"])
def test_a_cell_is_no_formula(start: str) -> None:
    table = Table("t", "", text_headings(f"{start}head"), ((Cell(f"{start}1+cmd|' /C calc'!A0"),),))
    for line in csv_text(table).splitlines():
        cell = line.strip('"')
        assert not cell or cell[0] in "'|" or cell.lstrip()[0] not in "=+-@", line


def test_markup_and_line_breaks_in_a_name_stay_in_their_cell() -> None:
    name = "a\nb | <script>alert(1)</script> \\input{/etc/passwd} $x$ % ^^M `code` [l](javascript:1) \x1b[2J"
    table = Table("t", name, text_headings("task", "x"), ((Cell(name), Cell("1")),), notes=(name,))
    text = markdown(table)
    assert "<script" not in text.replace("\\<", "")
    assert "\x1b" not in text
    assert len([line for line in text.splitlines() if line.startswith("|")]) == 3
    tex = latex(table)
    assert "\\input" not in tex
    assert "\x1b" not in tex
    assert "^^" not in tex
    (row,) = [line for line in tex.splitlines() if line.endswith("& 1 \\\\")]
    assert row.count("&") == 1


def test_a_small_gzip_file_of_one_huge_row_is_refused(tmp_path: Path) -> None:
    for name, begin in (("a.jsonl.gz", b'{"a": "'), ("a.csv.gz", b'a,b\n"x'), ("b.csv.gz", b'a\n"')):
        path = tmp_path / name
        with gzip.open(path, "wb", 1) as file:
            file.write(begin)
            for _ in range(20):
                file.write((b"y\n" if name == "b.csv.gz" else b"yy") * (1 << 19))
        with pytest.raises(RlcrError, match=r"over 16,777,216 characters|field larger than field limit"):
            list(read_rows(path, None))


# Recipes ---------------------------------------------------------------------------------------------------

HOSTILE_RECIPES = {
    "control characters": "like: rlcr\x00\x1b",
    "a bell": "name: \x07",
    "deep lists": "name: " + "[" * 5000,
    "deep lists, closed": "name: " + "[" * 3000 + "]" * 3000,
    "deep mappings": "a: " + "{a: " * 3000,
    "deep blocks": "".join(" " * n + "a:\n" for n in range(2000)),
    "a list in itself": "name: &a [*a]",
    "a mapping in itself": "a: &a {b: *a}",
    "a key that is itself": "&a a: *a",
    "an alias bomb": "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(12)
    ),
    "merge keys": "a: &a {x: 1}\nb: {<<: *a}",
    "a huge number": "seed: " + "9" * 5000,
    "a large number": "seed: " + "9" * 400,
    "a huge float": "learning_rate: 1" + "0" * 400 + ".0e5",
    "infinite": "learning_rate: .inf",
    "not a number": "learning_rate: .nan",
    "a python object": "a: !!python/object/apply:os.system [id]",
    "a bad int": "seed: !!int abc",
    "a bad float": "learning_rate: !!float abc",
    "a bad bool": "a: !!bool abc",
    "a bad date": "a: !!timestamp abc",
    "bad base64": "a: !!binary \"*\"",
    "a set": "a: !!set {x, y}",
    "two documents": "a: 1\n---\nb: 2",
    "a list": "- a",
    "nothing": "",
    "only text": "hello",
    "a number as a name": "1: 2",
    "a list as a name": "[a]: 2",
    "like itself": "like: hostile.yaml",
    "like a device": "like: /dev/zero",
    "like a folder": "like: /",
    "a long line": "name: " + "x" * (2 << 20),
    "tabs": "a:\t- b\n\t- c",
    "a surrogate": "name: \"\\ud800\"",
    "no model": "like: tiny-arms-brier\nmodel: ''",
    "a model that ends a string": "like: tiny-arms-brier\nmodel: \"\\x00\"",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE_RECIPES)
def test_a_hostile_recipe_is_one_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / "hostile.yaml"
    path.write_text(HOSTILE_RECIPES[name], encoding="utf-8", errors="surrogatepass")
    with pytest.raises(RlcrError) as caught:
        load_recipe(str(path))
    assert len(one_line(str(caught.value))) < 2000


@pytest.mark.parametrize("text", ["[" * 5000, "\x00", "!!int x", "9" * 5000, "&a [*a]", "!!bool x"])
def test_a_hostile_value_on_the_command_line(text: str) -> None:
    with pytest.raises(RlcrError, match="is not a YAML value"):
        read_value(text)


# Secrets ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["HTTP://me:pass-word@host/v1", "hTTps://pass-word@host:1/v1"])
def test_the_password_of_an_address_is_hidden(url: str, tmp_path: Path) -> None:
    assert is_server(url)
    done = rlcr("eval", "--model", url, "--task", "arms", "--method", "rlcr", "--out", tmp_path / "x")
    expect_one_line(done, "must hold no password")
    assert "pass-word" not in done.stderr
    assert not (tmp_path / "x").exists()
    assert "pass-word" not in one_line(f"cannot open ftp://me:pass-word@host/x and {url}")


def test_a_traceback_is_shown_too() -> None:
    program = f"from rlcr.terminal import guard\nguard()\nraise ValueError({EVIL!r})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, timeout=60)
    assert b"\\x1b[2J" in done.stderr
    assert b"\x1b" not in done.stderr
