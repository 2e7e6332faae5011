"""Links to answers in a real browser: what they open is in view, and what they ask for in vain is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.report.browsing import Page

pytest.importorskip("selenium", reason="no browser tests without selenium")

ANSWER = "#answer?run=rlvr&task=gsm8k&id=gsm8k%2F00017&sample=0"
QUESTION = "#question?task=gsm8k&id=gsm8k%2F00017"
# Where the first card begins, and where what it is about does: both as shares of the window's height.
PLACES = """return ['.card', '.card .verdict'].map((name) =>
    document.querySelector(name).getBoundingClientRect().top / innerHeight)"""


def opened(browser: Any, page: Path, fragment: str) -> Page:
    """The page as someone meets it who opens a link in a new window."""
    browser.get("about:blank")
    shown = Page(browser, page)
    shown.open("about:blank")
    shown.open(f"{page.as_uri()}{fragment}")
    return shown


@pytest.mark.parametrize("size", [(390, 844), (1280, 720)])
def test_what_a_link_opens_is_in_view(browser: Any, page: Path, size: tuple[int, int]) -> None:
    for fragment in (ANSWER, QUESTION):
        Page(browser, page).resize(*size)
        shown = opened(browser, page, fragment)
        card, verdict = shown.run(PLACES)
        assert 0 < card < 0.3
        # On a telephone the question itself, which is long, stands before the answers of the runs.
        assert verdict < (0.7 if fragment == ANSWER or size[0] > 400 else 1.5)
        # The same in a window that has the page already, wherever its reader is.
        shown.open("about:blank")
        shown.open(page.as_uri())
        shown.run(f"location.hash = '{fragment}'")
        shown.browser.execute_async_script("requestAnimationFrame(() => setTimeout(arguments[0]))")
        assert shown.run(PLACES) == pytest.approx([card, verdict], abs=0.02)


def test_what_a_link_names_in_vain_is_said(browser: Any, page: Path) -> None:
    shown = opened(
        browser, page, "#answers?run=nosuch&task=trivia&low=abc&sort=newest&right=perhaps&colour=red"
    )
    assert shown.texts("#left-out") == [
        "run “nosuch”, low “abc”, sort “newest”, right “perhaps”, colour “red”"
        " in the link are not known here and were ignored."
    ]
    assert shown.one("#left-out").is_displayed()
    # The address and the filters are of what is shown.
    assert shown.address == f"{page.as_uri()}#answers?task=trivia"
    assert shown.one("#count").text == "240 of 680 answers"
    assert shown.one("#f-sort").get_attribute("value") == "wrong"
    shown.choose("#f-run", "rlcr")
    assert not shown.one("#left-out").is_displayed()
    shown = opened(browser, page, "#answers?page=999&sort=long")
    assert shown.texts("#left-out") == ["page “999” in the link is not known here and was ignored."]
    assert shown.address.endswith("#answers?sort=long&page=68")
    shown = opened(browser, page, "#answers?run=rlcr&wrong=no&low=20&page=2")
    assert not shown.one("#left-out").is_displayed()
    assert shown.complaints() == []


def test_a_range_the_wrong_way_round_is_said(browser: Any, page: Path) -> None:
    shown = opened(browser, page, "#answers?low=90&high=10")
    assert shown.texts("#cards .missing") == [
        "No answers match these filters: the confidence range is the wrong way round (at least 90%, at most 10%)."
    ]


def test_what_is_opened_is_not_counted_among_filtered_answers(browser: Any, page: Path) -> None:
    for fragment, cards in (("#answer?run=rlvr&task=gsm8k&id=none&sample=0", 0), (ANSWER, 1)):
        shown = opened(browser, page, fragment)
        assert len(shown.all(".card")) == cards
        assert shown.texts("#cards .missing") == ["That answer is not on this page."] * (1 - cards)
        for selector in (".reset", "#count", "#page-number", "#page-number-2", "#printed"):
            assert not shown.one(selector).is_displayed(), selector
        shown.click("#back")
        assert shown.one("#count").text == "680 of 680 answers"
        assert shown.one(".reset").is_displayed()
