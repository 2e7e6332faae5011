"""The lock file and the table of licences are about the dependencies that pyproject.toml asks for."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")


def requirements() -> list[Requirement]:
    """All direct ones, the extras among them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    return [Requirement(line) for group in (project["dependencies"], *extras) for line in group]


def pins() -> dict[str, tuple[list[str], str]]:
    """The versions of each package in the lock (several where systems differ), and its block of lines."""
    found: dict[str, tuple[list[str], str]] = {}
    for block in re.split(r"\n(?=[a-z0-9])", LOCK.split("\n", 2)[2]):
        if pinned := re.match(r"([a-z0-9.-]+)(?:\[[^]]*\])?==([^ ;\\]+)", block):
            versions, text = found.get(pinned[1], ([], ""))
            found[pinned[1]] = ([*versions, pinned[2]], text + block)
    return found


def test_every_dependency_is_locked_within_its_bounds() -> None:
    locked = pins()
    for requirement in requirements():
        name = canonicalize_name(requirement.name)
        if name == "torch":  # its build depends on the hardware
            assert name not in locked
            continue
        assert name in locked, f"{requirement}: make lock"
        assert all(map(requirement.specifier.contains, locked[name][0])), f"{requirement}: make lock"


def test_every_file_has_its_hash() -> None:
    locked = pins()
    assert len(locked) > 100
    assert [name for name, (_, text) in locked.items() if "--hash=sha256:" not in text] == []


def test_it_names_no_place_to_fetch_from() -> None:
    assert re.findall(r"\w+://|--(?:extra-)?index-url|--find-links|^/|@ file", LOCK, re.M) == []
    assert not re.findall(r"^(?:nvidia|triton|cuda)", LOCK, re.M)


def test_every_licence_is_known() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:-1] for line in page.split("<!-- made by")[1].splitlines() if line[:1] == "|"]
    licences = {name.strip(): licence.strip() for name, _, _, licence, _ in rows[2:]}
    documentation = {"sphinx", "furo", "myst-parser"}  # installed by `make docs` only
    wanted = {canonicalize_name(one.name) for one in requirements()}
    assert wanted - documentation <= set(licences)
    assert [name for name, licence in licences.items() if not licence or licence == "not stated"] == []


def test_nothing_that_is_installed_with_the_core_asks_for_more_than_attribution() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    assert re.findall(r"\|[^|]*\bA?GPL[^|]*\|", page) == []
