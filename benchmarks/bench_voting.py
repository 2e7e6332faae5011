"""Every voting curve of 5,000 questions with 64 samples each, against the plain loop over subsets.

Ours: all that `rlcr vote` computes of a pool: seven ways of choosing at N = 1 to 64, the confidence of voted
answers and adaptive sampling at nine safeties, with 1,000 bootstrap resamples of the questions. The peer is
what one would write first: for each question, each N and each of 200 random subsets, count and weigh the
answers in a dictionary, for the same seven ways; without intervals, and with no closed form. It runs on a few
questions and is scaled up: every question is the same work.
"""

from __future__ import annotations

import random
import resource
import time
from collections import defaultdict

import numpy as np

from rlcr.many.pool import Pool, make_pool
from rlcr.many.vote import task_votes

QUESTIONS, SAMPLES, SUBSETS = 5000, 64, 200
PEER_QUESTIONS, PEER_SIZES = 2, (1, 8, 16, 24, 32, 40, 48, 56, 64)
GOAL_SECONDS, GOAL_RATIO, GOAL_MB = 30, 20, 1000


def pool(questions: int = QUESTIONS, seed: int = 0) -> Pool:
    rng = np.random.default_rng(seed)
    shape = questions, SAMPLES
    chance = rng.beta(2, 2, questions)[:, None] * np.ones(shape)
    right = rng.random(shape) < chance
    groups = np.where(right, 0, np.minimum(rng.geometric(0.2, shape), 30))
    confidence = np.round(np.clip(chance + rng.normal(0, 0.2, shape), 0, 1) * 20) / 20
    ids = [str(n) for n in range(questions)]
    return make_pool(
        ids, groups.tolist(), right.astype(int).tolist(), confidence.tolist(), rng.random(shape).tolist()
    )


def peer(some: Pool, sizes: tuple[int, ...]) -> float:
    """The loop over subsets; returns the mean accuracy, so that nothing is left out."""
    rng = random.Random(0)
    total = 0.0
    for q in range(len(some)):
        groups = some.group_QM[q].tolist()
        confidence, likelihood = some.confidence_QM[q].tolist(), some.likelihood_QM[q].tolist()
        softmax = [np.exp(value / 0.2) for value in confidence]
        outcome = some.outcome_QG[q].tolist()
        for n in sizes:
            for _ in range(SUBSETS):
                drawn = rng.sample(range(SAMPLES), n)
                for weights in ([1.0] * SAMPLES, confidence, softmax, likelihood):
                    votes: defaultdict[int, float] = defaultdict(float)
                    for i in drawn:
                        votes[groups[i]] += weights[i]
                    total += outcome[max(votes, key=lambda g: votes[g])]
                for scores in (confidence, likelihood):
                    total += outcome[groups[max(drawn, key=lambda i: scores[i])]]
                total += any(outcome[groups[i]] for i in drawn)
    return total


def run() -> dict[str, float]:
    """Seconds of computing, the ratio to the loop, and the peak of memory of the whole process."""
    whole, few = pool(), pool(PEER_QUESTIONS)
    start = time.process_time()
    task_votes(whole, subsets=SUBSETS)
    ours = time.process_time() - start
    start = time.process_time()
    peer(few, PEER_SIZES)
    looped = time.process_time() - start
    looped *= QUESTIONS / PEER_QUESTIONS * SAMPLES / len(PEER_SIZES)
    return {
        "ours_s": ours,
        "loop_s": looped,
        "ratio": looped / ours,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    print(f"voting: {QUESTIONS:,} questions x {SAMPLES} samples, seven ways, N = 1 to {SAMPLES}")
    goals = {
        "ours_s": f"at most {GOAL_SECONDS}",
        "ratio": f"at least {GOAL_RATIO}",
        "peak_mb": f"at most {GOAL_MB}",
    }
    for name, value in run().items():
        goal = f"  (goal: {goals[name]})" if name in goals else ""
        print(f"  {name:12} {value:10.1f}{goal}")


if __name__ == "__main__":
    main()
