"""Small sources, made on the spot."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

Write = Callable[[str, Iterable[dict[str, Any]]], Path]


@pytest.fixture(autouse=True)
def own_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads the user's data directory by accident, or writes to the user's cache."""
    monkeypatch.delenv("RLCR_DATA", raising=False)
    monkeypatch.setenv("RLCR_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.mkdir()
    return path


@pytest.fixture
def write(data_dir: Path) -> Write:
    """Write rows as a JSON Lines file of the data directory."""

    def write_rows(name: str, rows: Iterable[dict[str, Any]]) -> Path:
        path = data_dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    return write_rows
