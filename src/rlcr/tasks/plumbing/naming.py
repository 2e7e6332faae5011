"""What a task is called: its own name, or of a file of built problems its stem, unless the user gives a name.

--task data/svamp.jsonl               svamp
--task words=data/3/test.jsonl        words
--task a/test.jsonl,b/test.jsonl      a/test and b/test
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rlcr.errors import RlcrError

_ENDINGS = (".jsonl", ".jsonl.gz")
_NAME = re.compile(r"[\w.+-]+")


def is_built_file(name: str) -> bool:
    """Whether a name means a file of built problems rather than a task."""
    return name.endswith(_ENDINGS)


def built_file(name: str) -> tuple[str, Path]:
    """The name and the path of a file of built problems, given as PATH or as NAME=PATH.

    >>> built_file("data/svamp.jsonl.gz")[0], built_file("words=data/test.jsonl")[0]
    ('svamp', 'words')
    """
    given, equals, path = name.partition("=")
    if equals and _NAME.fullmatch(given) and not Path(name).exists():
        return given, Path(path)
    return Path(name).name.removesuffix(".gz").removesuffix(".jsonl"), Path(name)


def named_apart(names: Sequence[str]) -> list[str]:
    """What several tasks are called: files of one stem by as much of their paths as tells them apart.

    >>> named_apart(["gsm8k", "a/test.jsonl", "b/test.jsonl", "a/train.jsonl"])
    ['gsm8k', 'a/test', 'b/test', 'train']
    """
    parts = [_parts(name) for name in names]
    called = [some[-1] for some in parts]
    for depth in range(2, max(map(len, parts), default=0) + 1):
        counts = Counter(called)
        called = [
            "/".join(some[-depth:]) if counts[one] > 1 else one
            for some, one in zip(parts, called, strict=True)
        ]
    if len(set(called)) < len(called):
        raise RlcrError(f"a task is named twice: {', '.join(called)}; a file can be named, NAME=FILE.jsonl")
    return called


def _parts(name: str) -> tuple[str, ...]:
    """A name and, where it is the stem of a file, the folders that may be put before it."""
    if not is_built_file(name):
        return (name,)
    called, path = built_file(name)
    return (*path.parent.parts, called) if path == Path(name) else (called,)
