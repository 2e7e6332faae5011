"""TriviaQA without context: what does the model know by itself?

The authors took questions of the validation set with at most five aliases; 304 of their 2,000 rows repeat
an earlier question. Their finished file is loaded whole, repeats included, so that their numbers can be
reproduced; a repeat has ``#2``, ``#3``, … after its id and is counted in the notes. From the hub we draw
2,000 questions under the same limit, ``max_aliases`` (None or null for no limit).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rlcr.problem import Problem
from rlcr.tasks.plumbing.source import Source, cell, open_table, text
from rlcr.tasks.plumbing.tables import Row
from rlcr.tasks.plumbing.take import take
from rlcr.tasks.plumbing.task import Built, Task, TaskRequest

FINISHED = "triviaqa/rlcr_nocontext_2000"
SOURCE = Source(
    hub="mandarjoshi/trivia_qa",
    config="rc.nocontext",
    revision="0f7faf33a3908546c6fd5b73a660e0f8ff173c2f",
    splits={"test": "validation"},
    files={"test": (FINISHED, "triviaqa/rc.nocontext/validation")},
)


def build(request: TaskRequest) -> Built:
    """The authors' finished file whole, or questions with few aliases from the validation set."""
    table = open_table(SOURCE, request.split, request.data_dir)
    finished = table.name.startswith(FINISHED)
    limit = None if finished else request.settings["max_aliases"]
    seen: Counter[str] = Counter()
    problems = list(_problems(table.rows(), request, limit, seen))
    repeats = seen.total() - len(seen)
    notes = [f"{repeats:,} rows repeat the question of an earlier row"] if repeats else []
    return take(table, problems, request, notes)


def _problems(
    rows: Iterator[Row], request: TaskRequest, limit: int | None, seen: Counter[str]
) -> Iterator[Problem]:
    for row in rows:
        aliases = _aliases(row)
        if limit is not None and len(aliases) > limit:
            continue
        key = text(row, "question_id")
        seen[key] += 1
        name = key if seen[key] == 1 else f"{key}#{seen[key]}"
        yield request.problem(name, text(row, "question"), aliases)


def _aliases(row: Row) -> tuple[str, ...]:
    answer = cell(row, "answer")  # a list of aliases, or upstream an object that has one
    aliases = answer.get("aliases") if isinstance(answer, dict) else answer
    if not isinstance(aliases, list) or not aliases or not all(isinstance(alias, str) for alias in aliases):
        raise row.error("answer", "no gold: expected a list of aliases")
    return tuple(aliases)


TASK = Task(
    name="triviaqa",
    about="trivia without context",
    sizes={"test": 2000},
    verifier="exact",
    also=("judge",),
    instruction="Put the short answer alone inside the answer tags: a name, a date or a number, no sentence.",
    metrics="the paper grades with a judge; exact match with any alias is stricter",
    source=SOURCE,
    settings={"max_aliases": 5},
    optional=("max_aliases",),
    build=build,
)
