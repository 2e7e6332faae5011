"""Do two sets of problems share questions? Training on what is tested on measures memory."""

from __future__ import annotations

from dataclasses import dataclass

from rlcr.problem import Problem
from rlcr.tasks.seeded import same_question_key

Pair = tuple[str, str]


@dataclass(frozen=True)
class Overlap:
    """Pairs of ids, one of each set, whose questions are the same.

    ``exact``: letter by letter. ``normalised``: only after :func:`rlcr.tasks.seeded.same_question_key`.
    """

    sizes: tuple[int, int]
    exact: tuple[Pair, ...]
    normalised: tuple[Pair, ...]

    def __str__(self) -> str:
        lines = [
            f"{self.sizes[0]:,} and {self.sizes[1]:,} problems: {len(self.exact):,} exact duplicates, "
            f"{len(self.normalised):,} more that differ in case, spacing, quotes or punctuation only"
        ]
        lines += [f"exact\t{a}\t{b}" for a, b in self.exact]
        lines += [f"normalised\t{a}\t{b}" for a, b in self.normalised]
        return "\n".join(lines)


def bare_question(problem: Problem) -> str:
    """The question without paragraphs and options, which may differ where the question does not."""
    return problem.extras.get("bare_question", problem.question)


def overlap(a: list[Problem] | tuple[Problem, ...], b: list[Problem] | tuple[Problem, ...]) -> Overlap:
    """Every pair of problems, one of ``a`` and one of ``b``, that ask the same.

    >>> found = overlap([Problem("a/1", "Who?", ("x",), "exact")], [Problem("b/7", "who", ("x",), "exact")])
    >>> found.exact, found.normalised
    ((), (('a/1', 'b/7'),))
    """
    of_key: dict[str, list[Problem]] = {}
    for problem in a:
        of_key.setdefault(same_question_key(bare_question(problem)), []).append(problem)
    exact: list[Pair] = []
    normalised: list[Pair] = []
    for problem in b:
        question = bare_question(problem)
        for other in of_key.get(same_question_key(question), ()):
            pairs = exact if bare_question(other) == question else normalised
            pairs.append((other.id, problem.id))
    return Overlap((len(a), len(b)), tuple(exact), tuple(normalised))
