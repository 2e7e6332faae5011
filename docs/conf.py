"""The documentation as a site: `make docs` builds it with Sphinx from the Markdown of this folder.

The start page is the README. Nothing comes from another host: the theme brings its own style, and the fonts
are the system's. A link that leads nowhere is an error (`-W`).
"""

from __future__ import annotations

import os
import re
import shutil
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

project = "rlcr"
author = "the rlcr developers"
release = version = installed("rlcr")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
html_theme = "furo"
html_title = "rlcr"
html_copy_source = False
html_show_copyright = False
html_css_files = ["site.css"]
html_static_path = ["static"]

myst_heading_anchors = 4
suppress_warnings = ["misc.highlighting_failure"]  # an ellipsis in an example is no mistake
default_role = "code"  # docstrings are plain English, with code in backticks
autodoc_member_order = "bysource"
autodoc_typehints = "description"

_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")
_CODE = re.compile(r"(``.+?``|:\w+:`[^`]+`|`[^`]+`)")


def _page(app: Any, name: str, source: list[str]) -> None:
    """The README before the contents of the start page, and links as they lead from this folder."""
    if name == "index":
        source[0] = (ROOT / "README.md").read_text(encoding="utf-8") + source[0]
    folder = ROOT if name == "index" else ROOT / "docs"

    def link(match: re.Match[str]) -> str:
        target = (folder / match.group(1)).resolve()
        if target == ROOT / "README.md":
            target = ROOT / "docs" / "index.md"
        # What is not in this folder is no page, and is given as the file that it is.
        kind = "" if target.parent == ROOT / "docs" or target.suffix != ".md" else "path:"
        return f"]({kind}{os.path.relpath(target, ROOT / 'docs')}{match.group(2) or ''})"

    source[0] = _LINK.sub(link, source[0])


def _text(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Read docstrings as they are meant: what is set in is shown as it stands, and formulas are no markup."""
    text: list[str] = []
    for line in lines:
        is_set_in = line.startswith("    ")
        if is_set_in and len(text) > 1 and not text[-1] and text[-2] and not text[-2].startswith(" "):
            text += ["::", ""]
        if not is_set_in and not line.startswith((">>>", "...")):
            parts = _CODE.split(line)
            # |x|, a * b, names that end in an underscore
            parts[::2] = [re.sub(r"([|*]|(?<=\w)_(?!\w))", r"\\\1", part) for part in parts[::2]]
            line = "".join(parts)
        text.append(line)
    lines[:] = text


def _reports(app: Any, error: Exception | None) -> None:
    """The reports of the quickstart and of the evidence, as they were made, beside the pages."""
    if error is None:
        for name in ("quickstart", "evidence"):
            made = os.environ[f"RLCR_{name.upper()}_REPORT"]
            shutil.copyfile(made, Path(app.outdir) / f"{name}-report.html")


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _page)
    app.connect("autodoc-process-docstring", _text)
    app.connect("build-finished", _reports)
