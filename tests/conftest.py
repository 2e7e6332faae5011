"""Shared fixtures."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

# A shell lets what it starts in the background ignore Ctrl-C, and so would the programs that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The real data sets and stored model outputs, where they lie beside the checkout; skips otherwise."""
    folder = Path(os.environ.get("RLCR_DATA") or Path(__file__).parents[2] / "shared" / "data")
    if not folder.is_dir():
        pytest.skip("the shared data is not here (set RLCR_DATA to its folder)")
    return folder


@pytest.fixture(autouse=True, scope="module")
def _no_server_left() -> Iterator[None]:
    """A server whose socket was closed and whose loop was not ended spins, and slows down every later test."""
    yield
    left = [thread.name for thread in threading.enumerate() if "serve_forever" in thread.name]
    assert not left, f"still serving: {left}"
