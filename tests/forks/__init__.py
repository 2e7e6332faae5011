"""Python programs in processes forked from one that has imported what they need.

Starting Python and importing a package takes longer than most of what a test asks of it: a second for the
command line, ten for a training. ``python(...)`` is the beginning of a command line that stands for
``[sys.executable]``: what follows it (``-m MODULE`` or ``-c CODE``, and arguments) runs in a process of its
own, with the streams, folder and environment given, and ends with its status or by its signal. A signal sent
to it is passed on; if it is killed, so is the program.

Modules are imported before the environment is known: :func:`fits` tells whether that makes no difference.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent
#: What commands import when they need it. Not torch: it takes longer than all the rest.
COMMANDS = (
    "rlcr.cli.commands", "rlcr.evaluate", "rlcr.report.page", "rlcr.confidence.sources", "rlcr.adapters.service",
    "matplotlib.pyplot", "openai", "uvicorn", "scipy.stats", "rich.console", "rich.markdown",
)  # fmt: skip
TRAINING = ("rlcr.cli.commands", "rlcr.training.run", "rlcr.training.sft_trainer", "torch.distributed.run")
#: Variables that are read when they are needed, and not while modules are imported.
_READ_LATE = (
    "RLCR_", "COLUMNS", "PYTEST_", "OPENAI_", "ACCELERATE_", "FSDP_", "OMP_NUM_THREADS", "TORCHINDUCTOR_", "KMP_",
    "TOKENIZERS_",
)  # fmt: skip


def python(modules: tuple[str, ...] = COMMANDS) -> list[str]:
    """In place of ``[sys.executable]``, where ``modules`` are imported already (those that are installed)."""
    # Neither the site nor the environment concerns the process that only passes on.
    return [sys.executable, "-I", "-S", str(_HERE / "client.py"), _server(modules)]


def torchrun(*program: str, processes: int = 2) -> list[str]:
    """The command line that has torchrun start a program (``-m MODULE`` and arguments) in several processes."""
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes))
    return [*python(TRAINING), *launcher, "--no-python", *python(TRAINING), *program]


def fits(environment: Mapping[str, str] | None = None) -> bool:
    """Whether modules imported in this process's first environment are as if imported in this one."""
    environment = os.environ if environment is None else environment
    changed = {name for name, _ in environment.items() ^ _AT_FIRST.items()}
    return all(name.startswith(_READ_LATE) for name in changed)


_AT_FIRST = dict(os.environ)


@cache
def _server(modules: tuple[str, ...]) -> str:
    """The address of a process that has imported them; it ends with this one."""
    folder = tempfile.mkdtemp(prefix="forks-")
    address = f"{folder}/socket"
    process = subprocess.Popen(
        [sys.executable, str(_HERE / "server.py"), address, *modules],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=_AT_FIRST | {"OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    assert process.stdin
    assert process.stdout
    atexit.register(process.stdin.close)
    assert process.stdout.readline() == b"ready\n"
    return address
