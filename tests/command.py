"""The command line in a process of its own, as a user meets it."""

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

RLCR = [sys.executable, "-m", "rlcr"]
#: As the installed command calls it, where some packages are missing.
_PROGRAM = """
import sys
sys.argv[0] = "rlcr"
sys.modules |= dict.fromkeys({without!r})
from rlcr.cli import main
main()
"""


def rlcr(*arguments: object, without: Sequence[str] = (), **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, whatever it returns. ``options`` are those of ``subprocess.run``.

    The packages named in ``without`` cannot be imported, nor found.
    """
    command = [sys.executable, "-c", _PROGRAM.format(without=tuple(without)), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, **options)


def expect_one_line(result: subprocess.CompletedProcess[str], message: str) -> None:
    """A mistake of the user's: exit status 2, and one line that holds ``message``."""
    assert result.returncode == 2, result.stderr
    assert message in result.stderr
    assert result.stderr.startswith("rlcr: ")
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""
