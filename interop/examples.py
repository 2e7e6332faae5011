"""What the scripts of the examples tell their engines: the command line of a copied `run.sh`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from rlcr.adapters.example import copy_example

_PYTHON = """#!/bin/sh
printf '%s\\n' "$@" > "$ARGUMENTS"
"""


def command_line(engine: str, *arguments: str) -> list[str]:
    """What an engine's example hands to its module, in place of which it is written down here."""
    folder, seen = Path(f"example-{engine}").absolute(), Path(f"{engine}-arguments").absolute()
    copy_example(engine, folder)
    shims = Path(f"{engine}-shims").absolute()
    shims.mkdir()
    python = shims / "python"
    python.write_text(_PYTHON, encoding="utf-8")
    python.chmod(0o755)
    environment = {**os.environ, "PATH": f"{shims}{os.pathsep}{os.environ['PATH']}", "ARGUMENTS": str(seen)}
    subprocess.run(["bash", "run.sh", *arguments], cwd=folder, env=environment, check=True)
    written = seen.read_text(encoding="utf-8").splitlines()
    return written[2 if written[0] == "-m" else 1 :]  # behind the module, or the script
