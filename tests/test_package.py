"""The shape of the package: light to import, imports pointing one way, a public API that exists."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import rlcr

PACKAGE = Path(rlcr.__file__).parent
TESTS = Path(__file__).parent
HEAVY = {"torch", "transformers", "trl", "peft", "accelerate", "datasets", "openai", "httpx2"}
# Only these rooms may import the heavy ones, and each does so when it is used, not when rlcr is imported.
MAY_BE_HEAVY = ("engine", "sample", "confidence", "training", "tasks/plumbing/hub.py", "adapters/examples")


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
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_the_core_never_imports_the_heavy_libraries() -> None:
    for path in PACKAGE.rglob("*.py"):
        inside = path.relative_to(PACKAGE).as_posix()
        if not inside.startswith(MAY_BE_HEAVY):
            roots = {name.split(".")[0] for name in imported_names(path)}
            assert not roots & HEAVY, inside


# The house from the ground up: whatever stands in a line may import from the lines above it, and from its own room.
LAYERS = """
errors lazy terminal
files problem scoring
response
prompts verify metrics
reward
tasks
runs
engine
sample
many
evaluate
training
confidence
asking
adapters
report
plot quickstart doctor
cli
"""
ROOMS = {name: height for height, line in enumerate(LAYERS.split("\n")) for name in line.split()}
# The report reads files: it may use what describes them, and nothing that makes them.
REPORT_MAY_NOT = {"engine", "sample", "many", "evaluate", "confidence", "training"}


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else "rlcr"


def edges() -> Iterator[tuple[str, str]]:
    """(importing module, imported module), also of imports inside functions and of ``from rlcr import x``."""
    for path in PACKAGE.rglob("*.py"):
        inside = path.relative_to(PACKAGE).with_suffix("").as_posix().removesuffix("__init__").strip("/")
        if inside.startswith("adapters/examples/"):
            continue  # programs of users, which import rlcr as they do
        module = ".".join(["rlcr", *filter(None, inside.split("/"))])
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{module}: relative imports hide where they point"
                imported = [f"{node.module}.{alias.name}" for alias in node.names]
            else:
                continue
            yield from ((module, name) for name in imported if name.split(".")[0] == "rlcr")


def test_every_room_has_its_place() -> None:
    rooms = {
        path.name.removesuffix(".py") for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()
    }
    assert rooms - {"__init__", "__main__", "__pycache__"} == set(ROOMS)


def test_imports_point_down() -> None:
    wrong = {
        f"{importer} -> {imported}"
        for importer, imported in edges()
        if importer not in ("rlcr", "rlcr.__main__")
        and room_of(importer) != room_of(imported)
        and ROOMS.get(room_of(imported), 99) >= ROOMS[room_of(importer)]
    }
    assert not wrong


def test_the_report_reads_files_only() -> None:
    wrong = {
        f"{importer} -> {imported}"
        for importer, imported in edges()
        if room_of(importer) == "report" and room_of(imported) in REPORT_MAY_NOT
    }
    assert not wrong


def test_files_are_of_readable_length() -> None:
    longest = max(
        (len(path.read_text(encoding="utf-8").splitlines()), path.name)
        for folder in (PACKAGE, TESTS)
        for path in folder.rglob("*.py")
    )
    assert longest[0] <= 450, longest


def test_helpers_shared_by_tests_are_not_in_test_files() -> None:
    """What several test files need is in a module beside them, so that each test file can be moved or split."""
    wrong = {
        f"{path.relative_to(TESTS)} imports {name}"
        for path in TESTS.rglob("*.py")
        for name in imported_names(path)
        if any(part.startswith("test_") for part in name.split("."))
    }
    assert not wrong


def test_the_public_api_exists() -> None:
    for name in rlcr.__all__:
        assert hasattr(rlcr, name)
