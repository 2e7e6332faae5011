"""What is installed, what this machine has, and whether the verifiers work: the whole of `rlcr doctor`.

Nothing is downloaded, and no model library is imported, with one exception: a build of torch for GPUs is
asked which ones it sees.
"""

from __future__ import annotations

import os
import platform
import re
import runpy
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from rlcr.errors import RlcrError, named
from rlcr.files import cache_folder
from rlcr.problem import Problem
from rlcr.tasks import load
from rlcr.verify import VERIFIERS, verify

#: What each extra is for; "dev" is for those who change rlcr.
EXTRAS = {
    "train": "training, local models, probes and classifiers",
    "hub": "data sets of the Hugging Face hub",
    "endpoint": "models on servers",
    "gym": "the task gym",
}


@dataclass(frozen=True)
class Finding:
    """One line: what was looked at, what was found, and whether something is wrong with it."""

    what: str
    found: str
    fault: bool = False


@dataclass(frozen=True)
class Diagnosis:
    """Everything that was found. An extra that is not installed is no fault."""

    findings: tuple[Finding, ...]

    @property
    def well(self) -> bool:
        """Whether everything that is installed works."""
        return not any(finding.fault for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {"well": self.well, "findings": [asdict(finding) for finding in self.findings]}


def examine() -> Diagnosis:
    """Look at everything."""
    return Diagnosis((*_machine(), *_packages(), *_torch(), *_folders(), *map(_verifier, VERIFIERS)))


# --- machine ----------------------------------------------------------------------------------------


def _machine() -> Iterator[Finding]:
    python = f"Python {platform.python_version()} ({sys.executable})"
    yield Finding("rlcr", f"{version('rlcr')}, {python}, {platform.system()} {platform.machine()}")
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    busy = f", {os.getloadavg()[0]:.1f} busy over the last minute" if hasattr(os, "getloadavg") else ""
    threads = os.environ.get("OMP_NUM_THREADS")
    yield Finding("cores", f"{usable}{busy}" + (f"; OMP_NUM_THREADS={threads}" if threads else ""))
    yield Finding("memory", _memory())


def _memory() -> str:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    known = {}
    if (table := Path("/proc/meminfo")).exists():
        known = dict(re.findall(r"^(\w+): +([0-9]+) kB", table.read_text(), re.M))
    free = f", {_bytes(1024 * int(known['MemAvailable']))} of it free" if "MemAvailable" in known else ""
    limit = _memory_limit()
    allowed = f"; this process may use {_bytes(limit)}" if limit and limit < total else ""
    return f"{_bytes(total)}{free}{allowed}"


def _memory_limit() -> int | None:
    """What a container allows, where there is one."""
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        path = Path("/sys/fs/cgroup") / name
        if path.exists() and (text := path.read_text().strip()).isdecimal():
            return int(text)
    return None


def _bytes(number: float) -> str:
    """A size for people.

    >>> _bytes(0), _bytes(1536), _bytes(3 * 2**30)
    ('0 B', '1.5 KiB', '3.0 GiB')
    """
    for unit in ("B", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} B" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} GiB"


# --- packages ---------------------------------------------------------------------------------------


def _packages() -> Iterator[Finding]:
    needed = [Requirement(text) for text in requires("rlcr") or ()]
    missing, wrong = _lacking(core := [one for one in needed if one.marker is None])
    lacks = "; ".join([*wrong, *missing])
    yield Finding("core", f"{lacks}; pip install rlcr" if lacks else _installed(core), bool(lacks))
    for extra, purpose in EXTRAS.items():
        wanted = [one for one in needed if one.marker and one.marker.evaluate({"extra": extra})]
        missing, wrong = _lacking(wanted)
        lacks = "; ".join([*wrong, *missing])
        hint = f'{lacks}; for {purpose}: pip install "rlcr[{extra}]"'
        yield Finding(f"extra {extra}", hint if lacks else _installed(wanted), bool(wrong))


def _lacking(needed: list[Requirement]) -> tuple[list[str], list[str]]:
    """What is not installed, and what is in a version that does not fit."""
    versions = {one: _version(one.name) for one in needed}
    names = ", ".join(one.name for one, found in versions.items() if not found)
    wrong = [
        f"{one.name} {found} is installed, and {one.specifier} is needed"
        for one, found in versions.items()
        if found and not one.specifier.contains(found, prereleases=True)
    ]
    return [f"not installed: {names}"] if names else [], wrong


def _installed(packages: list[Requirement]) -> str:
    return ", ".join(f"{one.name} {_version(one.name)}" for one in packages)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _torch() -> Iterator[Finding]:
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        yield Finding(
            "torch", "not installed: take the build for your hardware (pytorch.org) before the extra train"
        )
        return
    # The file of its version says how it was built, in a moment; importing torch takes seconds.
    build = runpy.run_path(str(Path(spec.origin).with_name("version.py")))
    kinds = {"cuda": "CUDA", "hip": "ROCm", "xpu": "XPU"}
    built = [f"{kind} {build[name]}" for name, kind in kinds.items() if build.get(name)]
    yield Finding("torch", f"{build['__version__']}, built for {' and '.join(built) or 'the CPU alone'}")
    if built or sys.platform == "darwin":
        from rlcr.engine.devices import devices

        yield Finding("devices", "; ".join(devices()))
    else:
        yield Finding("devices", "cpu")


# --- folders ----------------------------------------------------------------------------------------


def _folders() -> Iterator[Finding]:
    cache = cache_folder()
    sizes = [path.lstat().st_size for path in cache.rglob("*") if path.is_file()] if cache.is_dir() else []
    yield Finding("cache", f"{cache}: {_bytes(sum(sizes))} in {len(sizes):,} files (RLCR_CACHE moves it)")
    data = os.environ.get("RLCR_DATA")
    if data and not Path(data).is_dir():
        yield Finding("data", f"RLCR_DATA={data}: no such folder", fault=True)
    else:
        yield Finding(
            "data", f"RLCR_DATA={data}" if data else "RLCR_DATA is not set: data sets come from the hub"
        )


# --- verifiers --------------------------------------------------------------------------------------


def _verifier(name: str) -> Finding:
    """Let a verifier judge a right answer and a wrong one."""
    what = f"verifier {name}"
    if name == "gym" and find_spec("reasoning_gym") is None:
        return Finding(what, "not tried: the extra gym is not installed")
    try:
        problem, right, wrong = _TRIALS[name]()
        verdicts = verify([problem, problem], [right, wrong])
    except RlcrError as error:
        return Finding(what, str(error), fault=True)
    except Exception as error:  # whatever is amiss in this installation is what we are here to say
        return Finding(what, named(error), fault=True)
    if [verdict.outcome for verdict in verdicts] == ["correct", "wrong"]:
        return Finding(what, "tells right from wrong")
    said = ", ".join(f"{verdict.outcome} ({verdict.reason})" for verdict in verdicts)
    return Finding(what, f"of a right answer and a wrong one it says: {said}", fault=True)


def _gym_trial() -> tuple[Problem, str, str]:
    problem = load("gym", size=1, dataset="chain_sum").problems[0]
    return problem, problem.gold[0], "no number"


_TRIALS: dict[str, Callable[[], tuple[Problem, str, str]]] = {
    "exact": lambda: (Problem("exact", "Who sang Yesterday?", ("The Beatles",), "exact"), "beatles", "Queen"),
    "math": lambda: (Problem("math", "1 / 2?", (r"\frac{1}{2}",), "math"), "0.5", "2"),
    "choice": lambda: (Problem("choice", "A) yes B) no", ("B",), "choice"), "B", "A"),
    "gym": _gym_trial,
}
