"""What the documentation tells a reader to type exists, and does what it says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
#: Python where no model library can be imported.
NO_TORCH = "import sys; sys.modules |= dict.fromkeys(['torch', 'transformers', 'trl'])\n"


def run(code: str, folder: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    result = subprocess.run(
        [sys.executable, "-c", NO_TORCH + code],
        capture_output=True, text=True, check=False, cwd=folder, env=environment,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr


def test_every_documented_name_is_there_after_import_rlcr(tmp_path: Path) -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    names = {
        name
        for name in re.findall(r"(?<![\w/.-])rlcr(?:\.[A-Za-z_]\w*)+", text)
        if not name.endswith((".json", ".yaml", ".txt"))
        # An adapter is imported only with its engine; its core is there always.
        and (not name.startswith("rlcr.adapters.") or name.startswith("rlcr.adapters.core"))
    }
    assert len(names) > 15
    run("import rlcr\n" + "\n".join(sorted(names)), tmp_path)


@pytest.mark.parametrize(
    "page", [ROOT / "docs" / "python.md", ROOT / "README.md"], ids=lambda page: page.name
)
def test_its_python_runs(page: Path, tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    assert blocks
    run("\n".join(blocks), tmp_path)


def anchors(page: Path) -> set[str]:
    """The addresses of its headings, as GitHub and the site make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    heads = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "examples" / "README.md"], ids=lambda page: page.name
)
def test_every_link_leads_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    lost = []
    for target, anchor in re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)(#[^)\s]*)?\)", text):
        there = page.parent / target if target else page
        if not there.exists() or (anchor and there.suffix == ".md" and anchor[1:] not in anchors(there)):
            lost.append(target + anchor)
    assert not lost


def test_every_page_is_in_the_site() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^([a-z-]+)$", index, re.M))
    assert listed == {page.stem for page in (ROOT / "docs").glob("*.md")} - {"index"}
