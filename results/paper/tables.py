"""Reads tables.yaml: every cell as printed, with what it measures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from rlcr.errors import RlcrError

FILE = Path(__file__).parent / "tables.yaml"
_CELL = re.compile(r"(?P<bold>\*?)(?P<number>\d+(\.\d+)?)(±(?P<half_width>\d+(\.\d+)?))?")


class Place(NamedTuple):
    """Where a cell stands."""

    table: str
    row: str
    group: str
    column: str

    def __str__(self) -> str:
        return " / ".join(self)


class Measured(NamedTuple):
    """What a cell measures: two cells with the same value of this must agree."""

    model: str
    trained_on: str
    """Empty for the base model on a data set; its averages are over those of the models it stands beside."""
    method: str
    data: str
    """A data set, or the name of an average."""
    column: str


@dataclass(frozen=True)
class Number:
    """A number as printed, with the interval of what it may have been rounded from."""

    printed: str

    @property
    def value(self) -> float:
        """The number itself."""
        return float(self.printed)

    @property
    def slack(self) -> float:
        """Half a unit of the last printed digit."""
        exponent = Decimal(self.printed).as_tuple().exponent
        return 0.5 * 10.0 ** int(exponent)

    def may_be(self, low: float, high: float | None = None) -> bool:
        """Whether a number in the interval may have been printed so: rounded up or down, not cut off."""
        high = low if high is None else high
        return low - 1e-9 <= self.value + self.slack and self.value - self.slack <= high + 1e-9


@dataclass(frozen=True)
class Cell:
    """One printed cell. Rows that share RLVR's accuracy have a cell of their own with `spanned` set."""

    place: Place
    measured: Measured
    number: Number
    half_width: Number | None
    bold: bool
    spanned: bool
    better: str
    """`up` or `down`."""

    @property
    def scale(self) -> float:
        """What a printed number is divided by to be a share or a score."""
        return 100.0 if self.place.column == "accuracy" else 1.0

    @property
    def share(self) -> tuple[float, float]:
        """Least and largest value that the printed number may stand for, as a share or a score."""
        low, high = self.number.value - self.number.slack, self.number.value + self.number.slack
        return max(low, 0.0) / self.scale, high / self.scale


@dataclass(frozen=True)
class Quote:
    """A number of a table that the running text or a caption repeats."""

    where: str
    says: Number
    place: Place


@dataclass(frozen=True)
class Paper:
    """All that was typed in. A cell that the paper prints as not available is not among the cells."""

    cells: Mapping[Place, Cell]
    questions: Mapping[str, int]
    averages: Mapping[str, Mapping[str, list[str]]]
    quotes: list[Quote]

    def of(self, measured: Measured) -> list[Cell]:
        """The cells that print this measurement."""
        return [cell for cell in self.cells.values() if cell.measured == measured]


def load(path: Path = FILE) -> Paper:
    """Read the file; an unreadable cell is an error that names it."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    averages = content["averages"]
    cells: dict[Place, Cell] = {}
    for name, table in content["tables"].items():
        for place, text in _texts(path, name, table):
            untrained = place.row == "Base" and place.group not in averages.get(table["trained_on"], {})
            trained_on = "" if untrained else table["trained_on"]
            measured = Measured(table["model"], trained_on, place.row, place.group, place.column)
            if text == "=":
                cells[place] = replace(
                    cells[place._replace(row="RLVR")], place=place, measured=measured, spanned=True
                )
            elif text != "-":
                cells[place] = _cell(path, place, measured, text, content["columns"][place.column])
    quotes = [Quote(each["place"], Number(each["says"]), Place(*each["cell"])) for each in content["text"]]
    return Paper(cells, content["questions"], averages, quotes)


def _texts(path: Path, name: str, table: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
    columns = table["columns"]
    for row, groups in table["rows"].items():
        for group, line in groups.items():
            texts = line.split()
            if len(texts) != len(columns):
                where = f"{path}, {name} / {row} / {group}"
                raise RlcrError(f"{where}: {len(texts)} cells for the {len(columns)} columns of the table")
            for column, text in zip(columns, texts, strict=True):
                yield Place(name, row, group, column), text


def _cell(path: Path, place: Place, measured: Measured, text: str, better: str) -> Cell:
    if not (match := _CELL.fullmatch(text)):
        raise RlcrError(f"{path}, {place}: {text!r} is not a cell; write it as the head of the file says")
    half_width = Number(match["half_width"]) if match["half_width"] else None
    return Cell(place, measured, Number(match["number"]), half_width, bool(match["bold"]), False, better)
