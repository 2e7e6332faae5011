r"""What is shown on a terminal: text of models, servers and files is shown, never obeyed.

A terminal takes some characters for commands: move up, clear the line, set the title, paint in white. Names
and messages come from anywhere, so all that this package prints goes through here: :func:`say` for lines and
:func:`console` for tables and bars. Control characters, marks that turn the direction of writing and halves
of surrogate pairs are shown as they would be written in Python: ``\x1b[2J``.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
import traceback
from collections.abc import Iterable
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, ConsoleRenderable, RenderableType

#: All but the line break: C0 but the tab, DEL, C1, separators of lines, changes of direction, surrogates.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufff9-\ufffb\ud800-\udfff]"
)

#: What stands before the host of an address, which lost a slash if it was taken for a path. An @ behind the
#: host belongs to a path: `git+https://host/x@v1`. A password, unlike a port, may hold a slash: `me:a/b@`.
_PASSWORD = re.compile(
    r"(?i)\b([a-z][a-z0-9+.-]{0,30}://|https?:/)"
    r"(?:[^\s/?#]{1,1000}|[^\s/?#:\[]{0,200}:(?!\d{0,5}[/?#])\S{1,1000})@"
    r"|\b[\w.+-]{1,100}:[^\s:/@]{1,1000}@(?=[\w\[])"
)
#: What a field of an address says that holds a key.
_SECRET_FIELD = "key|token|secret|password|passwd|pwd|sig|signature|auth"
_FIELD = re.compile(rf"(?i)([?&;][\w.-]{{0,50}}(?:{_SECRET_FIELD})=)[^\s&;#'\"]{{1,1000}}")
#: Environment variables whose values are secrets. Shorter ones are words that stand elsewhere, too: EMPTY.
_SECRET_NAME = re.compile(r"(?i)(key|token|secret|password|passwd|credentials?)$")
_SECRET_LENGTH = 12
#: The password in an address that is the value of a variable: a proxy, a database.
_IN_ADDRESS = re.compile(r"://[^\s/:@]{0,200}:([^\s@]{1,1000})@")


def visible(text: str) -> str:
    r"""The text with all that a terminal would obey written out; line breaks and tabs stay.

    >>> visible("a\x1b[2Jb\rc"), visible("naïve 日本\n")
    ('a\\x1b[2Jb\\rc', 'naïve 日本\n')
    """
    return _HIDDEN.sub(lambda found: ascii(found[0])[1:-1], text)


def secret_variables() -> dict[str, str]:
    """The environment variables that hold keys, tokens and passwords, by their names."""
    return {name: value for name, value in os.environ.items() if _SECRET_NAME.search(name) and value}


def hide(text: str) -> str:
    """The text without the passwords and keys of addresses, and without the secrets of the environment.

    >>> hide("HTTP://me:secret@host/v1"), hide("https://host/v1?n=1&api_key=secret")
    ('HTTP://[hidden]@host/v1', 'https://host/v1?n=1&api_key=[hidden]')
    """
    values = {value.strip() for value in secret_variables().values()}
    values |= {password for value in os.environ.values() for password in _IN_ADDRESS.findall(value)}
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= _SECRET_LENGTH:
            text = text.replace(value, "[hidden]")
    return _FIELD.sub(r"\1[hidden]", _PASSWORD.sub(lambda found: f"{found[1] or ''}[hidden]@", text))


def one_line(text: str) -> str:
    r"""The same on one line and without secrets, for messages.

    >>> one_line("no such\nfile: \x07"), one_line("HTTP://me:secret@host/v1")
    ('no such\\nfile: \\x07', 'HTTP://[hidden]@host/v1')
    """
    return visible(hide(text)).replace("\n", "\\n")


def say(*values: object, file: IO[str] | None = None, end: str = "\n") -> None:
    """Print, made visible, and at once: to standard output, or to ``file``."""
    print(visible(" ".join(map(str, values))), file=file, end=end, flush=True)


def console(*, stderr: bool = False, pipe_width: int | None = 200) -> Console:
    """A console of rich on which text is shown and not obeyed.

    A pipe has no width; the 80 columns that rich assumes, taken for None, would break every line.
    """
    from rich.console import Console, RenderHook
    from rich.segment import Segment

    class Shown:
        """What another renderable draws, made visible."""

        def __init__(self, inner: RenderableType) -> None:
            self._inner = inner

        def __rich_console__(self, console: Console, options: Any) -> Iterable[Segment]:
            for segment in console.render(self._inner, options):
                yield segment if segment.control else Segment(visible(segment.text), segment.style)

    class Showing(RenderHook):
        def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
            return [*map(Shown, renderables)]

    stream = sys.stderr if stderr else sys.stdout
    out = Console(stderr=stderr, width=None if stream.isatty() else pipe_width)
    out.push_render_hook(Showing())
    return out


def guard() -> None:
    """Show warnings and tracebacks of this process, too, and never obey them: for the command line."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Visible())
    handler.setLevel(logging.WARNING)
    logging.getLogger().addHandler(handler)
    logging.captureWarnings(True)
    sys.excepthook = _show_exception
    threading.excepthook = _show_exception_of_thread


class _Visible(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return visible(hide(super().format(record)))


def _show_exception(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    say(hide("".join(traceback.format_exception(kind, error, trace))), file=sys.stderr, end="")


def _show_exception_of_thread(thrown: threading.ExceptHookArgs) -> None:
    if thrown.exc_value is not None and not isinstance(thrown.exc_value, SystemExit):
        _show_exception(thrown.exc_type, thrown.exc_value, thrown.exc_traceback)
