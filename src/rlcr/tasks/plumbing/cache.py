"""Files that save work: downloads and built sets, each named by what it is and by the hash of its own bytes.

A file is written beside its place and moved there, so it is whole or absent; one whose bytes no longer fit
its name is made anew. Any of them may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Iterable
from pathlib import Path

from rlcr.files import file_sha256, new_file

_NAME = re.compile(r"(.+)\.([0-9a-f]{64})\.jsonl")


def find(folder: Path, name: str = "*") -> Path | None:
    """A file stored under that name, by default under any, whose bytes are what they were."""
    for path in sorted(folder.glob(f"{name}.*.jsonl")):
        match = _NAME.fullmatch(path.name)
        if match and file_sha256([path]) == match.group(2):
            return path
    return None


def store(folder: Path, name: str, lines: Iterable[str]) -> Path:
    """Write lines of JSON into a file that :func:`find` will find."""
    digest = hashlib.sha256()
    # Its name holds its hash, known only at the end; till then it has one that nobody looks for.
    unnamed = folder / f"{name}.{secrets.token_hex(4)}"
    with new_file(unnamed) as out:
        for line in lines:
            data = line.encode(errors="backslashreplace")  # half a character: as JSON escapes it
            digest.update(data)
            out.write(data)
    path = folder / f"{name}.{digest.hexdigest()}.jsonl"
    os.replace(unnamed, path)
    return path
