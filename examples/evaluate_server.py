"""Evaluate a model behind an OpenAI-compatible server, on questions of your own, and write a page about it.

    python examples/evaluate_server.py http://127.0.0.1:8000/v1     # vLLM, SGLang, llama.cpp, or a hosted one

Needs the extra "endpoint"; a key is taken from OPENAI_API_KEY. The same on the command line:

    rlcr tasks build file --set path=capitals.csv --out capitals.jsonl
    rlcr eval --model http://127.0.0.1:8000/v1 --task capitals.jsonl --method base --out runs/served
    rlcr report runs/served
"""

import sys
from pathlib import Path

import rlcr

CAPITALS = (
    "question,answer\nCapital of France?,Paris\nCapital of Italy?,Rome\nCapital of Australia?,Canberra\n"
)


def main(address: str, folder: Path) -> rlcr.evaluate.results.Results:
    """Ask every question twice, grade, and show what came of it."""
    folder.mkdir(parents=True, exist_ok=True)
    table, task = folder / "capitals.csv", folder / "capitals.jsonl"
    table.write_text(CAPITALS)
    rlcr.tasks.write_problems(task, rlcr.tasks.load("file", path=str(table)).problems)

    settings = rlcr.evaluate.Settings(address, tasks=(str(task),), method="base", samples=2, max_tokens=512)
    results = rlcr.evaluate.evaluate(settings, folder / "run")
    for name, found in results.tasks.items():
        shown = {metric: found.summary.metrics[metric].value for metric in ("accuracy", "brier", "ece")}
        print(f"{name}: {found.completions} answers, {shown}")
    rlcr.report.page.write_report([folder / "run"], folder / "report.html")
    print(f"the answers themselves are in {folder / 'report.html'}")
    return results


if __name__ == "__main__":
    main(sys.argv[1], Path("runs/served"))
