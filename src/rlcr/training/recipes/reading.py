"""Recipes as text: YAML with the line and the trailing comment of every setting.

YAML 1.2 rules for plain values, because those of 1.1, which PyYAML follows, read ``1e-6`` as text and
``off`` as false. No aliases: a few lines of them can stand for billions of values, or for themselves, and a
recipe has ``like:``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from rlcr.errors import RlcrError, named, shortened

#: What no setting needs more of: characters of a recipe, digits of a whole number.
_LONGEST, _MOST_DIGITS = 1 << 20, 18
#: What PyYAML raises, beside its own errors, for a value that is not what its explicit tag (!!int) says.
_NOT_AS_TAGGED = (ValueError, KeyError, TypeError, AttributeError, OverflowError)


class _Loader(yaml.SafeLoader):
    """YAML's safe loader with the plain values of YAML 1.2."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 (PyYAML's)

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Refuse aliases."""
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark
            raise yaml.MarkedYAMLError(problem="an alias; write the value out", problem_mark=mark)
        return super().compose_node(parent, index)


for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+", list("-+0123456789")),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), _first)


def _int(_: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    """PyYAML's own reads 010 as octal."""
    if len(node.value) > _MOST_DIGITS:
        problem = f"a number of more than {_MOST_DIGITS} digits"
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
    return int(node.value)


_Loader.add_constructor("tag:yaml.org,2002:int", _int)


@dataclass(frozen=True)
class Place:
    """Where a setting stands, and what its trailing comment says of its source."""

    line: int
    source: str


@dataclass(frozen=True)
class Text:
    """A recipe as it is written: its settings, and the place of each, by dotted name."""

    file: str
    values: dict[str, Any]
    places: Mapping[str, Place] = field(default_factory=dict)

    def where(self, name: str) -> str:
        """``my.yaml, line 7``; of a setting that is not there itself, the place of what holds it."""
        place = self.place(name)
        return f"{self.file}, line {place.line}" if place else self.file

    def place(self, name: str) -> Place | None:
        """The place of a setting, or of what holds it."""
        while name and name not in self.places:
            name = name.rpartition(".")[0]
        return self.places.get(name)


def read(path: Path, shown_as: str) -> Text:
    """Read a recipe file. ``shown_as`` is its name in messages."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            text = file.read(_LONGEST + 1)
    except UnicodeDecodeError:
        raise RlcrError(f"{shown_as}: not UTF-8 text") from None
    except OSError as error:
        raise RlcrError(f"{shown_as}: cannot be read ({error.strerror})") from None
    if len(text) > _LONGEST:
        raise RlcrError(f"{shown_as}: longer than {_LONGEST:,} characters: not a recipe")
    loader = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if not isinstance(node, yaml.MappingNode):
            raise RlcrError(f"{shown_as}: expected lines of the form `setting: value`")
        places = dict(_places(node, text.splitlines(), shown_as))
        return Text(shown_as, loader.construct_document(node), places)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        problem = shortened(str(error.problem or error.context))
        raise RlcrError(f"{shown_as}{line}: not YAML: {problem}") from None
    except yaml.YAMLError as error:
        raise RlcrError(f"{shown_as}: not YAML: {shortened(str(error).splitlines()[0])}") from None
    except RecursionError:
        raise RlcrError(f"{shown_as}: not a recipe: nested too deeply") from None
    except _NOT_AS_TAGGED as error:
        raise RlcrError(f"{shown_as}: not a recipe: {named(error)}") from None
    finally:
        if loader:
            loader.dispose()


def read_value(text: str) -> Any:
    """A value as a recipe would have it.

    >>> read_value("1e-6"), read_value("off"), read_value("null"), read_value("[1, 2]")
    (1e-06, 'off', None, [1, 2])
    """
    loader = None
    try:
        loader = _Loader(text)
        return loader.get_single_data()
    except (yaml.YAMLError, RecursionError, *_NOT_AS_TAGGED):
        shown = text if len(text) <= 80 else f"{text[:79]}…"
        raise RlcrError(f"{shown!r} is not a YAML value; put text with : # [ {{ in quotes") from None
    finally:
        if loader:
            loader.dispose()


def _places(
    node: yaml.MappingNode, lines: list[str], file: str, prefix: str = "", source: str = ""
) -> Iterator[tuple[str, Place]]:
    seen: set[str] = set()
    for key, value in node.value:
        line = key.start_mark.line
        if not isinstance(key, yaml.ScalarNode):
            raise RlcrError(f"{file}, line {line + 1}: the name of a setting must be text")
        name = prefix + key.value
        if name in seen:
            raise RlcrError(f"{file}, line {line + 1}: {name} is set twice")
        seen.add(name)
        nested = isinstance(value, yaml.MappingNode) and not value.flow_style
        # The comment of a block is after its name; of anything else, after its end.
        end = key.end_mark if nested else value.end_mark
        place = Place(line + 1, _comment(lines, end.line, end.column) or source)
        yield name, place
        if isinstance(value, yaml.MappingNode):
            yield from _places(value, lines, file, f"{name}.", place.source)


def _comment(lines: list[str], line: int, column: int) -> str:
    rest = lines[line][column:].lstrip(": ") if line < len(lines) else ""
    return rest[1:].strip() if rest.startswith("#") else ""
