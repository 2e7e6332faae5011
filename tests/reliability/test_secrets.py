"""Keys and passwords: planted in environments, addresses and replies, and found in nothing that comes out."""

from pathlib import Path

import pytest
from faults import secrets
from faults.commands import import_beforehand
from faults.fault import Outcome

from rlcr.terminal import hide, secret_variables


@pytest.mark.parametrize("number", range(secrets.FAULTS["secrets"].trials))
def test_no_secret_comes_out(number: int, tmp_path: Path) -> None:
    import_beforehand(torch=False)
    with secrets.FAULTS["secrets"].prepare(tmp_path) as trial:
        own = tmp_path / "own"
        own.mkdir()
        outcome = trial(own, number)
    assert outcome.notes == []
    assert outcome.counted["outputs searched"] > 1


def test_a_secret_that_comes_out_is_found(tmp_path: Path) -> None:
    """In a file, a packed file, the name of a file, coded, and in what is said."""
    import base64
    import gzip

    (tmp_path / "plain.txt").write_text(f"x{secrets.KEY}x")
    (tmp_path / "packed.gz").write_bytes(gzip.compress(secrets.TOKEN.encode()))
    (tmp_path / f"{secrets.PASSWORD}.txt").write_text("")
    (tmp_path / "coded.txt").write_bytes(base64.b64encode(f"me:{secrets.PASSWORD}".encode()))
    (tmp_path / "clean.txt").write_text("nothing")
    search = secrets.Search(tmp_path, Outcome())
    search.heard("a reply", secrets.KEY.encode())
    found = ["a reply", "coded.txt", "packed.gz", "plain.txt", "the name of a file"]
    assert sorted(search.leaks()) == found


def test_what_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "a-long-enough-secret")
    monkeypatch.setenv("OTHER_TOKEN", "EMPTY")
    monkeypatch.setenv("HTTPS_PROXY", "http://me:another-password@proxy:3128")
    assert {"SOME_API_KEY", "OTHER_TOKEN"} <= set(secret_variables())
    assert hide("Bearer a-long-enough-secret, EMPTY") == "Bearer [hidden], EMPTY"
    assert hide("407 for another-password") == "407 for [hidden]"
    for text in (
        "http://me:pass-word@host/v1", "http://me:a/pass-word@host", "http://me:a@pass-word@host/v1",
        "me:pass-word@host/v1", "http:/pass-word@host/v1", "http:/me:a/pass-word@host/v1", "https://h/v1?key=pass-word", "https://h/v1?n=1&access_token=pass-word#x",
    ):  # fmt: skip
        assert "pass-word" not in hide(text), text
    for plain in (
        "records.jsonl, line 3: http://host:8000/v1#name has 12:30 <a@b.c> at x:1",
        "git+https://host/org/x@v1", "http://host:8000/v1#org/m@rev", "https://host/@me/x", "http://[::1]:8000/v1#m@rev", "https://host?to=a@b.c",
    ):  # fmt: skip
        assert hide(plain) == plain
