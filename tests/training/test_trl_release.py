"""TRL is allowed in the one minor release that the tests run on: private members of it are used."""

import tomllib
from importlib.metadata import version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]


def test_the_oldest_and_the_newest_that_are_allowed_are_the_release_that_is_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [Requirement(line) for line in project["optional-dependencies"]["train"]]
    [allowed] = [requirement.specifier for requirement in needed if requirement.name == "trl"]
    tested = Version(version("trl"))
    assert tested in allowed
    assert f"{tested.major}.{tested.minor}.99" in allowed
    assert f"{tested.major}.{tested.minor - 1}.99" not in allowed
    assert f"{tested.major}.{tested.minor + 1}.0" not in allowed
