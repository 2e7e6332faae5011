"""The report of 200,000 records in a browser: how soon it is painted, and how long each filter takes.

    python benchmarks/bench_page.py [--records 200000] [--loads 5] [--write]

Four runs of equally many records. First paint is the browser's own "first contentful paint", counted from the
start of the navigation; a filter is counted from the click to the end of the layout that it causes. Both are
medians over several loads, with the slowest beside them. Needs Debian's chromium and chromium-driver.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from bench_view import open_browser, write_run
from recording import record
from rlcr.report.page import write_report

_RUNS = ("base", "rlvr", "rlcr", "rlcr-log")
_CHANGE = """const field = document.getElementById('f-%s'); field.value = '%s';
    field.dispatchEvent(new Event('change', {bubbles: true}))"""
# One after the other, each on what the one before has left.
_FILTERS = {
    "wrong": "document.getElementById('f-wrong').click()",
    "run": _CHANGE % ("run", "rlcr"),
    "search": _CHANGE % ("find", "each case"),
    "longest": _CHANGE % ("sort", "long"),
    "side": _CHANGE % ("view", "side"),
}
_PAINT = "return performance.getEntriesByName('first-contentful-paint')[0].startTime / 1000"
_TIMED = """const started = performance.now(); (() => { %s })(); document.body.offsetHeight;
    return (performance.now() - started) / 1000"""


def measure(records: int, loads: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:
        folders = [Path(place) / name for name in _RUNS]
        for number, folder in enumerate(folders):
            folder.mkdir()
            write_run(folder, records // len(_RUNS), right=2 + number)
        started = time.perf_counter()
        page = Path(place) / "report.html"
        report = write_report(folders, page)
        found: dict[str, Any] = {
            "records": report.selection.total,
            "made_seconds": round(time.perf_counter() - started, 1),
            "page_mb": round(page.stat().st_size / 1e6, 1),
            "answers_in_page": len(report.selection.samples),
        }
        times: dict[str, list[float]] = {}
        chrome = open_browser()
        try:
            for _ in range(loads):
                chrome.get("about:blank")
                chrome.get(page.as_uri())
                times.setdefault("first_paint", []).append(chrome.execute_script(_PAINT))
                for name, script in _FILTERS.items():
                    times.setdefault(f"filter_{name}", []).append(chrome.execute_script(_TIMED % script))
        finally:
            chrome.quit()
        for name, ones in times.items():
            found[f"{name}_seconds"] = round(statistics.median(ones), 3)
            found[f"{name}_slowest_seconds"] = round(max(ones), 3)
        return found | {"loads": loads}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--loads", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="also into results.json")
    given = parser.parse_args()
    found = measure(given.records, given.loads)
    print(json.dumps(found, indent=2))
    if given.write:
        record({"page": found})


if __name__ == "__main__":
    main()
