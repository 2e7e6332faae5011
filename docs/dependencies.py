"""The table of docs/dependencies.md: every package that an installation brings, and its licence.

    python docs/dependencies.py        rewrites the table from what is installed beside this Python

The packages are those of pyproject.toml and all that these require, as far as they are installed; licences
are what they say of themselves. A package stands with the first group that brings it.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "dependencies.md"
BEGIN, END = "<!-- made by docs/dependencies.py -->", "<!-- end -->"
#: The extras, in the order in which a package is given to one of them.
GROUPS = ("core", "endpoint", "serve", "hub", "gym", "train", "docs", "dev")
#: Of classifiers, and of what stands in the field License: names as SPDX has them.
_SPDX = {
    "apache 2.0": "Apache-2.0",
    "apache 2.0 license": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "3-clause bsd license": "BSD-3-Clause",
    "apache": "Apache-2.0",
    "bsd": "BSD",
    "bsd license": "BSD",
    "isc license (iscl)": "ISC",
    "mit": "MIT",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0",
}
#: Of packages that name none: as the licence reads that they come with.
_READ = {"zss": "BSD-3-Clause", "relplot": "Apple's own: permissive, no patents"}
UNKNOWN = "not stated"


def asked_for() -> dict[str, list[Requirement]]:
    """The direct requirements of each group, as pyproject.toml has them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = {"core": project["dependencies"], **project["optional-dependencies"]}
    return {name: [Requirement(line) for line in groups[name]] for name in GROUPS}


def brought_by() -> dict[str, str]:
    """The installed packages that each group brings, by their canonical names: the first group of each."""
    found: dict[str, str] = {}
    for group, requirements in asked_for().items():
        waiting, seen = list(requirements), set[tuple[str, frozenset[str]]]()
        while waiting:
            requirement = waiting.pop()
            name = canonicalize_name(requirement.name)
            key = (name, frozenset(requirement.extras))
            if key in seen or (package := _installed(name)) is None:
                continue
            seen.add(key)
            found.setdefault(name, group)
            waiting += _requirements(package, requirement.extras)
    return found


def _requirements(package: Distribution, extras: set[str]) -> Iterator[Requirement]:
    for line in package.requires or ():
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield requirement


def _installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def licence(package: Distribution) -> str:
    """What a package says of its licence, in SPDX's words where it can be told."""
    facts = package.metadata
    if (name := canonicalize_name(facts["Name"])) in _READ:
        return _READ[name]
    if expression := facts.get("License-Expression"):
        return expression
    classified = [
        line.rpartition(" :: ")[2]
        for line in facts.get_all("Classifier") or ()
        if line.startswith("License :: ") and not line.endswith("OSI Approved")
    ]
    stated = (facts.get("License") or "").strip()
    # Some put the whole text there.
    named = [stated] if stated and "\n" not in stated and len(stated) < 60 else []
    names = named if named and not classified else classified or [stated.partition("\n")[0].strip()]
    return " and ".join(_SPDX.get(name.lower(), name) for name in names if name) or UNKNOWN


def lines() -> list[str]:
    """The table."""
    direct = {canonicalize_name(one.name): one for group in asked_for().values() for one in group}
    rows = ["| package | asked for | version seen | licence | by |", "|---|---|---|---|---|"]
    groups = brought_by()
    for name in sorted(groups, key=lambda name: (GROUPS.index(groups[name]), name not in direct, name)):
        package = distribution(name)
        wanted = f"`{direct[name].specifier}`" if name in direct and direct[name].specifier else ""
        version = re.sub(r"\+.*", "", package.version)  # the build of torch
        rows.append(f"| {name} | {wanted} | {version} | {licence(package)} | {groups[name]} |")
    return rows


def main() -> None:
    """Rewrite the table."""
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n" + "\n".join(lines()) + f"\n{END}{after}", encoding="utf-8")
    missing = [str(one) for group in asked_for().values() for one in group if not _installed(one.name)]
    if missing:
        print(f"not installed here, and not in the table: {', '.join(missing)}", file=sys.stderr)


if __name__ == "__main__":
    main()
