"""Files that are whole or absent, their hashes, and the folder of things that can be made again."""

from __future__ import annotations

import fcntl
import glob
import hashlib
import io
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from rlcr.errors import RlcrError

_BLOCK = 1 << 20


def cache_folder() -> Path:
    """Where things are kept that can be made again: ``RLCR_CACHE``, else ``rlcr`` in the user's cache."""
    if given := os.environ.get("RLCR_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rlcr"


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
def new_file(path: Path, *, make_folder: bool = True) -> Iterator[IO[bytes]]:
    """Write a file beside ``path`` and move it there when the block ends without an error.

    Whatever goes wrong in writing is an RlcrError that names ``path``; other errors of the block pass.
    After any error there is nothing new, and what was at ``path`` before is still there. What a killed
    process left half written of the same file is removed.
    """
    with ExitStack() as held:
        with writing(path):
            if make_folder:
                path.parent.mkdir(parents=True, exist_ok=True)
            partial = held.enter_context(partial_of(path, lambda place: place.touch(exist_ok=False)))
            file = io.BufferedWriter(_Unbuffered(partial, path))
        with file:
            yield file
        with writing(path):
            os.replace(partial, path)


@contextmanager
def partial_of(path: Path, make: Callable[[Path], object]) -> Iterator[Path]:
    """A file or folder beside ``path`` to be written and then moved there; gone afterwards if it was not.

    It is locked meanwhile, so that what is not locked is known to be of a process that was killed: such are
    removed here. Other threads and processes may be writing the same; the last to finish wins.
    """
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.partial"):
        with suppress(OSError):
            _remove_unless_locked(left)
    while True:
        partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
        make(partial)
        try:
            descriptor = os.open(partial, os.O_RDONLY)
        except FileNotFoundError:
            continue  # removed before it was locked
        try:
            with suppress(OSError):  # some network file systems have no locks
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if partial.exists():
                yield partial
                return
        finally:
            os.close(descriptor)
            with suppress(OSError):  # mostly it was moved; and an error under way says more
                _remove(partial)


def _remove_unless_locked(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(path)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


class _Unbuffered(io.FileIO):
    """A new file that keeps errors of writing (a full disk) apart from those of making its content."""

    def __init__(self, partial: Path, path: Path) -> None:
        super().__init__(partial, "w")
        self._path = path

    def write(self, data: object, /) -> int:
        with writing(self._path):
            return super().write(data)  # pyright: ignore[reportArgumentType] (a buffer, says BufferedWriter)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError of writing (a full disk, no permission) into a line that names the file."""
    try:
        yield
    except OSError as error:
        raise RlcrError(f"{path}: cannot be written: {error.strerror or error}") from None
