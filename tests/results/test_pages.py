"""Tables of the docs are put between their marks, and nowhere else."""

import pytest
from results.pages import filled

PAGE = "one\n<!-- a -->\nold\n<!-- end -->\ntwo\n<!-- b -->\nkept\n<!-- end -->\nthree\n"


def test_what_stands_around_a_table_stays() -> None:
    assert filled(PAGE, {"a": r"\1 new"}) == PAGE.replace("old", r"\1 new")
    assert filled(PAGE, {"b": "x\ny", "a": ""}) == PAGE.replace("kept", "x\ny").replace("old", "")


def test_a_table_has_one_place() -> None:
    with pytest.raises(LookupError, match="0 places for the table 'c'"):
        filled(PAGE, {"c": ""})
    with pytest.raises(LookupError, match="2 places for the table 'a'"):
        filled(PAGE + PAGE, {"a": ""})
