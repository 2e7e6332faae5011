"""Comparisons of formulas in worker processes: sympy can neither be trusted to end nor be interrupted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from rlcr.verify._pool import WorkerPool
from rlcr.verify._process import WorkerCrashed, WorkerLost
from rlcr.verify.verdict import Verdict

POOL = WorkerPool("rlcr.verify._math_worker")

_BEST_FIRST = ("correct", "unscorable", "wrong")


@dataclass(frozen=True, slots=True)
class Job:
    """One comparison: an answer with the aliases of its gold."""

    golds: tuple[str, ...]
    answer: str
    paper: bool = False


def compare(job: Job, limit: float, pool: WorkerPool = POOL) -> Verdict:
    """The worker's verdict. An answer that stops the worker is wrong, if its gold by itself does not.

    Were it unscorable, a policy could write such answers to escape its penalty.
    """
    verdict, why = _ask(asdict(job), limit, pool)
    if verdict:
        return verdict
    if job.paper:  # where the gold is never read, so that it is never at fault
        return Verdict("wrong", f"answer {why}")
    gold, *others = job.golds
    if others:  # one of which may be to blame, while another decides
        verdicts = [compare(replace(job, golds=(gold,)), limit, pool) for gold in job.golds]
        return next(v for outcome in _BEST_FIRST for v in verdicts if v.outcome == outcome)
    checked, gold_why = _ask({"check": gold}, limit, pool)
    if checked is None:
        return Verdict("unscorable", f"gold {gold_why}")
    return Verdict("wrong", f"answer {why}") if checked.correct else checked


def _ask(job: dict[str, Any], limit: float, pool: WorkerPool) -> tuple[Verdict | None, str]:
    """A worker's verdict, or how the job stopped the worker."""
    try:
        outcome, reason = pool.ask(job, limit)
    except TimeoutError:
        return None, f"timed out after {limit:g} s"
    except WorkerCrashed:
        return None, "took all memory or crashed the verifier"
    except WorkerLost:
        return Verdict("unscorable", "the verifier's processes were killed, again and again"), ""
    return Verdict(outcome, reason), ""


def settle(looks: Sequence[Verdict | Job], limit: float, pool: WorkerPool = POOL) -> list[Verdict]:
    """Verdicts as they are, jobs done by the pool; a job that a batch holds twice is done once."""
    jobs = list(dict.fromkeys(look for look in looks if isinstance(look, Job)))
    verdicts = dict(zip(jobs, pool.map(lambda job: compare(job, limit, pool), jobs), strict=True))
    return [verdicts[look] if isinstance(look, Job) else look for look in looks]
