"""What metrics refuse, in one clear line."""

import re
from collections.abc import Callable
from typing import Any, cast

import pytest

from rlcr import metrics
from rlcr.errors import RlcrError

BAD_ROWS: list[tuple[Any, Any, str]] = [
    ([1, 0], [0.5, 1.7], r"confidence\[1\] is 1.7: expected a number from 0 to 1"),
    ([1, 0], [-0.1, 0.5], r"confidence\[0\] is -0.1"),
    ([1, 0], [0.5, float("inf")], r"confidence\[1\] is inf"),
    ([1, 0], ["0.5", "x"], r"confidence\[0\] is '0.5'"),
    ([1, 0], [0.5, "high"], r"confidence\[\d\] is '"),
    ([1, 0], [0.5], r"confidence has 1 rows and correct has 2"),
    ([1, 0], [[0.5, 0.5]], r"confidence has 2 dimensions"),
    ([1, 0], [[0.5], [0.5, 0.1]], r"confidence is not a flat list"),
    ([], [], r"correct is empty"),
    ([1, 2], [0.5, 0.5], r"correct\[1\] is 2: expected 0, 1, True or False"),
    ([1, 0.5], [0.5, 0.5], r"correct\[1\] is 0.5"),
    ([1, None], [0.5, 0.5], r"correct\[1\] is None"),
    ([1, float("nan")], [0.5, 0.5], r"correct\[1\] is nan"),
    (["yes", "no"], [0.5, 0.5], r"correct\[0\] is 'yes'"),
]


@pytest.mark.parametrize(("correct", "confidence", "message"), BAD_ROWS)
def test_bad_rows_raise_one_clear_line(correct: Any, confidence: Any, message: str) -> None:
    with pytest.raises(RlcrError, match=message) as raised:
        metrics.brier(correct, confidence)
    assert "\n" not in str(raised.value)
    with pytest.raises(RlcrError, match=message):
        metrics.summary(correct, confidence)
    with pytest.raises(RlcrError, match=r"_b\b"):
        metrics.compare([1, 0], [0.5, 0.5], correct, confidence)


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_plain_metrics_refuse_missing_confidence(missing: Any) -> None:
    with pytest.raises(RlcrError, match=re.escape(f"confidence[1] is {missing}: expected a number")):
        metrics.brier([1, 0], [0.5, missing])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda c, q: metrics.ece(c, q, binning=cast(Any, "papers")),
            "unknown binning 'papers': did you mean paper",
        ),
        (lambda c, q: metrics.ece(c, q, bins=0), "bins is 0: expected a whole number of at least 1"),
        (lambda c, q: metrics.nll(c, q, eps=0), "eps is 0"),
        (lambda c, q: metrics.summary(c, q, level=1.5), "level is 1.5"),
        (lambda c, q: metrics.summary(c, q, resamples=-1), "resamples is -1"),
        (lambda c, q: metrics.summary(c, q, question=["a"]), "question has 1 rows and correct has 2"),
        (lambda c, q: metrics.summary(c, q, question=[["a"], ["b"]]), "question labels must be hashable"),
        (lambda c, q: metrics.compare(c, q, [1], [1.0]), "a has 2 rows and b has 1: label them"),
        (lambda c, q: metrics.compare(c, q, c, q, question_a=[1, 2]), "not a mix"),
        (
            lambda c, q: metrics.compare(c, q, [1, 1, 1], [1, 1, 1], question_a=[1, 2], question_b=[2, 3, 4]),
            "1 questions are only in a and 2 only in b",
        ),
        (lambda c, q: metrics.macro_average([]), "no tasks"),
        (
            lambda c, q: metrics.macro_average([(c, q), metrics.summary(c, q, resamples=3)]),
            "different numbers of resamples",
        ),
    ],
)
def test_bad_settings_raise(call: Callable[[Any, Any], Any], message: str) -> None:
    with pytest.raises(RlcrError, match=re.escape(message)):
        call([1, 0], [0.5, 0.6])
