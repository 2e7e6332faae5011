"""The page in a real browser, and what a person does with it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any


class Page:
    """What a person does with the page."""

    def __init__(self, browser: Any, path: Path) -> None:
        self.browser = browser
        browser.get_log("performance")
        browser.get(path.as_uri())

    def all(self, selector: str) -> list[Any]:
        return self.browser.find_elements("css selector", selector)

    def one(self, selector: str) -> Any:
        return self.browser.find_element("css selector", selector)

    def open(self, address: str) -> None:
        self.browser.get(address)

    @property
    def address(self) -> str:
        return self.browser.current_url

    def texts(self, selector: str) -> list[str]:
        return [element.text for element in self.all(selector)]

    def click(self, selector: str) -> None:
        element = self.one(selector)
        self.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def reset(self) -> None:
        """No filters any more; the page sees to that once the click is over."""
        self.click(".reset")
        time.sleep(0.4)

    def choose(self, selector: str, text: str) -> None:
        from selenium.webdriver.support.ui import Select

        Select(self.one(selector)).select_by_visible_text(text)

    def write(self, selector: str, text: str) -> None:
        element = self.one(selector)
        self.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.clear()
        element.send_keys(text)
        time.sleep(0.4)

    @property
    def count(self) -> int:
        return int(self.one("#count").text.split()[0].replace(",", ""))

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.browser.get_log("browser")]

    def requests(self) -> list[str]:
        """Every address that was asked for."""
        messages = (json.loads(entry["message"])["message"] for entry in self.browser.get_log("performance"))
        return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]

    def resize(self, width: int, height: int = 900) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def overflow(self) -> int:
        return self.browser.execute_script(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )

    def run(self, script: str) -> Any:
        return self.browser.execute_script(script)
