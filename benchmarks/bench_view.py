"""`rlcr view` of a run of a million records, each of another question: memory, and how soon rows are there.

    python benchmarks/bench_view.py [--records 1000000] [--write]

Measured are the most memory that the server ever had, the seconds from opening the page to the first answers
(right after the start, while the records are still being read, and when all is read), the seconds until an
appended record is shown, and, where Debian's chromium is installed, the memory of the page. Seconds depend on
what else the machine does; memory does not.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from recording import record
from rlcr.runs.record import FORMAT

TEXT = (
    "<think>%s</think>\\n<answer>%d</answer>\\n<analysis>I am not sure</analysis>\\n"
    "<confidence>%s</confidence>"
)
LINE = (
    '{"id": "sums/%07d", "sample": 0, "task": "sums", "format": "rlcr", "text": "' + TEXT + '", '
    '"prompt_sha256": "'
    + "0"
    * 64
    + '", "think_open": false, "forced_answer": null, "forced_confidence": null, '
    '"unrepaired": [], "finish_reason": "stop", "tokens": %d, "prompt_tokens": 100, "response_tokens": 90, '
    '"logprob": -12.5, "answer_logprobs": {}, "seconds": 0.5, "answer": "%d", "confidence": %s, '
    '"answer_probability": null, "verdict": "%s", "reason": "", "verifier": "exact", "well_formed": true, '
    '"fault": "", "leniencies": []}\n'
)
WORDS = "the sum of both numbers is then divided by what remains so we look at each case in turn " * 4


def line(number: int, right: int = 3) -> str:
    """A record; one in ``right`` is right."""
    confidence, is_right = f"0.{number % 97:02d}", number % right == 0
    words = WORDS[: 100 + number * 7 % 250]
    tokens = 40 + number % 120
    verdict = "correct" if is_right else "wrong"
    return LINE % (number, words, number, confidence, tokens, number, confidence, verdict)


def write_run(folder: Path, records: int, right: int = 3) -> int:
    """A run of so many records, one in ``right`` of them right; how many bytes they have."""
    settings = {
        "model": "m",
        "method": "rlcr",
        "samples": 1,
        "grading": "strict",
        "tasks": {"sums": {"size": records}},
    }
    stored = {"format": FORMAT, "settings": settings, "graded": {"grading": "strict"}}
    (folder / "run.json").write_text(json.dumps(stored))
    with open(folder / "problems.jsonl", "w") as file:
        for number in range(records):
            problem = {"id": f"sums/{number:07d}", "question": f"What is {number}?", "gold": [str(number)]}
            file.write(json.dumps(problem) + "\n")
    with open(folder / "records.jsonl", "w") as file:
        file.writelines(line(number, right) for number in range(records))
    return (folder / "records.jsonl").stat().st_size


def get(url: str) -> Any:
    with urlopen(url, timeout=600) as reply:
        return json.load(reply)


def first_rows(url: str) -> float:
    """Seconds for the page and its first answers."""
    started = time.perf_counter()
    with urlopen(url, timeout=600) as reply:
        reply.read()
    assert get(f"{url}answers?sort=newest")["shown"]
    return round(time.perf_counter() - started, 3)


def until(condition: Callable[[], bool]) -> float:
    started = time.perf_counter()
    while not condition():
        time.sleep(0.02)
    return round(time.perf_counter() - started, 3)


def most_memory(pid: int) -> int:
    """Megabytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) // 1024


def open_browser() -> Any:
    """Debian's chromium, without a window."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))


def page_memory(url: str) -> dict[str, Any]:
    """What a browser needs for the page: its script's heap, and all that its process has for itself."""
    if not shutil.which("chromium") or not shutil.which("chromedriver"):
        return {}
    chrome = open_browser()
    try:
        chrome.set_script_timeout(600)
        chrome.get(url)
        cards = "return document.querySelectorAll('.card').length > 0"
        until(lambda: chrome.execute_script(cards))
        started = "return performance.timeOrigin"
        seconds = time.time() - chrome.execute_script(started) / 1000
        time.sleep(5)  # tables and figures are put in place
        chrome.execute_cdp_cmd("Performance.enable", {})
        metrics = chrome.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        heap = next(metric["value"] for metric in metrics if metric["name"] == "JSHeapTotalSize")
        return {
            "page_first_rows_seconds": round(seconds, 3),
            "page_heap_mb": round(heap / 1e6, 1),
            "page_process_mb": _renderers(),
        }
    finally:
        chrome.quit()


def _renderers() -> int:
    """The private memory of the largest process that draws pages, in megabytes."""
    sizes = [0]
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if b"--type=renderer" in (place / "cmdline").read_bytes():
                rollup = (place / "smaps_rollup").read_text()
                sizes.append(sum(int(kb) for kb in re.findall(r"Private_\w+:\s+(\d+) kB", rollup)) // 1024)
        except OSError:
            continue
    return max(sizes)


def measure(records: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        size = write_run(folder, records)
        print(f"{records:,} records, {size / 1e6:.0f} MB", flush=True)
        command = [sys.executable, "-m", "rlcr", "view", str(folder), "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout
                url = server.stdout.readline().split()[0]
                found: dict[str, Any] = {"records": records, "records_mb": round(size / 1e6)}
                found["first_rows_at_once_seconds"] = first_rows(url)
                found["all_read_seconds"] = until(lambda: get(f"{url}state")["answers"] == records)
                print(found, flush=True)
                found["first_rows_seconds"] = first_rows(url)
                for sort in ("wrong", "unsure", "long", "question"):
                    started = time.perf_counter()
                    get(f"{url}answers?sort={sort}")
                    found[f"{sort}_first_seconds"] = round(time.perf_counter() - started, 3)
                with open(folder / "records.jsonl", "a") as file:
                    file.write(line(records))
                found["new_record_seconds"] = until(lambda: get(f"{url}state")["answers"] == records + 1)
                found["server_mb_read"] = most_memory(server.pid)
                print(found, flush=True)
                found["page_made_seconds"] = until(lambda: get(f"{url}state")["page"] > 0)
                found["server_mb"] = most_memory(server.pid)
                print(found, flush=True)
                found |= page_memory(url)
                return found | {"server_mb": most_memory(server.pid)}
            finally:
                server.terminate()
                server.wait()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--write", action="store_true", help="also into results.json")
    given = parser.parse_args()
    found = measure(given.records)
    for name, value in found.items():
        print(f"{name}: {value}")
    if given.write:
        record({"view": found})


if __name__ == "__main__":
    main()
