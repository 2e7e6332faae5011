"""Which columns of a data set hold what is needed to judge a completion, where engines pass whole rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from rlcr.adapters.core import Row
from rlcr.errors import RlcrError, nearest


@dataclass(frozen=True)
class Fields:
    """The names of columns: the gold, and where a row has them its choices, question and verifier."""

    gold: str
    choices: str | None = None
    question: str | None = None
    verifier: str | None = None

    def row(self, completion: object, value_of: Callable[[str], Any], **more: Any) -> Row:
        """The row of a completion; ``value_of`` gives what a column holds there."""
        about = {what: value_of(name) for what, name in self._about()}
        return Row.of(completion, value_of(self.gold), about | more)

    def check(self, columns: Collection[str]) -> None:
        """Raise if a named column is none of those that there are."""
        for what, name in (("gold", self.gold), *self._about()):
            if name not in columns:
                known = nearest(name, list(map(str, columns)))
                raise RlcrError(f"no column {name!r} ({what}) in the data set: {known}")

    def _about(self) -> Iterator[tuple[str, str]]:
        for what, name in (
            ("choices", self.choices),
            ("question", self.question),
            ("verifier", self.verifier),
        ):
            if name is not None:
                yield what, name
