"""Files that are whole or absent, and their hashes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

from rlcr.errors import RlcrError

_BLOCK = 1 << 20


def file_sha256(paths: Iterable[Path]) -> str:
    """The hash of the files' bytes, one after the other."""
    digest = hashlib.sha256()
    for path in paths:
        try:
            with open(path, "rb") as file:
                while block := file.read(_BLOCK):
                    digest.update(block)
        except OSError as error:
            raise RlcrError(f"{path}: cannot be read: {error.strerror}") from None
    return digest.hexdigest()


@contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """Write a file beside ``path`` and move it there when the block ends without an error."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False)  # noqa: SIM115
    except OSError as error:
        raise RlcrError(f"{path}: cannot be written: {error.strerror}") from None
    try:
        with temporary as out:
            yield out
        os.chmod(temporary.name, 0o666 & ~_umask())  # temporary files are private; results are not
        os.replace(temporary.name, path)
    except BaseException:
        Path(temporary.name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
