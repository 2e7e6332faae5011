"""Big-Math digits: problems with numeric answers that an 8B model solves sometimes but not mostly.

Kept are rows with a known solve rate of Llama-3.1-8B in (``min_solve_rate``, ``max_solve_rate``] and an
answer that is a finite number of fewer than 20 characters. The paper says "0-70%"; the authors' code takes
rates below 0.75, and their finished test file has rates up to 0.734. That file is loaded whole, unfiltered.

Train and test are kept apart by the question itself: a hash of it, whatever the seed and the bounds, puts
one question in ten in the test pool. So a training set of one seed never meets a test set of another, and
two wordings that differ only in case or spacing fall on the same side. Where the authors' test file lies in
the data directory, its questions are left out of training too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from rlcr.problem import Problem
from rlcr.tasks.plumbing.seeded import draw, rank, same_question_key
from rlcr.tasks.plumbing.source import Source, SourceTable, cell, find_files, open_table, text
from rlcr.tasks.plumbing.tables import Row
from rlcr.tasks.plumbing.take import take
from rlcr.tasks.plumbing.task import Built, Task, TaskRequest

FINISHED = "bigmath/rlcr_digits_test"
_POOL = ("bigmath/train", "bigmath/data/train")
SOURCE = Source(
    hub="SynthLabsAI/Big-Math-RL-Verified",
    revision="c75d2f117cddfecb6bd08756e61e508e59732b21",
    splits={"train": "train", "test": "train"},
    files={"train": _POOL, "test": (FINISHED, *_POOL)},
)
_RATE = "llama8b_solve_rate"
_ONE_IN = 10
_LONGEST_ANSWER = 19


def build(request: TaskRequest) -> Built:
    """The authors' finished test split whole, or problems drawn from the filtered pool."""
    table = open_table(SOURCE, request.split, request.data_dir)
    finished = find_files(request.data_dir, (FINISHED,)) if request.data_dir else ()
    held_out = SourceTable(finished if request.split == "train" else (), FINISHED)
    if table.name.startswith(FINISHED):
        problems = (_problem(row, number, request) for number, row in enumerate(table.rows()))
        return take(table, problems, request, ["the authors' finished test split: no filter applied"])
    low, high = request.settings["min_solve_rate"], request.settings["max_solve_rate"]
    dropped: Counter[str] = Counter()
    held_out_questions = {same_question_key(text(row, "problem")) for row in held_out.rows()}
    pool = _pool(table, request, low, high, held_out_questions, dropped)
    drawn = draw(pool, request.wanted, lambda p: rank(request.seed, same_question_key(p.question)))
    notes = [f"{count:,} rows left out: {reason}" for reason, count in sorted(dropped.items())]
    notes += [*table.notes, *request.check_size(len(drawn))]
    return Built(drawn, table.name, table.sha256, notes)


def is_numeric(answer: str) -> bool:
    """Whether an answer is a finite number, short enough to be one that people write.

    >>> is_numeric("-20.5"), is_numeric("1/2"), is_numeric("inf"), is_numeric("1" * 20)
    (True, False, False, False)
    """
    answer = answer.strip()
    # float() also takes 1_000 and digits of other scripts, which no verifier reads as numbers.
    if len(answer) > _LONGEST_ANSWER or "_" in answer or not answer.isascii():
        return False
    try:
        return math.isfinite(float(answer))
    except ValueError:
        return False


def _pool(
    table: SourceTable,
    request: TaskRequest,
    low: float,
    high: float,
    held_out: set[str],
    dropped: Counter[str],
) -> Iterator[Problem]:
    for number, row in enumerate(table.rows()):
        rate = _solve_rate(row)
        question = same_question_key(text(row, "problem"))
        if rate is None:
            dropped["no solve rate"] += 1
        elif not low < rate <= high:
            dropped[f"solve rate outside ({low:g}, {high:g}]"] += 1
        elif not is_numeric(str(cell(row, "answer"))):
            dropped["answer is not a short number"] += 1
        elif (rank("big-math test pool", question) % _ONE_IN == 0) != (request.split == "test"):
            continue  # it belongs to the other split
        elif question in held_out:
            dropped["question of the authors' test file"] += 1
        else:
            yield _problem(row, number, request)


def _solve_rate(row: Row) -> float | None:
    """The solve rate, or None for an empty cell, null or NaN."""
    value = cell(row, _RATE)
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    try:
        rate = float(value)
    except (TypeError, ValueError):
        raise row.error(_RATE, f"expected a number, found {value!r}") from None
    return None if math.isnan(rate) else rate


def _problem(row: Row, number: int, request: TaskRequest) -> Problem:
    extras = {"source": cell(row, "source"), "solve_rate": _solve_rate(row)}
    return request.problem(number, text(row, "problem"), (text(row, "answer"),), **extras)


TASK = Task(
    name="bigmath-digits",
    about="mathematics with numeric answers",
    sizes={"train": 15_000, "test": 1000},
    verifier="math",
    instruction="Put the final number alone inside the answer tags, without units or words.",
    metrics="accuracy by math-verify; by source, solve_rate",
    source=SOURCE,
    settings={"min_solve_rate": 0.0, "max_solve_rate": 0.70},
    build=build,
)
