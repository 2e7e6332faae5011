"""The shape of the package: light to import, imports pointing one way, a public API that exists."""

import ast
import subprocess
import sys
from pathlib import Path

import rlcr

PACKAGE = Path(rlcr.__file__).parent
HEAVY = {"torch", "transformers", "trl", "peft", "accelerate", "datasets", "openai"}
# Only these rooms may import the heavy ones, and each does so when it is used, not when rlcr is imported.
MAY_BE_HEAVY = ("train", "confidence", "sample", "tasks/hub.py")


def test_importing_is_light() -> None:
    code = "import sys, rlcr; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    unwanted = HEAVY | {
        "matplotlib",
        "sympy",
        "math_verify",
        "reasoning_gym",
        "scipy",
        "sklearn",
        "pandas",
        "pyarrow",
        "typer",
        "pydantic",
        "yaml",
    }
    assert unwanted.isdisjoint(name.split(".")[0] for name in loaded)


def imported_names(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def test_the_core_never_imports_the_heavy_libraries() -> None:
    for path in PACKAGE.rglob("*.py"):
        inside = path.relative_to(PACKAGE).as_posix()
        if not inside.startswith(MAY_BE_HEAVY):
            roots = {name.split(".")[0] for name in imported_names(path)}
            assert not roots & HEAVY, inside


# Imports point one way: a room may not import from the rooms listed with it.
ONE_WAY = {
    "files.py": ("problem", "verify", "tasks", "records", "sample"),
    "problem.py": ("response", "verify", "tasks", "scoring", "reward", "metrics"),
    "response.py": ("verify", "tasks", "scoring", "reward", "metrics", "prompts"),
    "scoring.py": ("verify", "tasks", "reward", "metrics"),
    "verify": ("tasks", "reward", "metrics", "cli", "report"),
    "metrics": ("verify", "tasks", "reward", "cli", "report"),
    "reward.py": ("tasks", "metrics", "cli", "report", "train"),
}


def test_imports_point_one_way() -> None:
    for room, forbidden in ONE_WAY.items():
        place = PACKAGE / room
        for path in place.rglob("*.py") if place.is_dir() else [place]:
            rooms = {name.split(".")[1] for name in imported_names(path) if name.startswith("rlcr.")}
            assert rooms.isdisjoint(forbidden), path


def test_the_public_api_exists() -> None:
    for name in rlcr.__all__:
        assert hasattr(rlcr, name)
