"""What is recorded about a run but may differ when it is resumed: the command and the versions."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from rlcr.terminal import hide


def run_facts(packages: Sequence[str]) -> dict[str, Any]:
    """The command line without secrets, and the versions of Python and of the packages that are installed."""
    versions = {"python": sys.version.split()[0]}
    for package in packages:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return {"command": hide(shlex.join(sys.argv)), "versions": versions}
