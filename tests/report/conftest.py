"""A real browser, where the machine has one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.report.run_folders import METHODS, simulated_run, simulated_training, write_artefacts

from rlcr.report.page import write_report


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Three methods on two tasks, and a training."""
    root = tmp_path_factory.mktemp("runs")
    found = {name: simulated_run(root / name, name, {"gsm8k": 120, "trivia": 80}) for name in METHODS}
    write_artefacts(found["rlcr"])
    found["training"] = simulated_training(root / "training", updates=150)
    return found


@pytest.fixture(scope="session")
def page(runs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of all of them."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_report(list(runs.values()), path)
    return path


@pytest.fixture(scope="session")
def chromium() -> tuple[str, str]:
    """Where chromium and its driver are; skips where they are not."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not browser or not driver:
        pytest.skip("no browser: install Debian's chromium and chromium-driver to run these tests")
    return browser, driver


@pytest.fixture
def browser(chromium: tuple[str, str]) -> Iterator[Any]:
    """A browser that logs its console and its network."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = chromium[0]
    # The sandbox needs rights that a container may lack; the page is a local file.
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(chromium[1]))
    driver.set_window_size(1280, 1000)
    yield driver
    driver.quit()
