"""The command line in a process of its own, as a user meets it; most are forked (:mod:`tests.forks`)."""

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from tests import forks

RLCR = [sys.executable, "-m", "rlcr"]
#: As the installed command calls it, where some packages are missing.
_PROGRAM = """
import sys
sys.argv[0] = "rlcr"
sys.modules |= dict.fromkeys({without!r})
from rlcr.cli import main
main()
"""


def rlcr(
    *arguments: object,
    without: Sequence[str] = (),
    imported: tuple[str, ...] = forks.COMMANDS,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, whatever it returns. ``options`` are those of ``subprocess.run``.

    The packages named in ``without`` cannot be imported, nor found; those ``imported`` beforehand, where
    neither that nor the options forbid it, take no time.
    """
    forked = not without and "preexec_fn" not in options and forks.fits(options.get("env"))
    program = ["-c", _PROGRAM.format(without=tuple(without)), *map(str, arguments)]
    command = [*(forks.python(imported) if forked else [sys.executable]), *program]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, **options)


def expect_one_line(result: subprocess.CompletedProcess[str], message: str) -> None:
    """A mistake of the user's: exit status 2, and one line that holds ``message``."""
    assert result.returncode == 2, result.stderr
    assert message in result.stderr
    assert result.stderr.startswith("rlcr: ")
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""
