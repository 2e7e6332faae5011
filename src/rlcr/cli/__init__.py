"""The command line. Each command parses its arguments and calls one function."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line. Ctrl-C ends it with exit status 130, also while modules are still imported."""
    try:
        from rlcr.cli.commands import run

        run()
    except KeyboardInterrupt:
        sys.exit(130)
