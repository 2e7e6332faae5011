"""The page in a real browser: filters by clicking, hostile texts, widths, and a run of 200,000 records."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from tests.report.browsing import Page
from tests.report.hostile import NASTY
from tests.report.run_folders import problem, record, simulated_records, simulated_run, write_run

from rlcr.report.page import write_report

pytest.importorskip("selenium", reason="no browser tests without selenium")


def test_it_opens_without_complaints_or_requests(browser: Any, page: Path) -> None:
    shown = Page(browser, page)
    assert shown.texts("h1")[0].startswith("Over 2 tasks, rlcr cuts ECE from ")
    assert len(shown.all("svg.chart")) > 20
    assert shown.complaints() == []
    assert [url for url in shown.requests() if not url.startswith("data:")] == [page.as_uri()]


def test_filters_by_clicking(browser: Any, page: Path) -> None:
    shown = Page(browser, page)
    everything = shown.count
    assert everything == 3 * 200 + 80
    assert len(shown.all(".card")) == 10
    # Confidently wrong first.
    assert set(shown.texts(".card .verdict")) == {"✗ wrong"}
    assert set(shown.texts(".card .meter span")) == {"100% sure"}
    shown.click("#f-wrong")
    shown.click("#f-right")
    lost = shown.count
    assert 0 < lost < 40
    assert set(shown.texts(".card .verdict")) == {"? unscorable"}
    shown.reset()
    assert shown.count == everything
    shown.choose("#f-run", "rlvr")
    assert shown.count == 200
    shown.choose("#f-task", "trivia")
    assert shown.count == 80
    shown.choose("#f-repaired", "repaired")
    assert 0 < shown.count < 20
    assert all(shown.texts(".card .tag"))
    shown.reset()
    shown.write("#f-low", "20")
    shown.write("#f-high", "40")
    assert 0 < shown.count < 200
    assert {float(text.split("%")[0]) for text in shown.texts(".card .meter span")} <= {20, 25, 30, 35, 40}
    shown.reset()
    shown.write("#f-find", "[17]")
    assert shown.count == 7
    shown.write("#f-find", "no text has this")
    assert shown.texts("#cards .missing") == ["No answers match these filters."]
    shown.reset()
    first = shown.texts(".card .where")
    shown.click("#next")
    assert shown.texts(".card .where") != first
    assert shown.one("#page-number").text == f"2 / {everything // 10}"
    assert shown.complaints() == []


def test_the_same_question_side_by_side(browser: Any, page: Path) -> None:
    shown = Page(browser, page)
    shown.choose("#f-run", "rlcr")
    shown.click(".card .across")
    (card,) = shown.all(".card")
    columns = card.find_elements("css selector", ".side > div")
    names = [column.find_element("css selector", ".run-name").text for column in columns]
    assert names == ["base", "rlvr", "rlcr", "training, update 150"]
    assert sum(bool(column.find_elements("css selector", ".verdict")) for column in columns) == 3
    tops = {column.location["y"] for column in columns[:3]}
    assert len(tops) == 1  # beside, not below each other
    shown.click("#back")
    assert len(shown.all(".card")) == 10
    shown.choose("#f-run", "all runs")
    shown.choose("#f-view", "runs side by side")
    assert len(shown.all(".card")) == 4
    assert shown.count == 200 + 80
    assert shown.complaints() == []


def test_search_then_compare_takes_one_click(browser: Any, page: Path) -> None:
    """The search ends as the pointer goes down on a card, and must not draw new cards under it."""
    shown = Page(browser, page)
    shown.write("#f-find", "[17]")
    assert shown.count == 7
    shown.one(".card .across").click()
    (card,) = shown.all(".card")
    assert len(card.find_elements("css selector", ".side > div")) == 4
    assert "[17]" in card.text
    time.sleep(0.4)
    assert shown.one("#opened").is_displayed()
    shown.click("#back")
    assert shown.one("#f-find").get_attribute("value") == "[17]"
    assert shown.count == 7
    assert shown.complaints() == []


def test_an_address_opens_the_same_answer_and_the_same_list(browser: Any, page: Path) -> None:
    shown = Page(browser, page)
    shown.choose("#f-run", "rlvr")
    shown.click("#f-right")
    shown.choose("#f-sort", "longest")
    shown.click("#next")
    seen, count, filtered = shown.texts(".card .where"), shown.count, shown.address
    assert filtered.endswith("#answers?run=rlvr&sort=long&right=no&page=2")
    link = shown.all(".card-head .link")[3]
    text, answer = shown.texts(".card")[3], link.get_attribute("href")
    assert "#answer?run=rlvr&task=" in answer
    shown.run("document.querySelectorAll('.card-head .link')[3].click()")
    assert shown.texts(".card") == [text]
    # In another window: the same answer, and the same list.
    shown.open("about:blank")
    shown.open(answer)
    assert shown.texts(".card") == [text]
    assert shown.one("#opened").is_displayed()
    shown.open("about:blank")
    shown.open(filtered)
    assert (shown.texts(".card .where"), shown.count) == (seen, count)
    assert (shown.one("#f-run").get_attribute("value"), shown.one("#f-right").is_selected()) == (
        "rlvr",
        False,
    )
    # Back from an answer to the list it was opened from; one that is not there is said.
    shown.run("document.querySelector('.card .across').click()")
    time.sleep(0.2)
    assert "#question?task=" in shown.address
    shown.browser.back()
    time.sleep(0.2)
    assert (shown.texts(".card .where"), shown.address) == (seen, filtered)
    shown.open("about:blank")
    shown.open(f"{page.as_uri()}#answer?run=rlvr&task=gsm8k&id=nothing&sample=0")
    assert shown.texts("#cards .missing") == ["That answer is not on this page."]
    assert shown.complaints() == []


def test_the_baseline_is_chosen(browser: Any, page: Path) -> None:
    shown = Page(browser, page)

    def names() -> set[str]:
        return {row.text for row in shown.all("#differences tbody th") if row.is_displayed()}

    assert names() == {"rlvr", "rlcr"}
    shown.choose("#choose-differences", "rlcr")
    assert names() == {"base", "rlvr"}


def test_the_contents_fit_and_runs_stay_comparable(browser: Any, page: Path) -> None:
    shown = Page(browser, page)
    cut = """return [...document.querySelectorAll('nav a')].filter((a) => {
        const box = a.getBoundingClientRect();
        return box.width === 0 || box.left < 0 || box.right > document.documentElement.clientWidth; }).length"""
    shown.resize(1280)
    assert shown.run(cut) == 0
    assert len(shown.all("nav a")) == 12
    shown.resize(390)
    shown.click("#contents")
    assert shown.run(cut) == 0
    shown.click("nav a[href='#differences']")
    assert not shown.one("nav").is_displayed()
    # Side by side, not below each other: one line for each run, with three numbers of it.
    heads = [head for head in shown.all("#table-headline thead th") if head.is_displayed()]
    assert [head.text.split()[0] for head in heads] == ["Run", "Accuracy", "ECE", "Reward"]
    for row in shown.all("#table-headline tbody tr"):
        cells = [cell for cell in row.find_elements("css selector", "th, td") if cell.is_displayed()]
        assert len(cells) == 4
        assert len({cell.location["y"] for cell in cells}) == 1
        assert max(cell.location["x"] + cell.size["width"] for cell in cells) <= 390
    # Rows of the same run are told apart, though the column that does so has no room.
    names = [row.text for row in shown.all("#table-differences tbody th")]
    assert names == ["rlvr\ngsm8k", "rlvr\ntrivia", "rlcr\ngsm8k", "rlcr\ntrivia"]
    shown.click("#table-differences .all-columns")
    assert shown.one("#table-differences tbody th").text == "rlvr"
    shown.click("#table-headline .all-columns")
    assert shown.one("#table-headline thead th.extra").is_displayed()
    assert shown.overflow() == 0


def test_on_paper_figures_and_tables_are_whole(browser: Any, page: Path, tmp_path: Path) -> None:
    pdf = shutil.which("pdftotext")
    if not pdf:
        pytest.skip("no pdftotext: install Debian's poppler-utils")
    shown = Page(browser, page)
    printed = shown.browser.execute_cdp_cmd("Page.printToPDF", {"paperWidth": 8.27, "paperHeight": 11.69})
    (tmp_path / "page.pdf").write_bytes(base64.b64decode(printed["data"]))
    text = subprocess.run(
        [pdf, "-layout", tmp_path / "page.pdf", "-"], capture_output=True, text=True, check=True
    ).stdout
    # What is folded on the screen is there, with its last column.
    assert "confidence-weighted majority" in text
    for heading in ("Accuracy", "Reward", "Unscorable", "Rated", "Task by task", "Training"):
        assert heading in text
    # What a choice or a button says on the screen is said in words: the baseline, and how much of all this is.
    assert re.search(r"^ *Minus base$", text, re.MULTILINE)
    assert "Printed here: 10 of 680 answers (page 1 of 68)." in text
    assert shown.run("return document.querySelectorAll('details.fold[open]').length") == 0
    # No head of a column is broken inside of a word, and no title is left behind by its figure.
    assert re.search(r"Repaired +Unscorable +Answers +Rated", text)
    (sheet,) = (sheet for sheet in text.split("\f") if "Several analyses of one answer" in sheet)
    assert "analyses (K)" in sheet
    wide = """return [...document.querySelectorAll('.wide-table')].filter((e) => e.offsetParent
        && e.scrollWidth > e.clientWidth + 1).map((e) => e.parentElement.id)"""
    shown.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    shown.resize(740)  # what A4 leaves between its margins
    shown.run("window.dispatchEvent(new Event('beforeprint'))")
    assert shown.run(wide) == []
    shown.open(f"{page.as_uri()}#answers?run=rlvr&task=trivia&page=8")
    assert shown.texts("#printed") == ["Printed here: 10 of 80 answers that match the filters (page 8 of 8)."]
    shown.open(f"{page.as_uri()}#answers?view=side")
    assert shown.texts("#printed") == ["Printed here: 4 of 280 questions (page 1 of 70)."]


def test_keyboard_theme_and_values(browser: Any, page: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    shown = Page(browser, page)
    chart = shown.one("#figure-reliability-task-gsm8k svg.chart:last-of-type")
    shown.run("document.querySelector('#figure-reliability-task-gsm8k svg.chart').focus()")
    shown.browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    tip = shown.one("#tip")
    assert tip.is_displayed()
    assert "accuracy" in tip.text
    shown.browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert not tip.is_displayed()
    assert chart.get_attribute("aria-label")
    before = shown.run("return getComputedStyle(document.body).backgroundColor")
    shown.click("#theme")
    assert shown.run("return getComputedStyle(document.body).backgroundColor") != before
    # Every control has a name, every figure a caption and its numbers.
    unnamed = """return [...document.querySelectorAll('input, select, button')]
        .filter((e) => !(e.labels && e.labels.length) && !e.getAttribute('aria-label') && !e.textContent.trim()).length"""
    assert shown.run(unnamed) == 0
    assert shown.run(
        "return [...document.querySelectorAll('figure')].every((f) => f.querySelector('figcaption'))"
    )
    assert shown.run("return document.querySelectorAll('figure details table').length") >= 8
    assert shown.complaints() == []


def test_hostile_texts_are_texts(browser: Any, tmp_path: Path) -> None:
    line = "y" * 100_000
    records = [
        record("nasty", "t", text=NASTY, answer="<b>4</b>", verdict="wrong", confidence=1.0),
        record("long", "t", text=line, answer=line, verdict="wrong", confidence=0.99),
        record("fine", "t"),
    ]
    asked = [problem("nasty", NASTY, "<img src=x onerror=window.hacked=1>"), problem("long", line, line)]
    folder = tmp_path / "<img src=x onerror=window.hacked=1>"
    write_run(folder, records, asked, method=NASTY[7:40])
    write_report([folder], tmp_path / "report.html")
    shown = Page(browser, tmp_path / "report.html")
    nasty, long, _ = shown.all(".card")
    assert "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>" in nasty.text
    assert "{{ 7 * 7 }} &lt;b&gt;" in nasty.text
    assert "y" * 800 in long.text
    more = long.find_elements("css selector", ".more")[0]
    shown.run("document.querySelectorAll('.more').forEach((b) => b.click())")
    assert more.text == "Show less"
    assert "[… 76,000 characters are left out here …]" in long.text
    assert shown.run("return window.hacked") is None
    assert shown.run("return document.querySelectorAll('img, #cards script, #cards b').length") == 0
    for width in (1280, 390):
        shown.resize(width)
        assert shown.overflow() == 0
    assert shown.complaints() == []
    assert len([url for url in shown.requests() if not url.startswith("data:")]) == 1


@pytest.mark.parametrize("width", [1280, 390, 320])
def test_no_horizontal_overflow(browser: Any, page: Path, tmp_path: Path, width: int) -> None:
    shown = Page(browser, page)
    shown.resize(width)
    for view in ("one by one", "runs side by side"):
        shown.choose("#f-view", view)
        shown.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        assert shown.overflow() == 0
        wide = """return [...document.querySelectorAll('main *')].filter((e) => !e.closest('.scroll, svg, .sr-only, thead, #table-grid')
            && e.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map((e) => e.outerHTML.slice(0, 90))"""
        assert shown.run(wide) == []
    shot = tmp_path / "shot.png"
    assert shown.browser.save_screenshot(str(shot))
    assert shot.stat().st_size > 10_000


@pytest.mark.slow
def test_two_hundred_thousand_records(
    browser: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [
        simulated_run(tmp_path / name, name, {"a": 20_000, "b": 5_000}, samples=2)
        for name in ("base", "rlvr", "rlcr")
    ]
    records, asked = simulated_records("rlcr", "a", 25_000, samples=2, seed=1)
    folders.append(write_run(tmp_path / "alone", records, asked))
    size = sum(path.stat().st_size for path in tmp_path.glob("*/records.jsonl"))
    started = time.process_time()
    report = write_report(folders, tmp_path / "report.html")
    built = time.process_time() - started
    page_size = (tmp_path / "report.html").stat().st_size
    assert report.selection.total == 200_000
    # The computing time of this process and of the page's own thread, so that other work of the machine does not
    # count. It does for the first paint, which is told and not asserted; its computing is part of the whole.
    browser.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})

    def computed() -> float:
        counts = browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        return next(count["value"] for count in counts if count["name"] == "TaskDuration")

    shown = Page(browser, tmp_path / "report.html")
    paint = shown.run("return performance.getEntriesByName('first-contentful-paint')[0].startTime") / 1000
    loaded = computed()
    times = {}
    for name, script in {
        "wrong": "document.getElementById('f-wrong').click()",
        "run": "const e = document.getElementById('f-run'); e.value = 'rlcr'; e.dispatchEvent(new Event('change', {bubbles: true}))",
        "search": "const e = document.getElementById('f-find'); e.value = 'bound above'; e.dispatchEvent(new Event('change', {bubbles: true}))",
        "side": "const e = document.getElementById('f-view'); e.value = 'side'; e.dispatchEvent(new Event('change', {bubbles: true}))",
    }.items():  # fmt: skip
        before = computed()
        shown.run(f"(() => {{ {script} }})(); document.body.offsetHeight")
        times[name] = computed() - before
    with capsys.disabled():
        print(
            f"\n200,000 records, {size / 1e6:.0f} MB: built in {built:.1f} s, page {page_size / 1e6:.1f} MB with "
            f"{len(report.selection.samples):,} samples, first paint {paint:.2f} s; computing: {loaded:.2f} s until it is whole, "
            + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in times.items())
        )
    assert built < 60
    assert page_size < 15_000_000
    assert loaded < 1
    assert max(times.values()) < 0.3
    assert shown.complaints() == []
