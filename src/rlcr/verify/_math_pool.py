"""Comparisons of formulas in worker processes: sympy can neither be trusted to end nor be interrupted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rlcr.verify._pool import Pool
from rlcr.verify._process import WorkerStopped
from rlcr.verify.verdict import Verdict

POOL = Pool("rlcr.verify._math_worker")


@dataclass(frozen=True, slots=True)
class Job:
    """One comparison: an answer with the aliases of its gold."""

    golds: tuple[str, ...]
    answer: str
    paper: bool = False


def compare(job: Job, limit: float, pool: Pool = POOL) -> Verdict:
    """The worker's verdict, or unscorable because it had to be stopped or broke down."""
    try:
        outcome, reason = pool.ask(asdict(job), limit)
    except TimeoutError:
        return Verdict("unscorable", f"timed out after {limit:g} s")
    except WorkerStopped:
        return Verdict("unscorable", "verifier ran out of memory or crashed")
    return Verdict(outcome, reason)


def settle(looks: Sequence[Verdict | Job], limit: float, pool: Pool = POOL) -> list[Verdict]:
    """Verdicts as they are, jobs done by the pool; a job that a batch holds twice is done once."""
    jobs = list(dict.fromkeys(look for look in looks if isinstance(look, Job)))
    verdicts = dict(zip(jobs, pool.map(lambda job: compare(job, limit, pool), jobs), strict=True))
    return [verdicts[look] if isinstance(look, Job) else look for look in looks]
