"""The verifier of reasoning-gym problems: the dataset's own scorer (``pip install "rlcr[gym]"``).

Correct is a score of exactly 1.0; part credit is wrong. A problem says in its extras which dataset it is of,
with which settings and metadata; :mod:`rlcr.tasks.gym` makes such problems.

reasoning-gym runs in processes of its own (:mod:`rlcr.verify._gym_worker`), for reasons found in its 0.1.25:

- four scorers call ``eval`` on the answer and five more call sympy's parser, which does: the worker lets no
  text near either that is not plain arithmetic;
- scorers may take for ever or eat all memory ("R9999999" to the cube): then the process is replaced;
- five datasets (isomorphic_strings, knight_swap, polynomial_multiplication, ransom_note, word_ladder) make
  other problems under another ``PYTHONHASHSEED``, so those processes have a fixed one;
- generators print, and one reseeds numpy's global stream.

A scorer that raises on an answer, or finds no end, has met an answer it cannot read: wrong, unless the same
happens with the gold. Processes that are killed from outside say nothing about the answer: unscorable, if
that happens again and again.

Stricter than the library, which takes any text at all for correct in ``game_of_life_halting`` (here only the
gold), "nan" in ``complex_arithmetic`` (here wrong), and in ``intermediate_integration`` the question itself
written as ``Integral(…)`` (here only if that is the gold).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

from rlcr.errors import RlcrError
from rlcr.problem import Problem
from rlcr.verify._pool import Pool
from rlcr.verify._process import WorkerCrashed, WorkerLost, WorkerStopped
from rlcr.verify.verdict import CORRECT, NO_ANSWER, WRONG, Verdict

#: Seconds of computing for one score.
TIME_LIMIT = 5.0
#: The longest gold met is a tenth of this.
MAX_CHARACTERS = 50_000

POOL = Pool("rlcr.verify._gym_worker", environment={"PYTHONHASHSEED": "0"})


def verify_gym(
    problems: Sequence[Problem], answers: Sequence[str | None], *, time_limit: float = TIME_LIMIT
) -> list[Verdict]:
    """Correct when the dataset's own scorer gives exactly 1.0."""
    pairs = list(zip(problems, answers, strict=True))
    return POOL.map(lambda pair: _verify(*pair, time_limit), pairs)


def make_problems(dataset: str, settings: dict[str, Any], seed: int, size: int) -> list[dict[str, Any]]:
    """The first ``size`` problems of a dataset whose gold passes the scorer.

    Each has index, question, gold and metadata.
    """
    job = {"do": "make", "dataset": dataset, "settings": settings, "seed": seed, "size": size}
    try:
        return _ask(job, limit=None)["problems"]
    except WorkerStopped as error:
        raise RlcrError(f"gym {dataset}: reasoning-gym crashed at seed {seed}") from error


def _verify(problem: Problem, answer: str | None, limit: float) -> Verdict:
    answer = (answer or "").strip()
    if not answer:
        return NO_ANSWER
    if len(answer) > MAX_CHARACTERS:
        return Verdict("wrong", f"answer is longer than {MAX_CHARACTERS:,} characters")
    try:
        score, fault = _score(problem, answer, limit)
        if score is not None:
            return CORRECT if score == 1.0 else WRONG
        # Whose fault is it? The scorer reads the gold or it reads nothing.
        score, gold_fault = _score(problem, problem.gold[0], limit)
    except WorkerLost:
        return Verdict("unscorable", "the scorer's processes were killed, again and again")
    if score == 1.0:
        return Verdict("wrong", f"the scorer cannot read the answer ({fault})")
    return Verdict("unscorable", f"the scorer fails on the gold ({gold_fault or f'its score is {score:g}'})")


def _score(problem: Problem, answer: str, limit: float) -> tuple[float | None, str]:
    """The score of an answer, or how the scorer broke down over it."""
    try:
        reply = _ask(_score_job(problem, answer), limit)
    except TimeoutError:
        return None, f"timed out after {limit:g} s"
    except WorkerCrashed:
        return None, "took all memory or crashed"
    return reply.get("score"), reply.get("raised", "")


def _score_job(problem: Problem, answer: str) -> dict[str, Any]:
    try:
        extras = {key: problem.extras[key] for key in ("dataset", "settings", "metadata")}
    except KeyError as error:
        raise RlcrError(f"{problem.id}: not a problem of the gym task, its extras lack {error}") from error
    return {"do": "score", "question": problem.question, "gold": problem.gold[0], "answer": answer, **extras}


def _ask(job: dict[str, Any], limit: float | None) -> dict[str, Any]:
    if importlib.util.find_spec("reasoning_gym") is None:
        raise RlcrError('the gym tasks need reasoning-gym: pip install "rlcr[gym]"')
    reply = POOL.ask(job, limit)
    if "error" in reply:
        raise RlcrError(reply["error"])
    return reply
