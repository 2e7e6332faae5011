"""Rows from the Hugging Face hub, kept on disk so that the next call needs no network.

A download is one JSON Lines file in the cache, named after its commit and the hash of its own bytes: it is
whole or absent, and one whose bytes no longer fit its name is fetched again. ``datasets`` has a cache of its
own below; this one is asked first because it needs neither that library nor half a minute of retries to be
read offline, and because it wins over the hub: a task gives the same problems every time, even where "main"
has moved. Remove the file to follow it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError
from rlcr.files import cache_folder, file_sha256, new_file

_PATIENCE = 20  # seconds
_NAME = re.compile(r"(.+)\.([0-9a-f]{64})\.jsonl")


@dataclass(frozen=True)
class Download:
    """A file in the cache, and what it holds: ``hub:owner/name@commit/config/split``."""

    path: Path
    name: str


def download(
    hub_id: str, config: str | None, split: str, revision: str = "main", *, instead: str
) -> Download:
    """The rows of one split of a dataset, from the cache or else from the hub.

    ``instead`` ends the message where neither is available: what the user can do without the hub.
    """
    place = f"{config}/{split}" if config else split
    folder = cache_folder() / "hub" / hub_id.replace("/", "--") / place.replace("/", "--") / revision
    path = _stored(folder)
    if path is None:
        commit, rows = _fetch(hub_id, config, split, revision, instead)
        path = _store(folder, commit, _lines(rows, hub_id))
    commit = path.name.split(".")[0]
    return Download(path, f"hub:{hub_id}@{commit}/{place}")


def _fetch(hub_id: str, config: str | None, split: str, revision: str, instead: str) -> tuple[str, Any]:
    """The commit that the revision stands for, and the rows."""
    # Slow to import, and not a dependency of the core.
    try:
        from datasets import load_dataset
        from huggingface_hub import HfApi
    except ImportError:
        raise RlcrError(
            f"{hub_id}: reading from the Hugging Face hub needs the extra: pip install 'rlcr[hub]'; "
            f"or {instead}"
        ) from None
    try:
        # Asking first also finds out in one step whether the hub can be reached: load_dataset alone
        # tries for half a minute, in many lines.
        commit = HfApi().dataset_info(hub_id, revision=revision, timeout=_PATIENCE).sha or revision
        return commit, load_dataset(hub_id, config, split=split, revision=commit)
    except Exception as error:
        # The two libraries raise their own errors, those of their HTTP clients, and plain ones: no common
        # class short of this says "the hub did not give it".
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise RlcrError(f"{hub_id}: the Hugging Face hub did not give it ({reason}); {instead}") from error


def _lines(rows: Any, hub_id: str) -> Iterator[str]:
    empty = True
    for row in rows:
        yield json.dumps(dict(row), ensure_ascii=False, separators=(",", ":"), default=str) + "\n"
        empty = False
    if empty:
        raise RlcrError(f"{hub_id}: the dataset has no rows")


def _stored(folder: Path) -> Path | None:
    """A download in that folder whose bytes are what they were."""
    for path in sorted(folder.glob("*.jsonl")):
        match = _NAME.fullmatch(path.name)
        if match and file_sha256([path]) == match.group(2):
            return path
    return None


def _store(folder: Path, commit: str, lines: Iterable[str]) -> Path:
    digest = hashlib.sha256()
    # Its name holds its hash, known only at the end; until then it has another one.
    unnamed = folder / f"{commit}.{secrets.token_hex(4)}"
    with new_file(unnamed) as out:
        for line in lines:
            data = line.encode(errors="backslashreplace")  # half a character: as JSON escapes it
            digest.update(data)
            out.write(data)
    path = folder / f"{commit}.{digest.hexdigest()}.jsonl"
    os.replace(unnamed, path)
    return path
