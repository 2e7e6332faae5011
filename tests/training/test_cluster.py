"""`make cluster`: its table in the docs is what its results say; the processes themselves are not run here."""

import json

from cluster import table
from cluster.__main__ import RESULTS
from cluster.cases import CASES


def test_the_page_shows_the_results() -> None:
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    page = table.PAGE.read_text(encoding="utf-8")
    assert "\n".join(table.lines(results)) in page
    for name, launches in results["cases"].items():
        assert set(launches) <= set(CASES[name].launches)


def test_a_failure_is_called_one() -> None:
    found = {"passed": False, "failed": "RuntimeError: it hung"}
    assert table.described(found) == "did not finish: RuntimeError: it hung"
    results = {"cases": {"sft": {"zero3": found}}, "versions": {"torch": "2"}}
    assert "| sft | zero3 | did not finish: RuntimeError: it hung | failed |" in table.lines(results)
