"""What the repository says of the evidence is what its outcomes come to."""

import json
from pathlib import Path

import pytest
from results.evidence import tables
from results.evidence.__main__ import OUT
from results.evidence.claims import above, apart, below, findings
from results.evidence.collect import collect
from results.evidence.plan import steps
from tests.rounding import rounded

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)


def stored() -> dict:
    if not OUT.exists():
        pytest.skip("nothing is recorded")
    return json.loads(OUT.read_text(encoding="utf-8"))


def test_the_recorded_numbers_follow_from_the_outcomes() -> None:
    computed = collect(list(steps("somewhere"))) | {"claims": findings()}
    assert rounded(json.dumps(computed)) == rounded(json.dumps(stored()))


def test_the_tables_of_the_docs_are_the_recorded_numbers() -> None:
    page = tables.PAGE.read_text(encoding="utf-8")
    assert tables.filled(page, stored()) == page


def test_a_claim_is_judged_by_its_whole_interval() -> None:
    assert [above(0)(*ends) for ends in ((0.1, 0.2), (-0.1, 0.2), (-0.2, -0.1))] == [
        "supported",
        "open",
        "contradicted",
    ]
    assert [below(0)(*ends) for ends in ((0.1, 0.2), (-0.1, 0.2), (-0.2, -0.1))] == [
        "contradicted",
        "open",
        "supported",
    ]


def test_of_two_independent_estimates_half_widths_add_in_squares() -> None:
    first, second = {"value": 0.2, "ci95": [0.17, 0.23]}, {"value": 0.5, "ci95": [0.46, 0.54]}
    found = apart("claim", "what", first, second, above(0))
    assert (found.value, found.low, found.high) == pytest.approx((0.3, 0.25, 0.35))
    assert found.verdict == "supported"
    assert apart("claim", "what", first, second, above(0.3)).verdict == "open"


def test_the_calibration_of_a_model_that_gave_up_decides_nothing() -> None:
    found = [one for one in findings() if one["claim"] == "Abstention-RL is weaker than RLCR"]
    verdicts = {one["measured"]: one["verdict"] for one in found}
    assert verdicts["accuracy, difference, chains"] == "supported"
    assert verdicts["brier, difference, chains; one gave up"] == "open"  # never right, and unsure: 0.02
