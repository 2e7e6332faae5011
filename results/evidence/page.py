"""The page of the main comparison, from the answers that are kept: no model is needed, and no training.

    python -m results.evidence.page runs/evidence-page     the page: runs/evidence-page/report.html

What the start, RLVR and RLCR (one seed) answered to the test problems of the chains lies in the folder
answers. Each file becomes a run by `rlcr import`, and the page is that of `rlcr report`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from results.evidence.plan import ON_THE_PAGE, ONE_SEED, answers_of

from rlcr.errors import RlcrError
from rlcr.evaluate.importing import TableColumns, import_run
from rlcr.files import new_file
from rlcr.report.page import write_report
from rlcr.runs.lines import json_line
from rlcr.runs.store import open_run

REPORT = "report.html"
_MODEL = f"SmolLM2-135M, seed {ONE_SEED}"
_COLUMNS = TableColumns("completion", "gold", "question", id="id")


def keep_answers(folder: Path, path: Path) -> None:
    """Write the answers of an evaluation to the test problems of the chains, a line each."""
    run = open_run(folder)
    problems = run.problems()
    records = sorted((one for one in run.records() if one.id.startswith("chains/")), key=lambda one: one.id)
    path.parent.mkdir(parents=True, exist_ok=True)
    with new_file(path) as out:
        for record in records:
            problem = problems[record.id]
            line = {"id": record.id, "question": problem.question, "gold": problem.gold[0]}
            out.write(json_line(line | {"completion": record.text}).encode())


def make(out: Path) -> Path:
    """Import what is kept into a new folder, and write the page."""
    missing = [str(answers_of(shown)) for shown in ON_THE_PAGE if not answers_of(shown).exists()]
    if missing:
        raise RlcrError(f"missing: {', '.join(missing)}; `make evidence` makes them")
    runs = [out / shown for shown in ON_THE_PAGE]
    for run in runs:
        kept = answers_of(run.name)
        import_run(kept, run, _COLUMNS, format="confidence", verifier="math", task="chains", model=_MODEL)
    write_report(runs, out / REPORT)
    return out / REPORT


def main() -> None:
    """Make the page."""
    parser = argparse.ArgumentParser(description="Make the page of the main comparison from kept answers.")
    parser.add_argument("out", type=Path, help="a new folder")
    try:
        print(make(parser.parse_args().out))
    except RlcrError as error:
        sys.exit(f"page: {error}")


if __name__ == "__main__":
    main()
