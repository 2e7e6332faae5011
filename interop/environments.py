"""What each engine needs, and how its environment is made and removed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "interop"

TORCH = ("torch==2.13.0",)


#: What `rlcr serve-reward` needs beside rlcr.
SERVICE = ("starlette", "uvicorn")
SLIME = "git+https://github.com/THUDM/slime@624b824a898ab0ec1fcb4d373004c7f3852bf515"


class NoInterpreter(Exception):
    """An engine cannot be run with the Pythons that are here."""


@dataclass(frozen=True)
class Engine:
    """Lines of `pip install`, in order; a limit in seconds; the Python it needs where ours is too old."""

    installs: tuple[tuple[str, ...], ...]
    limit: float = 1800
    python: str = ""


#: In the order in which they run. Those of :data:`rlcr.adapters.example.EXAMPLES` have an adapter; the others
#: are met by a few lines of docs/interop.md.
ENGINES: dict[str, Engine] = {
    "trl": Engine((TORCH, ("trl==1.16.0", "transformers==5.22.2", "accelerate==1.15.0"))),
    "inspect_ai": Engine((("inspect-ai==0.3.285",),)),
    "lm_eval": Engine((("lm-eval==0.4.13",),)),
    "verifiers": Engine((("verifiers==0.4.0", "uv"),)),
    "skyrl_gym": Engine((("skyrl-gym==0.4.0",),)),
    "openrlhf": Engine(
        (
            TORCH,
            ("--no-deps", "openrlhf==0.11.2"),
            ("transformers==5.15.0", "aiohttp", "sympy", "pylatexenc", *SERVICE),
        ),
    ),
    "verl": Engine(
        (
            TORCH,
            ("--no-deps", "verl==0.9.1"),
            (
                "ray>=2.41", "tensordict>=0.8,<=0.10,!=0.9.0", "hydra-core", "omegaconf",
                "transformers>=5.5.3,<5.11,!=5.6.0", "codetiming", "datasets", "aiohttp", "torchdata",
                "cachetools", "fastapi", "uvicorn", "peft", "accelerate",
            ),
        ),
    ),
    "nemo_gym": Engine((("nemo-gym==0.4.0",),), python="3.12"),
    "ms_swift": Engine((TORCH, ("ms-swift==4.6.0",))),
    "tinker_cookbook": Engine((TORCH, ("tinker-cookbook==0.5.8",))),
    "slime": Engine(
        (TORCH, ("--no-deps", SLIME), ("aiohttp", "httpx", "sympy", "pylatexenc", *SERVICE)),
    ),
}  # fmt: skip


def build_wheel(folder: Path) -> Path:
    """rlcr as it is now, as a wheel."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--wheel-dir", folder, ROOT], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def make(name: str, wheel: Path) -> Path:
    """The Python of an engine's environment with rlcr in it; made unless it was kept."""
    folder = FOLDER / name
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([_interpreter(ENGINES[name].python), "-m", "venv", folder], check=True)
        for line in ENGINES[name].installs:
            _pip(python, *line)
        _pip(python, str(wheel))
        (folder / "ready").touch()
    else:
        _pip(python, "--no-deps", "--force-reinstall", str(wheel))
    return python


def _interpreter(wanted: str) -> str:
    """Our own Python, or the one that an engine needs."""
    if not wanted:
        return sys.executable
    found = shutil.which(f"python{wanted}")
    # What is there may be a stand-in of pyenv for a version that is not switched on.
    if not found or subprocess.run([found, "--version"], capture_output=True, check=False).returncode:
        raise NoInterpreter(f"it needs python{wanted} on the PATH")
    return found


def remove(name: str) -> None:
    """Delete an engine's environment."""
    shutil.rmtree(FOLDER / name, ignore_errors=True)


def _pip(python: Path, *arguments: str) -> None:
    # What is never imported need not be compiled.
    options = ["--quiet", "--disable-pip-version-check", "--no-compile"]
    subprocess.run([python, "-m", "pip", "install", *options, *arguments], check=True)
