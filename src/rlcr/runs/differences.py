"""A run is resumed only with the settings it began with: how others are refused."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError


def check_same(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise if what lies in a folder was begun with other settings, and list them."""
    if changed := differences(before, now):
        raise RlcrError(f"{folder}: cannot be resumed with other settings: {'; '.join(changed)}")


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What has changed since settings were stored as JSON, one entry for each.

    >>> differences({"lr": 0.1, "lora": {"rank": 4}}, {"lr": 0.1, "lora": {"rank": 8}})
    ['lora.rank was 4, is 8']
    """
    return list(_differences(before, json.loads(json.dumps(now))))


def _differences(old: Any, new: Any, name: str = "") -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from _differences(old.get(key), new.get(key), f"{name}.{key}" if name else key)
    elif old != new:
        yield f"{name} was {_short(old)}, is {_short(new)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:59] + "…"
