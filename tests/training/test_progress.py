"""What is shown while a model trains: a bar on a terminal, few plain lines in a pipe."""

import os
import pty
import re
import sys
import threading
from typing import Any

import pytest

from rlcr.training.progress import TrainingProgress


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def line(update: int, **values: Any) -> dict[str, Any]:
    return {"update": update, "reward": 0.612, "accuracy": 0.33, "ece": 0.118, "tokens_mean": 45.4} | values


def test_lines_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    progress = TrainingProgress(100, 312, clock=clock)
    for update in range(101, 111):
        clock.now += 7.0
        progress.updated(line(update))
        if update == 104:
            progress.warn("entropy is gone [now]")
    progress.close()
    out, err = capsys.readouterr()
    assert out == ""
    status = "reward 0.61 · accuracy 0.33 · ECE 0.12 · 45 tokens"
    assert err.splitlines() == [
        "warning: entropy is gone [now]",
        f"update 105 of 312, 0:00:35 elapsed, 0:24:09 left, {status}",
        f"update 110 of 312, 0:01:10 elapsed, 0:23:34 left, {status}",
    ]


def test_the_last_state_is_shown_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    progress = TrainingProgress(0, 2, clock=Clock())
    progress.updated(line(1))
    progress.updated(line(2, ece=None, reward=None))
    progress.close()
    expected = "update 2 of 2, 0:00:00 elapsed, 0:00:00 left, accuracy 0.33 · 45 tokens\n"
    assert capsys.readouterr().err == expected


def test_nothing_to_say(capsys: pytest.CaptureFixture[str]) -> None:
    TrainingProgress(3, 3).close()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("columns", [80, 120])
def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))
    for name in ("NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    master, terminal = pty.openpty()
    shown = bytearray()

    def read() -> None:
        try:
            while block := os.read(master, 4096):
                shown.extend(block)
        except OSError:  # the other end was closed
            pass

    reader = threading.Thread(target=read)
    reader.start()
    with os.fdopen(terminal, "w", encoding="utf-8") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        progress = TrainingProgress(2, 10)
        progress.updated(line(3))
        progress.warn("one [confidence] value")
        progress.updated(line(10))
        progress.close()
        assert sys.stderr is stderr
    reader.join()
    os.close(master)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode())
    assert "warning: one [confidence] value\r\n" in text
    assert "10/10" in text
    assert "reward 0.61 · accuracy 0.33 · ECE 0.12 · 45 tokens" in text.splitlines()[-1]
    assert shown.decode().rstrip().endswith("\x1b[?25h"), "the cursor is back"
