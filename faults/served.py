"""Commands that serve until they are told to end: `rlcr view` and `rlcr serve-reward`."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from faults.commands import Command

SOON = 300.0


class Serving(Command):
    """A command that says its address in its first line; ``url`` is that address."""

    def __init__(
        self, arguments: Sequence[object], log: Path, first: Callable[[], None] | None = None
    ) -> None:
        super().__init__(arguments, log, first)
        self._said = log.with_suffix(".out")

    def url(self) -> str:
        """Wait until it serves; empty if it ended before that."""
        deadline = time.monotonic() + SOON
        while time.monotonic() < deadline and self.running:
            words = self._said.read_text().partition("\n") if self._said.exists() else ("", "", "")
            if words[1]:
                return next(word for word in words[0].split() if word.startswith("http")).rstrip("/")
            time.sleep(0.02)
        return ""


def ask(url: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> bytes:
    """The headers and the content of a reply, whatever its status."""
    request = urllib.request.Request(url, body, headers or {})
    try:
        with urllib.request.urlopen(request, timeout=SOON) as reply:
            return str(reply.headers).encode() + reply.read()
    except urllib.error.HTTPError as error:
        return str(error.headers).encode() + error.read()
