"""Rows from the Hugging Face hub, kept on disk so that the next call needs no network.

A download is one JSON Lines file in the cache (:mod:`rlcr.tasks.plumbing.cache`), named after its commit.

What is in the cache wins over the hub: a task gives the same problems every time, even where "main" has
moved. Remove the file to follow it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError
from rlcr.files import cache_folder
from rlcr.tasks.plumbing import cache

_PATIENCE = 20  # seconds


@dataclass(frozen=True)
class Download:
    """A file in the cache, and what it holds: ``hub:owner/name@commit/config/split``."""

    path: Path
    name: str


def download(
    hub_id: str, config: str | None, split: str, revision: str = "main", *, instead: str
) -> Download:
    """The rows of one split of a dataset, from the cache or else from the hub.

    ``instead`` ends the message where neither can be had: what the user can do without the hub.
    """
    place = f"{config}/{split}" if config else split
    folder = cache_folder() / "hub" / hub_id.replace("/", "--") / place.replace("/", "--") / revision
    path = cache.find(folder)
    if path is None:
        commit, rows = _fetch(hub_id, config, split, revision, instead)
        path = cache.store(folder, commit, _lines(rows, hub_id))
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
