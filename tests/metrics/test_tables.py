"""One way to write a table: what hostile cells become in Markdown, LaTeX, CSV and plain text."""

import csv
import io

import pytest

from rlcr.metrics.tables import (
    Cell,
    Heading,
    Table,
    aligned_markdown,
    aligned_text,
    csv_text,
    estimate_cell,
    latex,
    markdown,
)


def test_tables_as_text() -> None:
    table = Table(
        "t",
        "A | title",
        (Heading("Run", numeric=False), Heading("ECE", "down", interval=True)),
        ((Cell("a_b|<i>&$\\"), Cell("0.100", 0.1, 0.05, 0.2, "best")), (Cell("=cmd()"), estimate_cell(None))),
    )
    assert markdown(table).splitlines()[2:6] == [
        "| Run | ECE ↓ |",
        "| --- | ---: |",
        "| a\\_b\\|\\<i\\>&\\$\\\\ | **0.100 [0.050, 0.200]** |",
        "| =cmd() | n/a |",
    ]
    assert (
        r"a\_b\textbar{}\textless{}i\textgreater{}\&\$\textbackslash{} & \textbf{0.100 [0.050, 0.200]} \\"
        in latex(table)
    )
    assert csv_text(table).splitlines() == [
        "Run,ECE,ECE low,ECE high",
        "a_b|<i>&$\\,0.1,0.05,0.2",
        "'=cmd(),,,",
    ]


def one(text: str) -> Table:
    return Table("t", "", (Heading("Run", numeric=False), Heading(text)), ((Cell(text), Cell("1", 1.0)),))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a|b", "a\\|b"),
        ("a\nb\r\n| c |", "a b \\| c \\|"),
        ("<script>", "\\<script\\>"),
        ("&lt;b&#62;", "&amp;lt;b&\\#62;"),
        ("R&D", "R&D"),
        ("[x](http://y)", "\\[x\\](http://y)"),
        ("`**bold**`", "\\`\\*\\*bold\\*\\*\\`"),
        ("0.1 [0.0, 0.2]", "0.1 [0.0, 0.2]"),
    ],
)
def test_markdown_of_hostile_cells(text: str, expected: str) -> None:
    lines = markdown(one(text)).splitlines()
    assert lines == [f"| Run | {expected} |", "| --- | ---: |", f"| {expected} | 1 |"]
    assert aligned_markdown(one(text)).count("\n") == 2
    absent = Table("t", text, (), (), missing=text)
    assert markdown(absent) == f"**{expected}**: {expected}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\nb % c", r"a b \% c"),
        ("[1] first", "{}[1] first"),
        ("*x", "{}*x"),
        ("a|b", r"a\textbar{}b"),
        ("Δ → ±", r"$\Delta$ $\to$ $\pm$"),
        (r"\input{x}", r"\textbackslash{}input\{x\}"),
    ],
)
def test_latex_of_hostile_cells(text: str, expected: str) -> None:
    assert latex(one(text)).splitlines()[4] == rf"{expected} & 1 \\"


@pytest.mark.parametrize("text", ["=cmd()", "+1+cmd", "-2+3", "@SUM(A1)", "\t=1", "\n=1", 'a,"b"\nc'])
def test_csv_of_hostile_cells(text: str) -> None:
    head, row = csv.reader(io.StringIO(csv_text(one(text)), newline=""))
    assert head[1] == row[0] == (text if text.startswith("a") else f"'{text}")


def test_negative_numbers_stay_numbers() -> None:
    table = Table("t", "", (Heading("x", interval=True),), ((estimate_cell(-0.5, -0.6, -0.4, sign=True),),))
    assert csv_text(table).splitlines()[1] == "-0.5,-0.6,-0.4"
    assert markdown(table).splitlines()[-1] == "| −0.500 [−0.600, −0.400] |"


def test_aligned_text() -> None:
    assert aligned_text([("name", "value"), ("x", "1")]) == ["name  value", "x     1"]
    table = Table("t", "", (Heading("", numeric=False), Heading("ECE", "down")), ((Cell("a"), Cell("0.1")),))
    assert aligned_markdown(table).splitlines() == ["|   | ECE |", "|---|----:|", "| a | 0.1 |"]
