"""The live view in a real browser: new records, a training under way, hostile texts, widths."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.report.hostile import NASTY
from tests.report.live.views import append, killed_in_a_line, resume, state, viewed, wait_for
from tests.report.run_folders import problem, record, simulated_run, simulated_training, write_run

from rlcr.report.live import watching
from rlcr.report.live.server import ViewServer

pytest.importorskip("selenium", reason="no browser tests without selenium")


class Shown:
    """A page in a browser that shows a live view."""

    def __init__(self, browser: Any, server: ViewServer, fragment: str = "") -> None:
        self.browser = browser
        browser.get("about:blank")
        browser.get_log("browser")
        browser.get_log("performance")
        browser.get(server.url + fragment)
        self.wait(lambda: self.run("return document.querySelectorAll('.card, #cards .missing').length"))
        self.wait(lambda: not self.run("return document.body.classList.contains('reading')"))

    def wait(self, condition: Any) -> float:
        return wait_for(condition, "the page")

    def run(self, script: str, *arguments: Any) -> Any:
        return self.browser.execute_script(script, *arguments)

    def texts(self, selector: str) -> list[str]:
        return self.run(
            "return [...document.querySelectorAll(arguments[0])].map((e) => e.innerText)", selector
        )

    def text(self, selector: str) -> str:
        return self.texts(selector)[0]

    def is_displayed(self, selector: str) -> bool:
        return self.run("return document.querySelector(arguments[0]).offsetParent !== null", selector)

    def choose(self, name: str, value: str) -> None:
        change = "const e = document.getElementById('f-' + arguments[0]); e.value = arguments[1]; e.dispatchEvent(new Event('change', {bubbles: true}))"
        self.run(change, name, value)

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.browser.get_log("browser")]

    def urls(self) -> list[str]:
        """Everything that was asked for since this was last said."""
        messages = (json.loads(entry["message"])["message"] for entry in self.browser.get_log("performance"))
        return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]

    def hosts(self) -> set[str]:
        """The same, up to the path."""
        urls = [url for url in self.urls() if not url.startswith(("data:", "about:", "chrome"))]
        return {"/".join(url.split("/")[:3]) for url in urls}


def test_a_run_that_grows(browser: Any, tmp_path: Path) -> None:
    asked = [problem(f"q{n}", f"What is {n}?", str(n)) for n in range(40)]
    records = [
        record(f"q{n}", "t", confidence=n / 50, verdict="wrong" if n % 3 else "correct") for n in range(40)
    ]
    folder = write_run(tmp_path / "run", records[:12], asked, results=False)
    with viewed(folder) as server:
        shown = Shown(browser, server)
        assert shown.text("#count") == "12 of 12 answers"
        assert "t · q11" in shown.text(".card .where")
        append(folder, records[12:13])
        shown.wait(lambda: "t · q12" in shown.text(".card .where"))
        assert shown.text("#count") == "13 of 13 answers"
        # Who reads a card keeps it, and is told.
        shown.run("document.querySelector('.card .link').focus()")
        append(folder, records[13:20])
        shown.wait(lambda: shown.run("return !document.querySelector('.fresh').hidden"))
        assert "t · q12" in shown.text(".card .where")
        shown.run("document.activeElement.blur(); document.querySelector('.fresh').click()")
        shown.wait(lambda: "t · q19" in shown.text(".card .where"))
        # Filters, orders, search and pages are the server's work.
        shown.choose("sort", "wrong")
        shown.wait(lambda: shown.text(".card .where").startswith("t · q19"))
        assert shown.text(".card .meter span") == "38% sure"
        shown.choose("find", "what is 7?")
        shown.wait(lambda: shown.text("#count") == "1 of 20 answers")
        assert "find=what" in shown.run("return location.hash")
        shown.run("document.querySelector('.reset').click()")
        shown.wait(lambda: shown.text("#count") == "20 of 20 answers")
        shown.run("document.getElementById('next').click()")
        shown.wait(lambda: shown.text("#page-number") == "2 / 2")
        assert "t · q9" in shown.text(".card .where")
        # The table follows.
        shown.wait(lambda: "20" in shown.text("#results .table-block table"))
        assert "20 answers" in shown.text(".live")
        assert shown.complaints() == []
        assert shown.hosts() == {server.url.rstrip("/")}
        # An answer has an address here too.
        again = Shown(browser, server, "#answer?run=run&task=t&id=q5&sample=0")
        again.wait(lambda: len(again.texts(".card")) == 1)
        assert "t · q5" in again.text(".card .where")
        again = Shown(browser, server, "#answer?run=other&task=t&id=q5&sample=0")
        assert again.texts("#cards .missing") == ["That answer is not on this page."]


def test_it_is_loaded_once_and_survives_the_death_of_the_writer(browser: Any, tmp_path: Path) -> None:
    asked = [problem(f"q{n}", f"What is {n}?", str(n)) for n in range(6)]
    records = [record(f"q{n}", "t") for n in range(6)]
    folder = write_run(tmp_path / "run", records[:2], asked)
    with viewed(folder) as server:
        wait_for(lambda: state(server)["reading"] is None)
        shown = Shown(browser, server)
        shown.wait(lambda: "2 answers" in shown.text(".live"))
        # A page that is as new as the server's is not fetched again.
        assert shown.urls().count(server.url) == 1
        with killed_in_a_line(folder, records[2:4]):
            shown.wait(lambda: shown.text("#count") == "3 of 3 answers")
        time.sleep(1.5)  # two looks at the server: time to show half a line, or a complaint
        assert shown.text("#count") == "3 of 3 answers"
        assert "t · q2" in shown.text(".card .where")
        assert "3 answers" in shown.text(".live")
        resume(folder, records[3:])
        shown.wait(lambda: shown.text("#count") == "6 of 6 answers")
        assert "t · q5" in shown.text(".card .where")
        assert shown.complaints() == []


def test_what_lags_behind_the_answers_says_so(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_LEAST_REST", 6.0)  # as of a run whose page takes two seconds to make
    asked = [problem(f"q{n}", f"What is {n}?", str(n)) for n in range(6)]
    folder = write_run(tmp_path / "run", [record("q0", "t")], asked, results=False)
    with viewed(folder) as server:
        shown = Shown(browser, server)
        assert shown.text(".live").startswith("Live: 1 answer, last change")
        assert "1 evaluation, 1 answer ·" in shown.text(".lede")
        assert not shown.is_displayed(".earlier")
        append(folder, [record(f"q{n}", "t") for n in range(1, 5)])
        shown.wait(lambda: "5 answers" in shown.text(".live"))
        shown.wait(lambda: shown.text("#count") == "5 of 5 answers")
        assert (
            shown.text(".earlier")
            == "Headline, tables and figures are based on 1 answer and are being updated."
        )
        assert shown.is_displayed(".earlier")
        assert "1 answer ·" in shown.text(".lede")
        shown.wait(lambda: not shown.is_displayed(".earlier"))
        assert "5 answers ·" in shown.text(".lede")
        # A damaged line is told of at the top.
        with open(folder / "records.jsonl", "a") as file:
            file.write("{}\n")
        shown.wait(lambda: "1 line is damaged (line 6)" in " ".join(shown.texts(".hero .warnings summary")))
        assert shown.complaints() == []


def test_links_into_a_run_that_is_being_read(browser: Any, tmp_path: Path) -> None:
    """Its first page knows no task yet: what a link names is looked for again once all is read."""
    folder = simulated_run(tmp_path / "run", "rlcr", {"gsm8k": 40, "trivia": 30})
    with viewed(folder, idle=2) as server:
        shown = Shown(browser, server, "#answers?task=trivia&run=nosuch")
        shown.wait(lambda: shown.text("#count") == "30 of 70 answers")
        assert shown.text("#left-out").startswith("run “nosuch” in the link is not known here")
        assert shown.run("return location.hash") == "#answers?task=trivia"
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True},
    )
    top = "return document.querySelector('.card').getBoundingClientRect().top / innerHeight"
    with viewed(folder, idle=2) as server:
        shown = Shown(browser, server, "#answer?run=run&task=trivia&id=trivia%2F00007&sample=0")
        shown.wait(lambda: "trivia/00007" in shown.text(".card .where"))
        shown.wait(lambda: shown.run("return document.querySelectorAll('main > section').length") > 3)
        time.sleep(0.5)
        assert 0 < shown.run(top) < 0.3


def test_a_training_and_two_runs(browser: Any, tmp_path: Path) -> None:
    folder = simulated_training(tmp_path / "training", updates=5, evals=0)
    with open(folder / "updates.jsonl") as file:
        last = json.loads(file.readlines()[-1])
    runs = [simulated_run(tmp_path / name, name, {"arms": 12}) for name in ("base", "rlcr")]
    with viewed(folder, *runs) as server:
        shown = Shown(browser, server)
        tips = "return [...document.querySelectorAll('#training [data-tip]')].filter((e) => e.dataset.tip.includes('update 6')).length"
        assert shown.run(tips) == 0
        shown.run("document.querySelector('#training details.data').open = true")
        with open(folder / "updates.jsonl", "a") as file:
            file.write(json.dumps(last | {"update": 6}) + "\n")
        shown.wait(lambda: shown.run(tips) > 0)
        assert shown.run("return document.querySelector('#training details.data').open")
        # The same question side by side.
        shown.run("document.querySelector('.card .across').click()")
        shown.wait(lambda: len(shown.texts(".side > div")) == 2)
        assert len(shown.texts(".side .verdict")) == 2
        for width in (1280, 390):
            size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            assert (
                shown.run(
                    "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
                )
                == 0
            )
        assert shown.complaints() == []


def test_hostile_texts_are_texts(browser: Any, tmp_path: Path) -> None:
    line = "y" * 100_000
    asked = [problem("nasty", NASTY, "<img src=x onerror=window.hacked=1>"), problem("long", line, line)]
    folder = tmp_path / "<img src=x onerror=window.hacked=1>"
    write_run(folder, [record("fine", "t")], asked, method=NASTY[7:40], results=False)
    with viewed(folder) as server:
        shown = Shown(browser, server)
        append(folder, [record("long", "<b>t</b>", text=line, answer=line), record("nasty", NASTY[:60], text=NASTY, answer="<b>4</b>")])  # fmt: skip
        shown.wait(lambda: shown.text("#count") == "3 of 3 answers")
        shown.wait(lambda: NASTY[:60] in shown.run("return document.querySelector('#f-task').textContent"))
        nasty, long, _ = shown.texts(".card")
        assert "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>" in nasty
        assert "{{ 7 * 7 }} &lt;b&gt;" in nasty
        assert "y" * 800 in long
        assert shown.run("return window.hacked") is None
        assert (
            shown.run("return document.querySelectorAll('img, #cards script, #cards b, main script').length")
            == 0
        )
        assert (
            shown.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
            == 0
        )
        assert shown.complaints() == []
        assert shown.hosts() == {server.url.rstrip("/")}
