"""Where the problem of an id is in its file: an index of places, grown while it is being used."""

from __future__ import annotations

import json
from array import array
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

_BLOCK = 1 << 20


class ProblemIndex:
    """The problems of a run by their ids, each read from its file when it is asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._hashes, self._offsets = array("q"), array("q")
        self._position = 0
        self._lock = Lock()

    def read(self) -> bool:
        """Read on, a block of whole lines. False where there are none."""
        with self._lock:
            try:
                with open(self.path, "rb") as file:
                    file.seek(self._position)
                    lines = file.readlines(_BLOCK)
            except OSError:
                return False
            if lines and not lines[-1].endswith(b"\n"):
                lines.pop()
            for line in lines:
                problem = _object(line)
                if problem is not None:
                    self._hashes.append(hash(problem.get("id")))
                    self._offsets.append(self._position)
                self._position += len(line)
            return bool(lines)

    def find(self, name: str) -> dict[str, Any] | None:
        """The problem of an id, as far as the file has been read."""
        with self._lock:
            places = np.flatnonzero(np.frombuffer(self._hashes, np.int64) == hash(name))
            offsets = [self._offsets[place] for place in places]
        for offset in offsets:
            try:
                with open(self.path, "rb") as file:
                    file.seek(offset)
                    problem = _object(file.readline())
            except OSError:
                return None
            if problem is not None and problem.get("id") == name:
                return problem
        return None


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and isinstance(value.get("id"), str) else None
