"""HotpotQA (distractor) and HotpotQA-Modified: questions that need two paragraphs out of eight.

A source question has ten titled paragraphs, two of them *gold* (named by its supporting facts).
``hotpotqa`` keeps both and six of the others. ``hotpotqa-modified`` keeps 0, 1 or 2 of them, one third of
the questions each (within one), and fills up to eight with others; the number is
``extras["gold_paragraphs"]``. Which paragraphs and in which order depends on the seed and the question.

A question is left out, with its id in the notes, when it cannot give every one of these forms (fewer than
eight other paragraphs, or not exactly two gold ones), and when it was there before; the next in the seeded
order takes its place. Leaving out for every form alike keeps the three thirds comparable.

Different from the authors' builder (paragraphs without titles, only problems under 6,000 characters,
thirds in expectation only, no seed): titles stay, for many questions cannot be answered without; any
length; exact thirds; seeded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rlcr.problem import Problem
from rlcr.tasks.plumbing.seeded import draw, rank, same_question_key, shuffled
from rlcr.tasks.plumbing.source import Source, cell, open_table, text
from rlcr.tasks.plumbing.tables import Row
from rlcr.tasks.plumbing.task import Built, Task, TaskRequest

SOURCE = Source(
    hub="hotpotqa/hotpot_qa",
    config="distractor",
    revision="1908d6afbbead072334abe2965f91bd2709910ab",
    splits={"train": "train", "test": "validation"},
    files={
        "train": ("hotpotqa/distractor_train", "hotpotqa/hotpot_train_v1.1", "hotpotqa/distractor/train"),
        "test": (
            "hotpotqa/distractor_dev",
            "hotpotqa/hotpot_dev_distractor_v1",
            "hotpotqa/distractor/validation",
        ),
    },
)
PARAGRAPHS = 8
GOLD = 2


@dataclass(frozen=True, slots=True)
class _Question:
    """A source row, read from any carrier. A paragraph is its title, a new line, and its text."""

    id: str
    question: str
    answer: str
    kind: dict[str, str]
    gold: list[str]
    others: list[str]
    place: int  # in the seeded order

    def fault(self, others_needed: int) -> str:
        """Why this question cannot be used, or nothing."""
        if len(self.gold) != GOLD:
            return f"{len(self.gold)} gold paragraphs instead of {GOLD}"
        return f"fewer than {others_needed} other paragraphs" if len(self.others) < others_needed else ""


@dataclass
class _LeftOut:
    """Questions that could not be used, by reason: their places in the seeded order and ids."""

    by_reason: dict[str, list[tuple[int, str]]] = field(default_factory=dict)

    def add(self, reason: str, question: _Question) -> None:
        self.by_reason.setdefault(reason, []).append((question.place, question.id))

    def notes(self, drawn: Sequence[_Question], exhausted: bool) -> list[str]:
        """One line for each reason, about the questions that would have been drawn before the last."""
        last = drawn[-1].place if drawn and not exhausted else None
        notes = []
        for reason, entries in sorted(self.by_reason.items()):
            ids = sorted(name for place, name in entries if last is None or place < last)
            if ids:
                done = "left out" if exhausted else "replaced by the next"
                notes.append(f"{len(ids)} questions {done}, {reason}: {', '.join(ids)}")
        return notes


def build(request: TaskRequest, gold_counts: tuple[int, ...]) -> Built:
    """Eight paragraphs a question, each of ``gold_counts`` gold ones among them equally often."""
    table = open_table(SOURCE, request.split, request.data_dir)
    left_out = _LeftOut()
    usable = _usable(table.rows(), request.seed, PARAGRAPHS - min(gold_counts), left_out)
    drawn = draw(usable, request.wanted, lambda question: question.place)
    notes = [*table.notes, *request.check_size(len(drawn))]
    exhausted = request.wanted is None or len(drawn) < request.wanted
    notes += left_out.notes(drawn, exhausted)
    problems = [
        _problem(question, gold_counts[index % len(gold_counts)], request)
        for index, question in enumerate(drawn)
    ]
    return Built(problems, table.name, table.sha256, notes)


def _usable(rows: Iterator[Row], seed: int, others_needed: int, left_out: _LeftOut) -> Iterator[_Question]:
    seen: set[int] = set()
    for row in rows:
        question = _read(row, seed)
        if fault := question.fault(others_needed):
            left_out.add(fault, question)
        elif question.place in seen:
            left_out.add("the same question again", question)
        else:
            seen.add(question.place)
            yield question


def _problem(question: _Question, gold_count: int, request: TaskRequest) -> Problem:
    def mixed(paragraphs: list[str], step: str) -> list[str]:
        return shuffled(paragraphs, request.seed, step, question.id)

    chosen = mixed(question.gold, "gold")[:gold_count]
    chosen += mixed(question.others, "others")[: PARAGRAPHS - gold_count]
    listed = [f"[{n}] {paragraph}" for n, paragraph in enumerate(mixed(chosen, "order"), start=1)]
    return request.problem(
        question.id,
        "\n\n".join([*listed, f"Question: {question.question}"]),
        (question.answer,),
        bare_question=question.question,
        gold_paragraphs=gold_count,
        **question.kind,
    )


# --- carriers ---------------------------------------------------------------------------------------


def _read(row: Row, seed: int) -> _Question:
    """Upstream's JSON (``_id``), the hub's columns (``id``), or a carrier with ``docs`` (``task_id``)."""
    question = text(row, "question")
    paragraphs = _paragraphs(row)
    gold_titles = _gold_titles(row)
    return _Question(
        id=text(row, "_id", "id", "task_id"),
        question=question,
        answer=text(row, "answer"),
        kind={name: text(row, name) for name in ("type", "level") if name in row.cells},
        gold=[paragraph for title, paragraph in paragraphs if title in gold_titles],
        others=[paragraph for title, paragraph in paragraphs if title not in gold_titles],
        place=rank(seed, same_question_key(question)),
    )


def _paragraphs(row: Row) -> list[tuple[str, str]]:
    """Title and paragraph of each."""
    context = cell(row, "context", "docs")
    try:
        if isinstance(context, dict):  # the hub: parallel lists
            pairs = zip(context["title"], context["sentences"], strict=True)
        elif "docs" in row.cells and "context" not in row.cells:
            pairs = [(doc["title"], doc["sentences"]) for doc in context]
        else:
            pairs = context
        return [
            (title.strip(), f"{title.strip()}\n{''.join(sentences).strip()}") for title, sentences in pairs
        ]
    except (TypeError, KeyError, ValueError, AttributeError):
        raise row.error("context", "expected paragraphs, each a title and its sentences") from None


def _gold_titles(row: Row) -> set[str]:
    facts: Any = cell(row, "supporting_facts", "support_titles")
    try:
        if isinstance(facts, dict):
            titles = facts["title"]
        else:
            titles = [fact if isinstance(fact, str) else fact[0] for fact in facts]
        return {title.strip() for title in titles}
    except (TypeError, KeyError, IndexError, AttributeError):
        raise row.error("supporting_facts", "expected the titles of the gold paragraphs") from None


# --- tasks ------------------------------------------------------------------------------------------

_INSTRUCTION = (
    "Use the paragraphs above where they help. Grading is by exact match, so put only the short answer "
    "itself inside the answer tags: a name, a date, a number, yes or no."
)

TASK = Task(
    name="hotpotqa",
    about="two-paragraph questions, both gold paragraphs among eight",
    sizes={"train": None, "test": 1000},
    verifier="exact",
    instruction=_INSTRUCTION,
    metrics="accuracy by exact match; by type, level",
    source=SOURCE,
    build=partial(build, gold_counts=(GOLD,)),
)
MODIFIED = Task(
    name="hotpotqa-modified",
    about="the same with 0, 1 or 2 gold paragraphs among eight, a third each",
    sizes={"train": 20_000, "test": 500},
    verifier="exact",
    instruction=_INSTRUCTION,
    metrics="accuracy by exact match; by gold_paragraphs, type, level",
    source=SOURCE,
    build=partial(build, gold_counts=(0, 1, GOLD)),
)
