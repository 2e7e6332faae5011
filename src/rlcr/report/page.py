"""The report: one page that holds everything, and the same figures and tables as files.

Everything that a model or a data set wrote is text here: escaped in the HTML by the template, escaped again
in the JSON of the samples, shown by the page's script as text alone, under a policy that runs and loads
nothing but the script and the style that this module put there.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from rlcr.errors import RlcrError
from rlcr.metrics.tables import csv_text, latex, markdown
from rlcr.report import charts, numbers, plots, samples
from rlcr.report.reading import read_runs
from rlcr.report.sections import Report, Section, Story, make_report
from rlcr.report.shapes import PALETTE, Figure, data_of
from rlcr.runs.lines import write_whole

if TYPE_CHECKING:
    from markupsafe import Markup

__all__ = ["Report", "Section", "Story", "make_report", "render", "write_files", "write_report"]

_HERE = Path(__file__).parent / "page"
# Each in one element of the page, one after the other.
_STYLES = ("style.css", "answers.css", "narrow.css", "print.css")
_SCRIPTS = ("reading.js", "store.js", "cards.js", "answers.js")
_LIVE_STYLES = (*_STYLES, "live.css")
_LIVE_SCRIPTS = ("reading.js", "store.js", "live.js", "cards.js", "answers.js")
_MOST_DATA_ROWS = 2000


def write_report(
    folders: Sequence[Path | str],
    out: Path | str,
    *,
    figures: Path | None = None,
    trained_on: Sequence[str] = (),
    story: Story | None = None,
) -> Report:
    """Read the runs and write the page; with ``figures``, the figures and tables as files too."""
    out = Path(out)
    if out.is_dir():
        raise RlcrError(f"{out}: is a folder; the report is one file, such as report.html")
    if figures is not None and figures.exists() and not figures.is_dir():
        raise RlcrError(f"{figures}: not a folder")
    inputs = read_runs([*map(Path, folders)], story.names if story else None)
    report = make_report(inputs, trained_on, story=story)
    write_whole(out, render(report))
    if figures is not None:
        write_files(report, figures)
    return report


# --- the page ---------------------------------------------------------------------------------------


def render(report: Report, *, live: bool = False, number: int = 0) -> str:
    """The page as HTML; a ``live`` one asks a server for its answers (:mod:`rlcr.report.live`).

    ``number`` counts the pages that a server makes of growing runs, so that none is loaded twice.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["cut"] = samples.cut
    environment.filters["coded"] = _coded
    environment.filters["whole_words"] = _whole_words
    style, script = _style_and_script(live)
    data = {
        "runs": [{"name": samples.cut(run.label), "method": samples.cut(run.method)} for run in report.evals],
        "colours": len(PALETTE),
        "live": live,
        "page": number,
        "total": report.selection.total,
        "problems": report.selection.problems,
        "samples": report.selection.samples,
    }

    def data_table(figure: Figure) -> tuple[list[str], list[list[str]], int]:
        heads, rows = data_of(figure)
        every = list(rows)
        return heads, every[:_MOST_DATA_ROWS], max(0, len(every) - _MOST_DATA_ROWS)

    text = environment.get_template("page.html").render(
        report=report,
        overview=numbers.overview(report.evals),
        tasks=list(dict.fromkeys(task for run in report.evals for task in map(samples.cut, run.rows.tasks))),
        live=live,
        style=Markup(style),
        script=Markup(script),
        policy=policy(live=live),
        data=Markup(samples.safe_json(data)),
        svg=lambda panel, figure: Markup(charts.panel_svg(panel, figure, small=figure.is_row)),
        swatch=lambda series: Markup(charts.swatch(series)),
        data_table=data_table,
        version=version("rlcr"),
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )
    # A name may hold half a character, which no file can.
    return text.lstrip().encode("utf-8", "replace").decode("utf-8")


def _coded(text: str) -> Markup:
    """A sentence of ours, in which what stands between backticks is shown as code; all of it is text."""
    from markupsafe import Markup, escape

    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(samples.cut(text)))))


def _whole_words(text: str) -> Markup:
    """A sentence whose short names with a hyphen, such as math-500, are not broken at it."""
    from markupsafe import Markup, escape

    escaped = str(escape(samples.cut(text)))
    return Markup(re.sub(r"(?<![^\s])[^\s<]{1,22}(?![^\s])", _unbroken, escaped))


def _unbroken(match: re.Match[str]) -> str:
    return f'<span class="word">{match.group()}</span>' if "-" in match.group() else match.group()


def _read(name: str) -> str:
    # HTML turns every line break into one character, and the policy's hash is over what it makes of the text.
    return (_HERE / name).read_text(encoding="utf-8").replace("\r\n", "\n")


def _palette() -> str:
    light = "".join(f"--s{n}:{pair[0]};" for n, pair in enumerate(PALETTE))
    dark = "".join(f"--s{n}:{pair[1]};" for n, pair in enumerate(PALETTE))
    rules = "".join(f".s{n}{{--c:var(--s{n})}}" for n in range(len(PALETTE)))
    return (
        f":root{{{light}}}:root[data-theme=dark]{{{dark}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}"
        f"@media print{{:root,:root[data-theme=dark]{{{light}}}}}{rules}"
    )


def _style_and_script(live: bool) -> tuple[str, str]:
    styles, scripts = (_LIVE_STYLES, _LIVE_SCRIPTS) if live else (_STYLES, _SCRIPTS)
    return "".join(map(_read, styles)).replace("/* palette */", _palette()), "".join(map(_read, scripts))


def policy(*, live: bool = False) -> str:
    """What the page may run and load: its script and its style, and if ``live`` its own server."""

    def source(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    style, script = map(source, _style_and_script(live))
    asks = "connect-src 'self'; " if live else ""
    return (
        f"default-src 'none'; script-src {script}; style-src {style}; img-src data:; {asks}"
        "base-uri 'none'; form-action 'none'"
    )


# --- files ------------------------------------------------------------------------------------------


def write_files(report: Report, folder: Path) -> list[Path]:
    """Every figure as PNG, SVG and PDF, every table as Markdown, LaTeX and CSV."""
    written: list[Path] = []
    for section in report.every_section():
        for figure in section.figures:
            written += plots.write_figure(figure, folder)
        for table in section.every_table():
            for ending, form in ((".md", markdown), (".tex", latex), (".csv", csv_text)):
                path = folder / f"{table.name}{ending}"
                write_whole(path, form(table).encode("utf-8", "replace").decode("utf-8"))
                written.append(path)
    return written
