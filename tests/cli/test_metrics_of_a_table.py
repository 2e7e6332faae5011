"""`rlcr metrics` on a table of one's own: the usual names need no options, and percentages are read as such."""

import json
from pathlib import Path

import pytest
from tests.command import expect_one_line, rlcr

ROWS = [(1, 90), (0, 40), (1, 80), (1, 55), (0, 60), (0, 5)]


def table(path: Path, correct: str = "correct", confidence: str = "confidence", scale: float = 0.01) -> Path:
    lines = [f"{correct},{confidence}", *(f"{right},{stated * scale:g}" for right, stated in ROWS)]
    path.write_text("\n".join(lines))
    return path


def test_columns_of_the_usual_names_need_no_options(tmp_path: Path) -> None:
    usual = rlcr("metrics", table(tmp_path / "a.csv"), "--json")
    named = rlcr(
        "metrics", table(tmp_path / "b.csv", "ok", "q"), "--correct", "ok", "--confidence", "q", "--json"
    )
    assert usual.returncode == 0, usual.stderr
    assert usual.stdout == named.stdout
    assert json.loads(usual.stdout)["metrics"]["accuracy"]["value"] == 0.5


def test_a_table_with_other_names_is_asked_about_them(tmp_path: Path) -> None:
    other = table(tmp_path / "t.csv", "ok", "q")
    expect_one_line(
        rlcr("metrics", other), "no column 'correct'; known: ok, q; say which column it is: --correct COL"
    )
    expect_one_line(
        rlcr("metrics", other, "--correct", "ok"),
        "no column 'confidence'; known: ok, q; say which column it is: --confidence COL",
    )
    given = rlcr("metrics", other, "--correct", "correct")
    assert "say which column" not in given.stderr


def test_percentages(tmp_path: Path) -> None:
    shares = rlcr("metrics", table(tmp_path / "a.csv"), "--json")
    percentages = rlcr("metrics", table(tmp_path / "b.csv", scale=1), "--percent", "--json")
    assert percentages.returncode == 0, percentages.stderr
    assert percentages.stdout == shares.stdout
    signs = tmp_path / "c.csv"
    signs.write_text("\n".join(["correct,confidence", *(f"{right},{stated}%" for right, stated in ROWS)]))
    assert rlcr("metrics", signs, "--percent", "--json").stdout == shares.stdout


@pytest.mark.parametrize(
    ("scale", "options", "message"),
    [
        (
            1,
            (),
            "line 2, column confidence: confidence 90 is outside [0, 1] (a percentage? --percent reads",
        ),
        (2, ("--percent",), "line 2, column confidence: confidence 180 is outside [0, 100]"),
        (0.01, ("--percent",), "no confidence is above 1, so these are no percentages; leave out --percent"),
    ],
)
def test_numbers_that_cannot_be_what_they_are_said_to_be(
    scale: float, options: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    expect_one_line(rlcr("metrics", table(tmp_path / "t.csv", scale=scale), *options), message)
