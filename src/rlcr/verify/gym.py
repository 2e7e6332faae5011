"""The verifier of reasoning-gym problems: the dataset's own scorer (``pip install "rlcr[gym]"``).

Correct is a score of exactly 1.0; part credit is wrong. A problem says in its extras where it is from
(dataset, settings, seed, size, index) and carries the metadata; :mod:`rlcr.tasks.gym` makes such problems.

reasoning-gym runs in processes of its own (:mod:`rlcr.verify._gym_worker`), for reasons found in its 0.1.25:

- four scorers call ``eval`` on the answer and five more call sympy's parser, which does: the worker lets no
  text near either that is not plain arithmetic;
- five scorers do the same to the gold or the metadata, and these may come from a file that someone else
  wrote. So a problem is made again from its seed before anything is scored, and one that differs in question,
  gold or metadata is unscorable. This is done once for each problem, and not for those made by this process;
- scorers may take forever or use up all memory ("R9999999" to the cube): then the process is replaced;
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

import hashlib
import importlib.util
import json
from collections.abc import Callable, Sequence
from typing import Any

from rlcr.errors import RlcrError
from rlcr.problem import Problem
from rlcr.verify._pool import WorkerPool
from rlcr.verify._process import WorkerCrashed, WorkerLost, WorkerStopped
from rlcr.verify.verdict import CORRECT, NO_ANSWER, WRONG, BadProblem, Verdict

#: Seconds of computing for one score.
TIME_LIMIT = 5.0
#: The longest gold met is a tenth of this.
MAX_CHARACTERS = 50_000

#: Seconds of computing to make one problem again; the slowest dataset takes about three.
REBUILD_LIMIT = 60.0


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


#: In the extras: where the problem is from.
ORIGIN: dict[str, tuple[Callable[[Any], bool], str]] = {
    "dataset": (lambda value: isinstance(value, str), "a text"),
    "settings": (lambda value: isinstance(value, dict), "an object"),
    "seed": (_is_whole, "a whole number"),
    "size": (_is_whole, "a whole number"),
    "index": (_is_whole, "a whole number"),
}

#: Digests of the problems that are known to be the library's own.
_PROVEN: set[bytes] = set()

POOL = WorkerPool("rlcr.verify._gym_worker", environment={"PYTHONHASHSEED": "0"})


def verify_gym(
    problems: Sequence[Problem], answers: Sequence[str | None], *, time_limit: float = TIME_LIMIT
) -> list[Verdict]:
    """Correct when the dataset's own scorer gives exactly 1.0."""
    faults = _faults(problems)
    jobs = list(zip(problems, faults, answers, strict=True))
    return POOL.map(lambda job: _verify(*job, time_limit), jobs)


def make_problems(dataset: str, settings: dict[str, Any], seed: int, size: int) -> list[dict[str, Any]]:
    """The first ``size`` problems of a dataset whose gold passes the scorer.

    Each has question, gold, metadata, and where it is from: dataset, settings, seed, size and index.
    """
    origin = {"dataset": dataset, "settings": settings, "seed": seed, "size": size}
    try:
        entries = _ask({"do": "make", **origin}, limit=None)["problems"]
    except WorkerStopped as error:
        raise RlcrError(f"gym {dataset}: reasoning-gym crashed at seed {seed}") from error
    problems = [{**origin, **problem} for problem in entries]
    _PROVEN.update(map(_digest, problems))
    return problems


def require_origin(problem: Problem) -> None:
    """Raise unless a problem says which dataset, settings, seed, size and index it is from."""
    rebuild = "build it again with `rlcr tasks build gym`"
    name_of_it = f"{problem.id}: " if problem.id else ""
    for name, (fits, expected) in ORIGIN.items():
        if name not in problem.extras:
            raise BadProblem(
                f"{name_of_it}not a problem of the gym task, its extras lack {name!r}: {rebuild} "
                "(older versions did not write the seed)"
            )
        if not fits(value := problem.extras[name]):
            raise BadProblem(f"{name_of_it}extras: {name} must be {expected}, found {value!r:.60}: {rebuild}")


def _faults(problems: Sequence[Problem]) -> list[str]:
    """For each problem why it cannot be scored, which is empty where it is what its seed gives."""
    contents = [_content(problem) for problem in problems]
    digests = [_digest(content) for content in contents]
    unproven = {
        digest: content for digest, content in zip(digests, contents, strict=True) if digest not in _PROVEN
    }
    faults = dict(zip(unproven, POOL.map(_fault, list(unproven.values())), strict=True))
    _PROVEN.update(digest for digest, fault in faults.items() if not fault)
    return [faults.get(digest, "") for digest in digests]


def _fault(content: dict[str, Any]) -> str:
    try:
        return _ask({"do": "check", **content}, REBUILD_LIMIT)["fault"]
    except TimeoutError:
        return f"the problem cannot be made again within {REBUILD_LIMIT:g} s"
    except WorkerStopped:
        return "reasoning-gym crashed while it made the problem again"


def _content(problem: Problem) -> dict[str, Any]:
    """All that the library reads of a problem, and where it says it is from."""
    require_origin(problem)
    origin = {name: problem.extras[name] for name in ORIGIN}
    # A second gold would never be read; problems that reasoning-gym makes have one.
    gold = problem.gold[0] if len(problem.gold) == 1 else list(problem.gold)
    return {
        **origin, "question": problem.question, "gold": gold, "metadata": problem.extras.get("metadata"),
    }  # fmt: skip


def _digest(content: dict[str, Any]) -> bytes:
    try:
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).digest()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadProblem(f"gym {content['dataset']}: the problem is not plain JSON: {error}") from error


def _verify(problem: Problem, fault: str, answer: str | None, limit: float) -> Verdict:
    if fault:
        return Verdict("unscorable", fault)
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
    extras = {key: problem.extras[key] for key in ("dataset", "settings", "metadata")}
    return {"do": "score", "question": problem.question, "gold": problem.gold[0], "answer": answer, **extras}


def _ask(job: dict[str, Any], limit: float | None) -> dict[str, Any]:
    if importlib.util.find_spec("reasoning_gym") is None:
        raise RlcrError('the gym tasks need reasoning-gym: pip install "rlcr[gym]"')
    reply = POOL.ask(job, limit)
    if "error" in reply:
        raise BadProblem(reply["error"])
    return reply
