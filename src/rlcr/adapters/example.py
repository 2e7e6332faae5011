"""Working examples, one folder for each engine, to be copied and changed."""

from __future__ import annotations

import shutil
from pathlib import Path

from rlcr.errors import RlcrError, nearest
from rlcr.files import writing

#: Each engine, and what its folder holds.
EXAMPLES: dict[str, str] = {
    "trl": "a training script for TRL's own GRPOTrainer",
    "verl": "data and settings for verl",
    "openrlhf": "reward file, data and settings for OpenRLHF",
    "verifiers": "a taskset for verifiers and prime-rl",
    "inspect_ai": "a task for inspect",
    "lm_eval": "a task folder for lm-evaluation-harness",
    "skyrl_gym": "an environment for SkyRL",
}

_FOLDER = Path(__file__).parent / "examples"


def copy_example(name: str, out: Path) -> list[Path]:
    """Copy the example of an engine into a folder, which must be new or empty; returns its files."""
    if name not in EXAMPLES:
        raise RlcrError(f"no example for {name!r}: {nearest(name, list(EXAMPLES))}")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RlcrError(f"{out}: exists and is not an empty folder; choose another --out")
    with writing(out):
        shutil.copytree(_FOLDER / name, out, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(_FOLDER / "problems.jsonl", out)
    return sorted(out.iterdir())
