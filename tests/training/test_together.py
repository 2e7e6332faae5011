"""One process of several ends: the others say so in one line."""

import contextlib
import os
import signal
from pathlib import Path
from unittest.mock import MagicMock

import pytest

import rlcr.training
from rlcr.cli.training import train
from rlcr.errors import RlcrError
from rlcr.training.together import ending_together

GLOO = "[pair.cc:553] Connection closed by peer [127.0.0.1]:40312"


@pytest.fixture
def of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")


@pytest.mark.usefixtures("of_two")
def test_a_broken_connection_is_one_line() -> None:
    with pytest.raises(RlcrError) as refused, ending_together():
        raise RuntimeError(f"{GLOO}\nand a long trace")
    assert str(refused.value).startswith("process 1 of 2: another process of this run has ended;")
    assert "--resume" in str(refused.value)
    assert "\n" not in str(refused.value)


def going_on_after_errors() -> None:
    """As anything on the way might."""
    with contextlib.suppress(Exception):
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()


@pytest.mark.usefixtures("of_two")
def test_the_launcher_ends_it() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit, match="rlcr: process 1 of 2: ended by its launcher"), ending_together():
        going_on_after_errors()
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.usefixtures("of_two")
@pytest.mark.parametrize(
    "error", [RuntimeError("shapes do not match"), RlcrError("no such folder"), ValueError("x")]
)
def test_other_errors_stay_what_they_are(error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)), ending_together():
        raise error


def test_alone_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    before = signal.getsignal(signal.SIGTERM)
    with ending_together():
        assert signal.getsignal(signal.SIGTERM) is before
    with pytest.raises(RuntimeError, match="Connection closed"), ending_together():
        raise RuntimeError(GLOO)


@pytest.mark.usefixtures("of_two")
def test_the_second_process_does_not_refuse_the_folder_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "training.json").write_text("{}")  # the first process has begun
    went_on = RlcrError("it went on")
    monkeypatch.setattr(rlcr.training, "train_run", MagicMock(side_effect=went_on))
    with pytest.raises(RlcrError, match="it went on"):
        train("tiny-arms-brier", out=tmp_path)
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(RlcrError, match="not empty"):
        train("tiny-arms-brier", out=tmp_path)
