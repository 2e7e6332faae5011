"""Do two sets of problems share questions? Training on what is tested on measures memory."""

from __future__ import annotations

from dataclasses import dataclass

from rlcr.problem import Problem
from rlcr.tasks.plumbing.seeded import same_question_key

Pair = tuple[str, str]

#: A longer list is cut when it is printed.
_PRINTED = 20


@dataclass(frozen=True)
class Overlap:
    """The problems of the second set whose question the first has too, each with the first that asks it.

    ``exact``: letter by letter. ``normalised``: only after
    :func:`rlcr.tasks.plumbing.seeded.same_question_key`.
    A pair is an id of the first set and one of the second, which is in one pair at most.
    """

    sizes: tuple[int, int]
    exact: tuple[Pair, ...]
    normalised: tuple[Pair, ...]

    def __str__(self) -> str:
        head = (
            f"{self.sizes[0]:,} and {self.sizes[1]:,} problems: of the second, {len(self.exact):,} are exact "
            f"duplicates, {len(self.normalised):,} more differ in case, spacing, quotes or punctuation only"
        )
        lines = [f"exact\t{a}\t{b}" for a, b in self.exact]
        lines += [f"normalised\t{a}\t{b}" for a, b in self.normalised]
        more = [f"… and {len(lines) - _PRINTED:,} more"] if len(lines) > _PRINTED else []
        return "\n".join([head, *lines[:_PRINTED], *more])


def bare_question(problem: Problem) -> str:
    """The question without paragraphs and options, which may differ where the question does not."""
    return problem.extras.get("bare_question", problem.question)


def overlap(a: list[Problem] | tuple[Problem, ...], b: list[Problem] | tuple[Problem, ...]) -> Overlap:
    """Every problem of ``b`` that asks what one of ``a`` does, letter by letter if there is such a one.

    >>> shared = overlap([Problem("a/1", "Who?", ("x",), "exact")], [Problem("b/7", "who", ("x",), "exact")])
    >>> shared.exact, shared.normalised
    ((), (('a/1', 'b/7'),))
    """
    by_question: dict[str, str] = {}
    by_key: dict[str, str] = {}
    for problem in a:
        question = bare_question(problem)
        by_question.setdefault(question, problem.id)
        by_key.setdefault(same_question_key(question), problem.id)
    exact: list[Pair] = []
    normalised: list[Pair] = []
    for problem in b:
        question = bare_question(problem)
        if question in by_question:
            exact.append((by_question[question], problem.id))
        elif (key := same_question_key(question)) in by_key:
            normalised.append((by_key[key], problem.id))
    return Overlap((len(a), len(b)), tuple(exact), tuple(normalised))
