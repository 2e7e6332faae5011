"""How runs, models and places are called in a page that people share: never by whole paths."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

# Two folders at least, so that a lone slash in a sentence stays; an address has its slashes after a colon.
_POSIX_PATH = re.compile(r"(?<![\w/:.~…])~?(?:/[^\s/:;,'\"`()<>]+){2,}/?")
_PARTS_OF_RUNS = ("train", "eval")
_WINDOWS_PATH = re.compile(r"(?<!\w)[A-Za-z]:\\(?:[^\s\\:;,'\"`()<>]+\\?)+")


def without_folders(text: str) -> str:
    r"""A text of ours in which whole paths are shortened to their last two parts.

    >>> without_folders("`rlcr rescore /home/ada/runs/rlcr/eval` makes it again")
    '`rlcr rescore …/rlcr/eval` makes it again'
    >>> without_folders("either/or, 1/2, http://127.0.0.1:80/v1/x and runs/rlcr")
    'either/or, 1/2, http://127.0.0.1:80/v1/x and runs/rlcr'
    >>> without_folders(r"C:\Users\ada\runs\rlcr is empty")
    '…/runs/rlcr is empty'
    """

    def last_two(match: re.Match[str]) -> str:
        parts = [part for part in re.split(r"[/\\]", match.group().lstrip("~")) if part]
        return "/".join(["…", *parts[-2:]]) if len(parts) > 2 else f"…/{parts[-1]}"

    return _WINDOWS_PATH.sub(last_two, _POSIX_PATH.sub(last_two, text))


def shown_path(folder: Path) -> str:
    """A folder as it was named, unless that would tell where on a machine it lies.

    >>> shown_path(Path("runs/rlcr")), shown_path(Path("/home/ada b/runs/rlcr"))
    ('runs/rlcr', '…/runs/rlcr')
    """
    return "/".join(["…", *folder.parts[-2:]]) if folder.is_absolute() else str(folder)


def short_model(name: str) -> str:
    """A model without the folder it lies in, or the server that it was asked from.

    >>> short_model("/home/ada/runs/rlcr/train/model"), short_model("runs/rlcr/checkpoints/best")
    ('rlcr/train/model', 'rlcr/checkpoints/best')
    >>> short_model("http://10.0.0.7:8000/v1#Qwen/Qwen3-8B"), short_model("Qwen/Qwen3-8B"), short_model("")
    ('Qwen/Qwen3-8B', 'Qwen/Qwen3-8B', 'unknown model')
    """
    if "://" in name:
        name = name.rpartition("#")[2] if "#" in name else name.rstrip("/").rpartition("/")[2]
    parts = [part for part in re.split(r"[/\\]", name) if part not in ("", ".", "..", "~")]
    # A name of the hub has two parts. Trained models all lie in folders of the same names: three tell.
    most = 3 if parts and parts[-1] in ("model", "best") else 2 if not name.startswith(("/", "~")) else 1
    return "/".join(parts[-most:]) or "unknown model"


def file_name(text: str) -> str:
    """A part of a file's name that any text gives.

    >>> file_name("a/b, update 1,000")
    'a-b-update-1-000'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40]


def labels(folders: Sequence[Path]) -> list[str]:
    """The shortest ends of the paths that tell the folders apart, without what is the same in all of them.

    >>> labels([Path("a/rlcr"), Path("a/rlvr")]), labels([Path("a/eval"), Path("b/eval")])
    (['rlcr', 'rlvr'], ['a', 'b'])

    Nor by the names that every recipe of ours gives to a part of a run, unless these are what differs.

    >>> labels([Path("a/rlcr/train")]), labels([Path("a/rlcr/eval"), Path("a/rlcr/train")])
    (['rlcr'], ['eval', 'train'])
    """
    parts: list[tuple[str, ...]] = [folder.resolve().parts for folder in folders]
    whole: list[tuple[str, ...]] = [
        path[:-1] if path[-1] in _PARTS_OF_RUNS and len(path) > 2 else path for path in parts
    ]
    parts = whole if len(set(whole)) == len(whole) else parts
    while (
        len({path[-1] for path in parts}) == 1
        and len(set(parts)) > 1
        and all(len(path) > 2 for path in parts)
    ):
        parts = [path[:-1] for path in parts]
    names = [path[-1] for path in parts]
    for depth in range(1, 6):
        names = ["/".join(path[-depth:]) for path in parts]
        if len(set(names)) == len(names):
            break
    return [name.replace("//", "/") for name in names]


def joined(names: Sequence[str]) -> str:
    """Names in a sentence.

    >>> joined(["a"]), joined(["a", "b"]), joined(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
