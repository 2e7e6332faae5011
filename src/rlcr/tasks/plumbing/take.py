"""The common path of a dataset: every row becomes a problem, then as many as wanted are taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from rlcr.errors import RlcrError
from rlcr.problem import Problem
from rlcr.tasks.plumbing.seeded import draw, rank
from rlcr.tasks.plumbing.source import Source, SourceTable, open_table
from rlcr.tasks.plumbing.tables import Row
from rlcr.tasks.plumbing.task import Built, TaskRequest


def build_rows(
    source: Source, request: TaskRequest, to_problem: Callable[[Row, int, TaskRequest], Problem]
) -> Built:
    """Build every row of the source's split. ``to_problem`` gets the row and its number, from 0."""
    table = open_table(source, request.split, request.data_dir)
    problems = (to_problem(row, number, request) for number, row in enumerate(table.rows()))
    return take(table, problems, request)


def take(
    table: SourceTable, problems: Iterable[Problem], request: TaskRequest, notes: Iterable[str] = ()
) -> Built:
    """Take the wanted number of problems: drawn with the seed, kept in the order of the source."""
    numbered = list(enumerate(problems))
    check_ids((problem for _, problem in numbered), table.name)  # the draw would swallow repeats
    taken = sorted(
        draw(numbered, request.wanted, lambda pair: rank(request.seed, pair[1].id)), key=lambda pair: pair[0]
    )
    notes = [*table.notes, *notes, *request.check_size(len(numbered))]
    return Built([problem for _, problem in taken], table.name, table.sha256, notes)


def check_ids(problems: Iterable[Problem], source: str) -> None:
    """Raise where an id stands for several problems."""
    counts = Counter(problem.id for problem in problems)
    repeated = [name for name, count in counts.items() if count > 1]
    if repeated:
        more = f" and {len(repeated) - 1:,} more" if len(repeated) > 1 else ""
        raise RlcrError(f"{source}: the id {repeated[0]}{more} stands for several problems; make ids unique")
