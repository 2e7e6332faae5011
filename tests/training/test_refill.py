# pyright: basic
"""Dynamic sampling: groups that teach nothing make room for other problems, so many times at most."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.training.gradients import MIXED, error, exact_model
from tests.training.oracle import grpo_step
from tests.training.updates import recipe, response, rows, update

from rlcr.errors import RlcrError
from rlcr.training.recipes.checks import check_refill

EQUAL = [response()] * 4
#: Of six problems, two teach something.
FEW = {"e1": EQUAL, "e2": ["no tags"] * 4, **MIXED, "e3": [response("41")] * 4, "e4": EQUAL}


def test_the_update_is_that_of_the_problems_that_teach(tmp_path: Path) -> None:
    found = update(recipe(refill=9), FEW, tmp_path)
    assert {rollout.problem for rollout in found.rollouts} == {"a", "b"}
    assert [rollout.sample for rollout in found.rollouts] == [0, 1, 2, 3] * 2
    # No problem is asked twice in an update; every one was, until only those that teach were left.
    asked = [request.key.partition("\0")[0] for request in found.asked]
    assert len(asked) == len(set(asked))
    assert found.logged[0]["refilled_groups"] == len(asked) - 2
    wanted = grpo_step(exact_model(), [rows(FEW)[2], rows(FEW)[3]], temperature=0.7)
    assert error(found.gradient, wanted) < 1e-9


@pytest.mark.parametrize(("times", "asked"), [(0, 2), (1, 4), (5, 6)])
def test_it_is_bounded(times: int, asked: int, tmp_path: Path) -> None:
    texts = {f"e{number}": EQUAL for number in range(6)}
    found = update(recipe(refill=times), texts, tmp_path)
    assert len(found.asked) == asked  # six problems: then there are no others
    assert found.logged[0]["refilled_groups"] == asked - 2
    assert found.logged[0]["learned_from"] == 0


def test_where_it_cannot_be_done_is_refused() -> None:
    server = recipe(sampler="vllm", refill=2, vllm={"server": "http://a:1"})
    with pytest.raises(RlcrError, match="refill: draws unlike numbers .* set refill=0"):
        check_refill(server, 2)
    check_refill(server, 1)
    check_refill(recipe(sampler="vllm", refill=2), 2)
    check_refill(recipe(refill=2), 8)
