"""Files that are whole or absent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlcr.errors import RlcrError
from rlcr.files import cache_folder, file_sha256, new_file


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_it_appears_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "out.txt"
    with new_file(path) as out:
        out.write(b"one")
        (partial,) = names(path.parent)
        assert partial.startswith(".out.txt.")
        assert partial.endswith(".partial")
    assert path.read_bytes() == b"one"
    assert names(path.parent) == ["out.txt"]
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask


@pytest.mark.parametrize("error", [OSError("the source is gone"), KeyboardInterrupt()])
def test_an_error_of_the_writer_passes_and_leaves_the_earlier_file(
    tmp_path: Path, error: BaseException
) -> None:
    path = tmp_path / "out.txt"
    path.write_text("earlier")

    def write() -> None:
        with new_file(path) as out:
            out.write(b"new")
            raise error

    with pytest.raises(type(error)) as caught:
        write()
    assert caught.value is error
    assert path.read_text() == "earlier"
    assert names(tmp_path) == ["out.txt"]


def test_what_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(RlcrError, match="file/out: cannot be written"), new_file(tmp_path / "file" / "out"):
        pass
    with pytest.raises(RlcrError, match="folder: cannot be written"), new_file(tmp_path / "folder"):
        pass
    absent = tmp_path / "absent" / "out"
    with pytest.raises(RlcrError, match="cannot be written"), new_file(absent, make_folder=False):
        pass
    assert names(tmp_path) == ["file", "folder"]


@pytest.mark.parametrize("size", [10, 100_000], ids=["when it is closed", "while it is written"])
def test_a_full_disk(tmp_path: Path, size: int) -> None:
    code = f"""if True:
        import resource
        from pathlib import Path
        from rlcr.errors import RlcrError
        from rlcr.files import new_file
        resource.setrlimit(resource.RLIMIT_FSIZE, (5, 5))
        try:
            with new_file(Path("out.txt")) as out:
                for _ in range(5):
                    out.write(b"x" * {size})
        except RlcrError as error:
            print(error)
    """
    run = [sys.executable, "-c", code]
    result = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert result.stdout == "out.txt: cannot be written: File too large\n"
    assert names(tmp_path) == []


def test_the_hash_is_that_of_all_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"ab")
    (tmp_path / "b").write_bytes(b"c")
    abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert file_sha256([tmp_path / "a", tmp_path / "b"]) == abc
    with pytest.raises(RlcrError, match="absent: cannot be read"):
        file_sha256([tmp_path / "absent"])


def test_the_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLCR_CACHE", "given")
    assert cache_folder() == Path("given")
    monkeypatch.delenv("RLCR_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "users")
    assert cache_folder() == Path("users", "rlcr")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "rlcr"
