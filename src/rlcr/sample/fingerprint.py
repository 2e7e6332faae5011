"""Which weights are these? A hash that tells two models of one name apart, without reading all of them.

It covers the names and sizes of the files that decide what a model writes, and bytes spread over each: two
checkpoints of one training run differ everywhere, and a copy of a folder has the same fingerprint.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from rlcr.errors import RlcrError

_WEIGHTS = (".safetensors", ".bin", ".pt", ".gguf")
_OTHERS = (
    "config.json",
    "generation_config.json",
    "adapter_config.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "chat_template.jinja",
)
_PIECES, _PIECE = 64, 4096


def fingerprint(place: Path) -> str:
    """16 hexadecimal digits for a folder of a model or an adapter, or a file of weights."""
    digest = hashlib.sha256()
    try:
        for path in [place] if place.is_file() else _files(place):
            size = path.stat().st_size
            digest.update(f"{path.name}\0{size}\0".encode("utf-8", "surrogateescape"))
            with open(path, "rb") as file:
                for start in _starts(size):
                    file.seek(start)
                    digest.update(file.read(_PIECE))
    except OSError as error:
        raise RlcrError(f"{place}: cannot be read: {error.strerror}") from None
    return digest.hexdigest()[:16]


def _files(folder: Path) -> Iterator[Path]:
    for name in sorted(os.listdir(folder)):
        if name in _OTHERS or name.endswith(_WEIGHTS):
            yield folder / name


def _starts(size: int) -> list[int]:
    """Where to read: everywhere in a small file, else at even distances from the first to the last byte."""
    if size <= _PIECES * _PIECE:
        return list(range(0, size, _PIECE))
    return [(size - _PIECE) * piece // (_PIECES - 1) for piece in range(_PIECES)]
