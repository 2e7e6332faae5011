"""The one exception users meet: a single line that says what, where and what to do."""

from collections.abc import Iterable

#: So long is a message at most: what it repeats may be a whole file.
LONGEST = 5000


class RlcrError(Exception):
    """A mistake in what the user gave us. The command line prints its text and exits with status 2."""

    def __init__(self, message: str) -> None:
        super().__init__(shortened(message, LONGEST))


def nearest(name: str, known: list[str]) -> str:
    """The tail of an "unknown name" message: the nearest known name, if any is near, and all of them.

    >>> nearest("bier", ["brier", "log"]), nearest("x", ["brier", "log"])
    ('did you mean brier? Known: brier, log', 'known: brier, log')
    """
    close, names = closest(name, known), ", ".join(known)
    return f"did you mean {close}? Known: {names}" if close else f"known: {names}"


def closest(name: str, known: list[str]) -> str | None:
    """The known name that is nearest, if any is near. One of the same letters comes before all others.

    >>> closest("rlrc", ["rlvr", "rlcr"])
    'rlcr'
    """
    # difflib is slow to import, and only a failing command needs it.
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=max(1, len(known)))
    # The first of those that are equal in this, which is the nearest.
    return min(close, key=lambda one: sorted(one) != sorted(name), default=None)


def described(value: object) -> str:
    """A value of the wrong kind, for a message.

    >>> described(None), described([1])
    ('nothing (null)', "list '[1]'")
    """
    if value is None:
        return "nothing (null)"
    kind = type(value).__name__
    try:
        return f"{kind} {str(value)[:40]!r}"
    except Exception:  # nested too deeply, or of a class whose text fails: no message may fail for that
        return f"{kind} that cannot be shown"


def shortened(text: str, most: int = 400) -> str:
    """The text without its middle if it is longer: a cell that a message repeats may hold a whole file.

    >>> shortened("abcdefghij", most=8), shortened("abcdefgh", most=8)
    ('abcd … ij', 'abcdefgh')
    """
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-(most // 4) :]}"


def named(error: Exception) -> str:
    """An unexpected exception on one line, as the reason why something has no verdict.

    >>> named(KeyError("gold")), named(ValueError())
    ("KeyError: 'gold'", 'ValueError')
    """
    message = " ".join(str(error).split())
    name = type(error).__name__
    return f"{name}: {message[:200]}" if message else name


def not_installed(packages: Iterable[str]) -> list[str]:
    """Those packages that cannot be imported."""
    from importlib.util import find_spec

    return [package for package in packages if find_spec(package) is None]


def need(what: str, *packages: str, install: str = 'pip install "rlcr[train]"') -> None:
    """Raise if a package is not installed, and say how to get it; none of them is imported.

    >>> need("training", "json")
    >>> need("training", "json", "no_such_package")
    Traceback (most recent call last):
    rlcr.errors.RlcrError: training needs no_such_package, which is not installed: pip install "rlcr[train]"
    """
    if missing := not_installed(packages):
        which = "which is not" if len(missing) == 1 else "which are not"
        raise RlcrError(f"{what} needs {', '.join(missing)}, {which} installed: {install}")
