"""Shared fixtures."""

import os
import signal
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
