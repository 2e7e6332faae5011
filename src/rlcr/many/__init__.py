"""Test-time scaling: what many samples of a question are worth, by the way in which one answer is chosen.

    pool             the samples of a task as arrays, answers grouped by the task's own equality
    exact            closed forms: majority, highest score, pass@N
    subsets          weighted votes over all or over seeded subsets
    curves           accuracy against N with bands; differences from a plain majority
    vote_confidence  how sure one may be of a voted answer
    standings        one vote: the answers to a question, the leading one first
    stopping         when to stop sampling a question
    halves           what is chosen on one half of the questions is checked on the other
    vote             the whole of `rlcr vote`
    ensembling       several analyses of one answer
    coherence        whether confidences agree with each other
    selective        answering only when sure enough

Beyond the paper: closed forms instead of drawn subsets where there are any, CISC's softmax weights, the
confidence of voted answers, adaptive sampling.
"""

from rlcr.lazy import submodules

__getattr__ = submodules(__name__)
