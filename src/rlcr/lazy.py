"""Modules that are imported when they are first used: `rlcr.runs.stamps` after a mere `import rlcr`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


def submodules(package: str) -> Callable[[str], ModuleType]:
    """The ``__getattr__`` of a package whose modules are there without having been imported.

    >>> submodules("json")("decoder").__name__
    'json.decoder'
    >>> submodules("json")("dekoder")
    Traceback (most recent call last):
    AttributeError: module 'json' has no attribute 'dekoder'
    """

    def attribute(name: str) -> ModuleType:
        whole = f"{package}.{name}"
        if not name.startswith("_"):  # names that Python and its tools ask every module for
            try:
                return import_module(whole)
            except ModuleNotFoundError as error:
                if error.name != whole:  # the module is there, and what it needs is not
                    raise
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return attribute


def attributes(package: str, homes: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """The same for a package that also gives the names of its modules: ``homes`` says which are whose.

    >>> attributes("json", {"json.decoder": ("JSONDecoder",)})("JSONDecoder").__name__
    'JSONDecoder'
    """
    module_of = {name: home for home, names in homes.items() for name in names}
    module = submodules(package)

    def attribute(name: str) -> Any:
        return getattr(import_module(module_of[name]), name) if name in module_of else module(name)

    return attribute
