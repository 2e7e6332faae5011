"""Hostile text in every field that others write, through every command: it is shown, and nothing obeys it.

The places where text could be taken for something else: a shell, code, a format string, a template, a file
name, a terminal, a spreadsheet, LaTeX, markup. docs/reliability.md says which test covers which.
"""

from __future__ import annotations

import ast
import csv
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from faults.commands import Ended, import_beforehand, run
from faults.hostile_server import Asked, HostileServer, choice, http
from tests.report.hostile import NASTY

import rlcr
from rlcr.problem import Problem
from rlcr.tasks import write_problems

PACKAGE = Path(rlcr.__file__).parent
#: Each is a command for one of the places; all of them would make the file `sprung`, or show 7777777.
TRAPS = (
    "$(touch sprung) `touch sprung`; touch sprung #",
    "__import__('os').system('touch sprung')",
    "{0.__class__.__init__.__globals__} {self} {} %s %(name)s %n",
    "{{ 1111111 * 7 }} {% for x in ().__class__.__base__.__subclasses__() %}{% endfor %} ${1111111*7}",
    "../../../sprung",
    "\x1b]0;owned\x07\x1b[2J\r\u202e",
    "=cmd|' /C touch sprung'!A0",
    "\\immediate\\write18{touch sprung} \\input{/etc/passwd} % & # _ ^",
    NASTY,
)
OBEYED = ("\x1b", "\x07", "\r", "\u202e")


def _lines(folder: Path) -> Path:
    rows = [
        {
            "id": f"{trap}-{n}", "question": trap, "gold": [trap], "text": f"<think>{trap}</think><answer>{trap}</answer>"
            f"<analysis>{trap}</analysis><confidence>0.{n}</confidence>", "group": trap, trap: trap,
        }
        for n, trap in enumerate(TRAPS)
    ]  # fmt: skip
    path = folder / "table.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


class _Page(HTMLParser):
    """The elements of a page, with attributes that are code, and what its own scripts hold."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts, self.handlers = 0, list[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        self.handlers += [
            name for name, value in attrs if name.startswith("on") or "javascript:" in (value or "")
        ]


def _look(folder: Path, ended: list[Ended]) -> None:
    """What must be so after any command."""
    for one in ended:
        assert not one.fault, one.errors
        shown = one.output + one.errors
        assert not any(mark in shown for mark in OBEYED), shown
        assert "7777777" not in shown
    assert not list(folder.rglob("sprung*"))
    assert not Path("sprung").exists()
    assert not (folder.parent / "sprung").exists()
    for path in folder.rglob("*"):
        assert re.fullmatch(r"[\w. -]+", path.name), f"text has become the name of {path}"
    for path in folder.rglob("*"):
        if path.suffix in (".md", ".tex", ".csv", ".html"):
            text = path.read_text()
            assert "7777777" not in text, path
            assert path.suffix == ".html" or not any(mark in text for mark in OBEYED), path
    for path in folder.rglob("*.tex"):
        assert not re.search(r"\\(immediate|write18|input)", path.read_text()), path
    for path in folder.rglob("*.csv"):
        for row in csv.reader(path.read_text().splitlines()):
            assert not any(cell.lstrip().startswith(("=", "@", "+cmd", "-cmd")) for cell in row), row


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    import_beforehand(torch=False)


def test_text_of_a_table_through_every_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "all"
    folder.mkdir()
    monkeypatch.chdir(folder)
    table, out = _lines(folder), folder / "run"
    names = ["--completion", "text", "--gold", "gold", "--question", "question", "--id", "id"]
    commands: list[list[object]] = [
        ["import", table, *names, "--model", TRAPS[0], "--task", TRAPS[4], "--out", out],
        ["rescore", out],
        ["metrics", out, "--by", "group"],
        ["metrics", out, "--by", TRAPS[2]],
        ["vote", out],
        ["coherence", out],
        ["confidence", "add", "agreement", out],
        ["confidence", "add", TRAPS[4], out],
        ["compare", out, out],
        ["select", out],
        ["runs", folder],
        ["export", out, "--out", folder / "exported"],
        [
            "score",
            table,
            "--completion",
            "text",
            "--gold",
            "gold",
            "--id",
            "id",
            "--out",
            folder / "scored.jsonl",
        ],
        [
            "tasks",
            "show",
            "file",
            "--set",
            f"path={table}",
            "--set",
            "gold=gold",
            "--set",
            "question=question",
        ],
        ["report", out, "--out", folder / "report.html", "--figures", folder / "figures"],
    ]
    ended = [run(command, tmp_path / "log") for command in commands]
    assert [one.last_line for one in (ended[0], ended[1], ended[-1]) if one.status] == []
    _look(folder, ended)
    page = _Page((folder / "report.html").read_text())
    own = _Page((PACKAGE / "report" / "page" / "page.html").read_text()).scripts
    assert page.handlers == []
    assert page.scripts <= own


def test_text_of_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In completions, names of models, reasons for failures, and errors."""
    folder = tmp_path / "all"
    folder.mkdir()
    monkeypatch.chdir(folder)
    task = folder / "task.jsonl"
    write_problems(task, [Problem(f"p{n}", trap, (trap,), "exact") for n, trap in enumerate(TRAPS)])

    def evil(asked: Asked) -> Iterator[bytes]:
        trap = next((one for one in TRAPS if one in asked.question), TRAPS[0])
        one = choice(asked)
        one["message"]["content"] = (
            f"<think>{trap}</think><answer>{trap}</answer><confidence>{trap}</confidence>"
        )
        one["finish_reason"] = trap
        yield http(json.dumps({"model": trap, "id": trap, "choices": [one], "usage": {trap: trap}}).encode())

    def refuses(_: Asked) -> Iterator[bytes]:
        yield http(json.dumps({"error": {"message": TRAPS[5] + TRAPS[8]}}).encode(), "400 No")

    with HostileServer(evil) as server:
        begin = ["eval", "--model", f"{server.url}#tiny", "--task", task, "--method", "rlcr", "--out"]
        ended = [run([*begin, folder / "run"], tmp_path / "log")]
        assert ended[0].status == 0, ended[0].errors
        server.behave = refuses
        ended.append(run([*begin, folder / "refused"], tmp_path / "log"))
        ended.append(run(["report", folder / "run", "--out", folder / "report.html"], tmp_path / "log"))
    _look(folder, ended)
    assert _Page((folder / "report.html").read_text()).handlers == []


def _calls() -> list[tuple[str, ast.Call]]:
    found = []
    for path in PACKAGE.rglob("*.py"):
        if not path.is_relative_to(PACKAGE / "adapters" / "examples"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found += [
                (f"{path.relative_to(PACKAGE)}:{n.lineno}", n)
                for n in ast.walk(tree)
                if isinstance(n, ast.Call)
            ]
    return found


#: Two whose text is one of a literal table of the same module.
_FROM_TABLES = ("training/collapse.py", "training/progress.py")


def _is_own_text(inner: ast.expr, where: str) -> bool:
    """A literal, a constant by its name, or the method of a logging formatter."""
    source = ast.unparse(inner)
    return (
        isinstance(inner, ast.Constant)
        or source.rpartition(".")[2].lstrip("_").isupper()
        or source.startswith("super()")
        or where.startswith(_FROM_TABLES)
    )


def test_only_texts_of_the_package_are_formats_and_programs() -> None:
    """``.format`` is called on our own texts, processes get lists, and no shell and no unpickling is asked for."""
    wrong = []
    for where, call in _calls():
        name = ast.unparse(call.func)
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("format", "format_map"):
            if not _is_own_text(call.func.value, where):
                wrong.append(f"{where}: {ast.unparse(call)[:80]}")
        elif name.startswith("subprocess.") and call.args:
            if isinstance(call.args[0], ast.JoinedStr | ast.Constant):
                wrong.append(f"{where}: a text as a command")
        elif name in ("os.system", "os.popen", "eval", "exec", "compile") or name.startswith(
            ("pickle.", "marshal.", "dill.", "shelve.")
        ):
            wrong.append(f"{where}: {name}")
    assert wrong == []
