"""The mathematics verifier on crafted pairs, and every one of their golds against itself."""

from tests.verify.pairs import pairs

from rlcr.problem import Problem
from rlcr.verify import verify


def test_crafted_pairs() -> None:
    crafted = pairs()
    assert len(crafted) >= 150
    problems = [Problem(str(n), "", (gold,), "math") for n, (gold, _, _) in enumerate(crafted)]
    verdicts = verify(problems, [answer for _, answer, _ in crafted])
    wrongly = [
        (gold, answer, verdict.outcome)
        for (gold, answer, right), verdict in zip(crafted, verdicts, strict=True)
        if verdict.outcome != ("correct" if right else "wrong")
    ]
    assert not wrongly


def test_every_gold_of_them_can_be_read() -> None:
    """Wrapped, so that it is not the same text."""
    golds = sorted({gold for gold, _, _ in pairs()})
    problems = [Problem(str(n), "", (gold,), "math") for n, gold in enumerate(golds)]
    verdicts = verify(problems, [f"\\boxed{{{gold}}}" for gold in golds])
    assert [gold for gold, verdict in zip(golds, verdicts, strict=True) if verdict.outcome != "correct"] == []
