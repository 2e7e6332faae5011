"""Names that are misspelt: which known one is meant."""

import pytest

from rlcr.errors import RlcrError, closest
from rlcr.training.recipes import load_recipe


def test_the_same_letters_in_another_order_come_before_other_letters() -> None:
    assert closest("hotpotqa-rlrc", ["hotpotqa-rlvr", "hotpotqa-rlcr"]) == "hotpotqa-rlcr"
    assert closest("rlrc", ["rlvr", "rlcr", "rlcr-long"]) == "rlcr"
    assert closest("bier", ["brier", "log"]) == "brier"
    assert closest("something else", ["brier", "log"]) is None
    assert closest("brier", []) is None


def test_a_misspelt_recipe_names_its_own_method() -> None:
    with pytest.raises(RlcrError, match="did you mean hotpotqa-rlcr"):
        load_recipe("hotpotqa-rlrc")
