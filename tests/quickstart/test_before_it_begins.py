"""What the quickstart refuses before it has done or written anything, in one line."""

from pathlib import Path

from tests.command import expect_one_line, rlcr


def test_without_torch_it_says_what_to_install(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = rlcr("quickstart", "--out", out, without=("torch", "trl"))
    expect_one_line(
        result,
        "the quickstart needs torch, trl, which are not installed: install the build of torch for your"
        ' hardware (pytorch.org), then pip install "rlcr[train]"',
    )
    assert not out.exists()


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    thesis = tmp_path / "thesis.tex"
    thesis.write_text("dear to somebody")
    expect_one_line(rlcr("quickstart", "--out", thesis), "thesis.tex: is a file, and --out is a folder")
    expect_one_line(rlcr("quickstart", "--out", thesis / "runs"), "cannot be written: Not a directory")
    assert thesis.read_text() == "dear to somebody"
