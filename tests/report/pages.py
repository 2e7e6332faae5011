"""The page of some runs, and what it holds."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

from rlcr.report.page import make_report, render
from rlcr.report.reading import read_runs


def page_of(*folders: Path, **options: Any) -> str:
    """The report of these folders."""
    return render(make_report(read_runs(folders), **options))


def embedded(page: str) -> dict[str, Any]:
    """The data that the page's script reads."""
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert match
    return json.loads(match.group(1))


def words(page: str) -> str:
    """What a reader sees, without the samples."""
    page = re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())
