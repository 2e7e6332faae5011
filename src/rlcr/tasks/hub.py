"""Rows from the Hugging Face hub, kept on disk so that the next call needs no network.

A download is one JSON Lines file in the cache (``RLCR_CACHE``, else ``rlcr`` in the user's cache
directory), named after the commit it came from and the hash of its own bytes. It is written beside its
place and moved there, so it is whole or absent; one whose bytes no longer fit its name is fetched anew.

What is in the cache wins over the hub: a task gives the same problems every time, even where "main" has
moved. Remove the file to follow it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError
from rlcr.tasks.files import file_sha256, new_file

_CACHED = re.compile(r"([0-9a-zA-Z._-]+)\.([0-9a-f]{64})\.jsonl")

_PATIENCE = 20  # seconds


@dataclass(frozen=True)
class Download:
    """A file in the cache, and what it holds: ``hub:owner/name@commit/config/split``."""

    path: Path
    name: str


def cache_dir() -> Path:
    """Where downloads are kept."""
    if given := os.environ.get("RLCR_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rlcr"


def download(
    hub_id: str, config: str | None, split: str, revision: str = "main", *, instead: str
) -> Download:
    """The rows of one split of a dataset, from the cache or else from the hub.

    ``instead`` ends the message where neither can be had: what the user can do without the hub.
    """
    place = f"{config}/{split}" if config else split
    folder = cache_dir() / "hub" / hub_id.replace("/", "--") / place.replace("/", "--") / revision
    cached = _cached(folder)
    if cached is None:
        commit, rows = _fetch(hub_id, config, split, revision, instead)
        cached = _store(folder, commit, rows, hub_id)
    commit = cached.name.split(".")[0]
    return Download(cached, f"hub:{hub_id}@{commit}/{place}")


def _cached(folder: Path) -> Path | None:
    for path in sorted(folder.glob("*.jsonl")):
        match = _CACHED.fullmatch(path.name)
        if match and file_sha256([path]) == match.group(2):
            return path
    return None


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


def _store(folder: Path, commit: str, rows: Iterable[Mapping[str, Any]], hub_id: str) -> Path:
    digest = hashlib.sha256()
    # Its name holds its hash, known only at the end; the process id keeps two downloads apart till then.
    unnamed = folder / f"{commit}.{os.getpid()}.part"
    with new_file(unnamed) as out:
        for row in rows:
            line = json.dumps(dict(row), ensure_ascii=False, separators=(",", ":"), default=str) + "\n"
            data = line.encode("utf-8", "surrogatepass")
            digest.update(data)
            out.write(data)
        if out.tell() == 0:
            raise RlcrError(f"{hub_id}: the dataset has no rows")
    path = folder / f"{commit}.{digest.hexdigest()}.jsonl"
    os.replace(unnamed, path)
    return path
